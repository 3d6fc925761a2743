"""What the tests of partitions share: pools of labels, divisions of them, and tables of who has what."""

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from coterie.data import PARTITIONS, Dataset, Partition, Samples
from coterie.streams import stream

Labels = npt.NDArray[np.int64]
Table = npt.NDArray[np.int64]


# How often each digit occurs in MNIST's training and test part.
MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def mixed(sizes: list[int], seed: int = 0) -> Labels:
    """Labels of classes with these sizes, in any order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def pooled(y: Labels, users: Labels | None = None, test: Samples | None = None) -> Dataset:
    """A data set with these labels, whose inputs are their own positions."""
    return Dataset(
        "labels", Samples(np.arange(len(y), dtype=np.float32)[:, None], y), test, int(y.max()) + 1, None, users
    )


def division(
    name: str, y: Labels, clients: int, seed: int = 0, users: Labels | None = None, **options: Any
) -> Partition:
    """What a partition makes of labels."""
    values = PARTITIONS.validate(name, options)
    return PARTITIONS[name](pooled(y, users), clients, stream(seed, "partition"), **values)


def table(y: Labels, made: Partition) -> Table:
    """(clients, classes): how many samples of each class each client has."""
    return np.stack([np.bincount(y[part], minlength=y.max() + 1) for part in made.parts])


def is_exact(y: Labels, made: Partition) -> bool:
    """Whether each sample is with exactly one client."""
    return np.array_equal(np.sort(np.concatenate(list(made.parts))), np.arange(len(y)))


@st.composite
def pools(draw: st.DrawFn, most: int = 60, classes: int = 12) -> tuple[Labels, int, int]:
    """Labels in any order and mixture, a number of clients that they suffice for, and a seed."""
    y = mixed(draw(st.lists(st.integers(1, most), min_size=1, max_size=classes)), draw(st.integers(0, 9)))
    return y, draw(st.integers(1, len(y))), draw(st.integers(0, 2**32))

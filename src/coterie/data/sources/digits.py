"""Scikit-learn's handwritten digits: real, tiny, always there; as they are, or with planted groups of clients.

In the divided versions client i belongs to group ``i % groups``, so no group is empty if there are as many
clients as groups. The images are dealt out evenly at random, and each group then sees them in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Index, Normalisation, Samples
from coterie.data.registries import dataset, divided_dataset
from coterie.streams import stream

_CLIENTS = 20


@dataset("digits", clients=_CLIENTS)
def digits() -> Dataset:
    """Handwritten digits of scikit-learn: 1,797 grey images of 8 x 8 in 10 classes, needs no file."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    train = Samples(bunch.images[:, None].astype(np.uint8), bunch.target.astype(np.int64))
    return Dataset("digits", train, None, 10, Normalisation(16.0, (0.3053,), (0.3760,)))


@divided_dataset("digits-rotated", clients=_CLIENTS)
def digits_rotated(
    clients: int,
    seed: int,
    *,
    groups: Annotated[
        int, Ge(1), Le(4), "Groups of clients; group g sees the images turned g times by 90 degrees."
    ] = 4,
) -> FederatedData:
    """Digits in up to four true groups of clients, each seeing the images turned by another right angle."""
    data = divide(replace(digits(), name="digits-rotated"), "iid", {}, clients, seed)
    # The server's set represents the union: within each class its images are turned as the groups' are, in turn.
    turns = np.empty(len(data.server), np.int64)
    turns[np.argsort(data.server.y, kind="stable")] = np.arange(len(turns)) % groups
    group = np.arange(clients) % groups
    return replace(
        data,
        train=_turned(data.train, _per_sample(group, data.train_parts)),
        test=_turned(data.test, _per_sample(group, data.test_parts)),
        server=_turned(data.server, turns),
        true_groups=group,
    )


@divided_dataset("digits-permuted", clients=_CLIENTS)
def digits_permuted(
    clients: int,
    seed: int,
    *,
    groups: Annotated[int, Ge(1), "Groups of clients; each but the first has its own permutation of the labels."] = 4,
) -> FederatedData:
    """Digits in true groups of clients, each naming the ten digits in another order."""
    data = divide(replace(digits(), name="digits-permuted"), "iid", {}, clients, seed)
    others = [stream(seed, "label permutation", group).permutation(data.classes) for group in range(1, groups)]
    names = np.stack([np.arange(data.classes), *others])
    group = np.arange(clients) % groups
    return replace(
        data,
        train=replace(data.train, y=names[_per_sample(group, data.train_parts), data.train.y]),
        test=replace(data.test, y=names[_per_sample(group, data.test_parts), data.test.y]),
        true_groups=group,
    )


def _per_sample(group: Index, parts: Sequence[Index]) -> Index:
    """Return the group of each sample, from that of each client."""
    of_sample = np.empty(sum(map(len, parts)), np.int64)
    for client, part in enumerate(parts):
        of_sample[part] = group[client]
    return of_sample


def _turned(samples: Samples, turns: Index) -> Samples:
    """Turn each image counter-clockwise by as many right angles as it is told to."""
    x = samples.x.copy()
    for count in np.unique(turns):
        x[turns == count] = np.rot90(x[turns == count], count, axes=(2, 3))
    return Samples(x, samples.y)

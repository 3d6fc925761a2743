"""Data sets that need no file: digits of scikit-learn, also with planted groups."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Normalisation, Samples
from coterie.data.partitions.concept_shift import Drift, Namings, Turns
from coterie.data.registries import dataset, divided_dataset

_CLIENTS = 20


@dataset("digits", clients=_CLIENTS)
def digits() -> Dataset:
    """Handwritten digits of scikit-learn: 1,797 grey images of 8 x 8 in 10 classes, needs no file."""
    return Dataset("digits", _digits(), None, 10, Normalisation(16.0, (0.3053,), (0.3760,)))


@cache
def _digits() -> Samples:
    """Read the digits once per process: they are a text file, which takes longer than to train on them.

    The file is read as it is: to import scikit-learn's own reader takes as long as to import PyTorch.
    """
    package = find_spec("sklearn")
    file = Path((package and package.origin) or "").parent / "datasets" / "data" / "digits.csv.gz"
    try:
        rows = np.loadtxt(file, delimiter=",")
    except OSError:  # it lies elsewhere in this version
        from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

        rows = np.column_stack(load_digits(return_X_y=True))
    images, labels = rows[:, :-1].astype(np.uint8).reshape(-1, 1, 8, 8), rows[:, -1].astype(np.int64)
    images.flags.writeable = labels.flags.writeable = False
    return Samples(images, labels)


@divided_dataset("digits-rotated", clients=_CLIENTS)
def digits_rotated(
    clients: int, seed: int, server_share: float | None = None, *, groups: Turns = 4, drift_at: Drift = None
) -> FederatedData:
    """Digits in up to four true groups of clients, each seeing the images turned by another right angle."""
    options = {"groups": groups, "drift_at": drift_at}
    return divide(
        replace(digits(), name="digits-rotated"), "rotated", options, clients, seed, server_share=server_share
    )


@divided_dataset("digits-permuted", clients=_CLIENTS)
def digits_permuted(
    clients: int, seed: int, server_share: float | None = None, *, groups: Namings = 4, drift_at: Drift = None
) -> FederatedData:
    """Digits in true groups of clients, each naming the ten digits in another order."""
    options = {"groups": groups, "drift_at": drift_at}
    return divide(
        replace(digits(), name="digits-permuted"), "permuted", options, clients, seed, server_share=server_share
    )

"""Data sets that need no file: digits of scikit-learn, also with planted groups."""

from dataclasses import replace
from functools import cache

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
    """Read the digits once per process: they are a text file, which takes longer than to train on them."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    images, labels = bunch.images[:, None].astype(np.uint8), bunch.target.astype(np.int64)
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

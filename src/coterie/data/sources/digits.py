"""Scikit-learn's handwritten digits: real, tiny, always there; as they are, or with planted groups of clients."""

from dataclasses import replace

import numpy as np

from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Normalisation, Samples
from coterie.data.partitions.concept_shift import Drift, Namings, Turns
from coterie.data.registries import dataset, divided_dataset

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
    groups: Turns = 4,
    drift_at: Drift = None,
) -> FederatedData:
    """Digits in up to four true groups of clients, each seeing the images turned by another right angle."""
    options = {"groups": groups, "drift_at": drift_at}
    return divide(replace(digits(), name="digits-rotated"), "rotated", options, clients, seed)


@divided_dataset("digits-permuted", clients=_CLIENTS)
def digits_permuted(
    clients: int,
    seed: int,
    *,
    groups: Namings = 4,
    drift_at: Drift = None,
) -> FederatedData:
    """Digits in true groups of clients, each naming the ten digits in another order."""
    options = {"groups": groups, "drift_at": drift_at}
    return divide(replace(digits(), name="digits-permuted"), "permuted", options, clients, seed)

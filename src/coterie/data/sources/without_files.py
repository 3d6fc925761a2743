"""Data sets that need no file: digits of scikit-learn, also with planted groups, and Synthetic(alpha, beta)."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Normalisation, Samples
from coterie.data.partitions.concept_shift import Drift, Namings, Turns
from coterie.data.registries import dataset, divided_dataset
from coterie.errors import CoterieError
from coterie.streams import stream

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


_FEATURES = 60
_CLASSES = 10


@divided_dataset("synthetic", clients=100)
def synthetic(
    clients: int,
    seed: int,
    server_share: float | None = None,
    *,
    alpha: Annotated[float, Ge(0), Le(1000), "How much the clients' models differ."] = 1.0,
    beta: Annotated[float, Ge(0), Le(1000), "How much the clients' inputs differ."] = 1.0,
) -> FederatedData:
    """Synthetic(alpha, beta): computed vectors of 60 features in 10 classes, a model per client, sizes by a power law.

    What a client has depends on the seed and its number only, not on how many clients there are, but for the
    samples that the server gets. A tenth of each client's samples is held out to test it. Inputs are
    used as they are, without normalisation.
    """
    if clients < 1:
        raise CoterieError(f"data set 'synthetic' cannot have {clients} clients: use at least 1")
    parts = [_client(alpha, beta, stream(seed, "synthetic", client)) for client in range(clients)]
    train = Samples(np.concatenate([samples.x for samples in parts]), np.concatenate([samples.y for samples in parts]))
    users = np.repeat(np.arange(clients), [len(samples) for samples in parts])
    as_it_is = Normalisation(1.0, (0.0,), (1.0,))
    pool = Dataset("synthetic", train, None, _CLASSES, as_it_is, users)
    return divide(pool, "by-user", {"min_samples": 1, "test_share": 0.1}, clients, seed, server_share=server_share)


def _client(alpha: float, beta: float, rng: np.random.Generator) -> Samples:
    """Draw a client's size, its model ``argmax(x W + b)``, where its inputs lie, and its inputs.

    alpha and beta are standard deviations, as in the code that published numbers were made with.
    """
    size = int(rng.lognormal(4.0, 2.0)) + 50
    centre = rng.normal(0.0, alpha)
    weights = rng.normal(centre, 1.0, (_FEATURES, _CLASSES))
    bias = rng.normal(centre, 1.0, _CLASSES)
    mean = rng.normal(rng.normal(0.0, beta), 1.0, _FEATURES)
    variance = np.arange(1, _FEATURES + 1) ** -1.2
    x = rng.normal(mean, np.sqrt(variance), (size, _FEATURES)).astype(np.float32)
    return Samples(x, np.argmax(x @ weights + bias, axis=1))

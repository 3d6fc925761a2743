"""Clients' samples as rows of numbers: checked, reduced to principal components, and the alignment of two sets (CKA).

Comparing samples is for simulations, not for real federations. Samples are rows; further axes are flattened, and bytes
are scaled to [0, 1].
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.similarity.signatures import signature

Floats = npt.NDArray[np.float64]

COMPONENTS = 32
"""Principal components to which samples with more features are reduced."""
FITTED = 2048
"""Principal components, and the bandwidth of MMD, come from about this many samples, evenly taken from all clients."""


def reduced(samples: Sequence[npt.ArrayLike], components: int | None = COMPONENTS) -> list[Floats]:
    """Return clients' samples in the first principal components of all together, (samples, ≤ components) each.

    Components come from about 2,048 samples, taken evenly from all, each client in proportion. Samples with no more
    features than `components` stay as they are, and so do all if it is None.
    """
    arrays = [np.asarray(x) for x in samples]
    if components is not None and components < 1:
        raise ValueError(f"components = {components} should be at least 1")
    if components is None or not arrays or features_of(arrays[0]) <= components:
        return checked(samples)
    check_features(arrays)
    fitted = as_rows(evenly_taken(arrays), "samples")
    centre = fitted.mean(axis=0)
    axes = signature(fitted - centre, components)
    if axes.shape[1] == 0:  # all are equal
        axes = np.eye(len(axes), 1)
    return [(x - centre) @ axes for x in (as_rows(x, f"samples[{i}]") for i, x in enumerate(arrays))]


def as_rows(x: npt.ArrayLike, name: str) -> Floats:
    """Return samples as rows of float64, bytes scaled to [0, 1]."""
    array = np.asarray(x)
    if array.ndim < 2 or len(array) == 0 or features_of(array) == 0:
        raise ValueError(f"{name} should have samples in rows, at least one, but has the shape {array.shape}")
    rows = array.reshape(len(array), -1).astype(np.float64)
    if array.dtype == np.uint8:
        rows /= 255.0
    elif not np.isfinite(rows).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return rows


def features_of(array: npt.NDArray[Any]) -> int:
    """Return how many numbers a sample has."""
    return int(np.prod(array.shape[1:], dtype=np.int64))


def check_features(arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Refuse clients whose samples have different numbers of features."""
    for i, x in enumerate(arrays):
        if features_of(x) != features_of(arrays[0]):
            raise ValueError(f"samples[{i}] has {features_of(x)} features, but samples[0] has {features_of(arrays[0])}")


def checked(samples: Sequence[npt.ArrayLike]) -> list[Floats]:
    """Return each client's samples as rows of float64."""
    rows = [as_rows(x, f"samples[{i}]") for i, x in enumerate(samples)]
    check_features(rows)
    return rows


def evenly_taken(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return rows taken evenly from all clients, at least one from each."""
    step = max(1, -(-sum(map(len, arrays)) // FITTED))
    return np.concatenate([x[::step] for x in arrays])


def each_pair(measure: Callable[[Any, Any], float], items: Sequence[Any]) -> Floats:
    """Return a symmetric measure of all pairs, with a diagonal of 0."""
    result = np.zeros((len(items), len(items)))
    for i, a in enumerate(items):
        for j, b in enumerate(items[:i]):
            result[i, j] = result[j, i] = measure(a, b)
    return result


def linear_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the linear centred kernel alignment of two sets of features of the same inputs, in rows; 1 is the same.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, columns centred: what two networks' layers make of the same images.
    It does not change if either is rotated or scaled. Constant features have an alignment of 0 with others, and of 1
    with constant ones.
    """
    a, b = (as_rows(z, name) for z, name in ((x, "x"), (y, "y")))
    if len(a) != len(b):
        raise ValueError(f"x has {len(a)} rows, but y has {len(b)}: both should be of the same inputs")
    return float(cka_of_grams([centred_gram(z - z[:1]) for z in (a, b)])[0, 1])  # so that equal rows are exactly 0


def centred_gram(outputs: npt.ArrayLike) -> Floats:
    """Return the products of all pairs of samples, after subtracting the mean output, (samples, samples)."""
    x = np.asarray(outputs, np.float64)
    x = x - x.mean(axis=0)
    return np.asarray(x @ x.T, np.float64)


def cka_of_grams(grams: Sequence[Floats]) -> Floats:
    """Return the cosines between all pairs of matrices, (n, n): the linear CKA, if these are centred Gram matrices.

    Constant outputs have a Gram matrix of 0: these are like each other (1) and unlike others (0).
    """
    rows = np.stack([gram.ravel() for gram in grams])
    products = rows @ rows.T
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    constant = norms == 0
    alike = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    alike[np.ix_(constant, constant)] = 1.0
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.clip(alike, 0.0, 1.0), np.float64)

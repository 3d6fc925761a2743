"""Data signatures: a few directions that span most of a client's samples (PACFL)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Eigenvalues below this share of the largest are rounding: their directions mean nothing."""


def signature(x: npt.ArrayLike, p: int = 3, labels: npt.ArrayLike | None = None) -> Floats:
    """Return the first `p` left singular vectors of samples given in rows, (features, ≤ p), orthonormal.

    The samples are not centred. Where they span fewer than `p` directions there are fewer columns. With
    `labels`, the vectors of each label stand side by side in increasing label order; across labels they are
    not orthonormal. The sign of a vector is such that its entry of largest magnitude is positive.

    >>> signature([[3.0, 0.0], [0.0, 1.0]], p=1)
    array([[1.],
           [0.]])
    """
    if p < 1:
        raise ValueError(f"a signature has at least one vector, got p = {p}")
    samples = np.asarray(x, np.float64)
    samples = samples.reshape(len(samples), math.prod(samples.shape[1:]))
    if labels is None:
        return _singular_vectors(samples, p)
    y = np.asarray(labels)
    if len(y) == 0:
        return _singular_vectors(samples, p)
    return np.hstack([_singular_vectors(samples[y == label], p) for label in np.unique(y)])


def _singular_vectors(samples: Floats, p: int) -> Floats:
    """Work on the smaller of the two Gram matrices, which is much cheaper than a thin SVD."""
    count, features = samples.shape
    if count == 0:
        return np.zeros((features, 0))
    gram: npt.NDArray[Any] = samples @ samples.T if count <= features else samples.T @ samples
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:p], vectors[:, ::-1][:, :p]
    vectors = vectors[:, values > max(values[0], 0.0) * NEGLIGIBLE]
    if count <= features:
        vectors = samples.T @ vectors
        vectors /= np.linalg.norm(vectors, axis=0, keepdims=True)
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))

"""Data signatures: a few directions that span most of a client's samples (PACFL)."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.streams import stream

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Eigenvalues below this share of the largest are rounding: their directions mean nothing."""
POOR = 1e-6
"""Eigenvalues below this share give directions that are not orthogonal to the last digits."""
AT_ONCE = 4096
"""Samples converted to float64 at a time, if there are more of them than features."""
WIDE = 1024
"""With more samples than features, and more features than this, vectors are found without the Gram matrix."""
EXACT = 1e-9
"""How far such vectors may be from singular ones, as a share of the largest eigenvalue."""


def signature(x: npt.ArrayLike, p: int = 3, labels: npt.ArrayLike | None = None) -> Floats:
    """Return the first `p` left singular vectors of samples given in rows, (features, ≤ p), orthonormal.

    The samples are not centred. If they span fewer than `p` directions there are fewer columns; black samples have
    none. With `labels`, the vectors of each label are side by side in increasing label order; across labels they
    are not orthonormal. The sign of a vector is such that its entry of largest magnitude is positive.

    >>> signature([[3.0, 0.0], [0.0, 1.0]], p=1)
    array([[1.],
           [0.]])
    """
    if p < 1:
        raise ValueError(f"a signature has at least one vector, got p = {p}")
    samples = np.asarray(x)
    samples = samples.reshape(len(samples), math.prod(samples.shape[1:]))
    if labels is None:
        return _singular_vectors(samples, p)
    y = np.asarray(labels)
    if len(y) != len(samples):
        raise ValueError(f"there are {len(samples)} samples, but {len(y)} labels")
    if len(y) == 0:
        return _singular_vectors(samples, p)
    return np.hstack([_singular_vectors(samples[y == label], p) for label in np.unique(y)])


def vectors_per_label(
    labels: npt.ArrayLike, p: int, share: float | None = None, budget: int | None = None
) -> dict[int, int]:
    """Return how many vectors a per-label signature has for each label, in increasing label order.

    `p` for each; or with `share` that share of its samples, rounded, at least 1 (FLAG); or with `budget` this many in
    total, in proportion to samples by largest remainders, at least 1 each (PACFL for Dirichlet partitions).

    >>> vectors_per_label([4] * 70 + [7] * 30, p=3)
    {4: 3, 7: 3}
    >>> vectors_per_label([4] * 70 + [7] * 30, p=3, share=0.05)
    {4: 4, 7: 2}
    >>> vectors_per_label([4] * 70 + [7] * 30, p=3, budget=20)
    {4: 14, 7: 6}
    """
    values, counts = np.unique(np.asarray(labels), return_counts=True)
    if budget is not None and len(values):
        exact = budget * counts / counts.sum()
        each = np.maximum(np.floor(exact).astype(int), 1)
        for label in np.argsort(-(exact - np.floor(exact)), kind="stable"):
            if each.sum() < budget and exact[label] >= 1:
                each[label] += 1
    elif share is not None:
        each = np.maximum(np.floor(share * counts + 0.5).astype(int), 1)
    else:
        each = np.full(len(values), p)
    return {int(value): int(number) for value, number in zip(values, each, strict=True)}


def _singular_vectors(samples: npt.NDArray[Any], p: int) -> Floats:
    """Work on the smaller of the two Gram matrices, which is much cheaper than a thin SVD."""
    count, features = samples.shape
    if min(count, features) == 0:
        return np.zeros((features, 0))
    if count > features > WIDE and (vectors := _by_iteration(samples, p)) is not None:
        return _signed(vectors)
    if count <= features:
        rows = samples.astype(np.float64, copy=False)
        gram = rows @ rows.T
    else:
        gram = np.zeros((features, features))
        for i in range(0, count, AT_ONCE):
            rows = samples[i : i + AT_ONCE].astype(np.float64, copy=False)
            gram += rows.T @ rows
    if not np.isfinite(gram).all():
        raise ValueError("the samples hold NaN or infinity")
    values, vectors = _largest_eigenpairs(gram, p)
    kept = values > max(values[0], 0.0) * NEGLIGIBLE
    values, vectors = values[kept], vectors[:, kept]
    if count <= features:
        vectors = rows.T @ vectors
        vectors /= np.linalg.norm(vectors, axis=0, keepdims=True)
        if (values < POOR * values.max(initial=0.0)).any():
            vectors = np.linalg.qr(vectors)[0]
    return _signed(vectors)


def _signed(vectors: Floats) -> Floats:
    """Choose signs so that each vector's entry of largest magnitude is positive."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))


def _by_iteration(samples: npt.NDArray[Any], p: int) -> Floats | None:
    """Return the vectors by block power iteration; None if they do not stand out enough from those that follow.

    For 5,000 CIFAR-10 images this takes a tenth of the time of the Gram matrix and its eigenvectors.
    """
    if len(samples) <= 2 * AT_ONCE:
        samples = samples.astype(np.float64, copy=False)
    basis = np.linalg.qr(stream(0, "signature").normal(size=(samples.shape[1], p + 16)))[0]
    for _ in range(40):
        image = np.zeros_like(basis)
        for i in range(0, len(samples), AT_ONCE):
            rows = samples[i : i + AT_ONCE].astype(np.float64, copy=False)
            image += rows.T @ (rows @ basis)
        if not np.isfinite(image).all():
            raise ValueError("the samples hold NaN or infinity")
        values, mixtures = np.linalg.eigh(basis.T @ image)
        values, mixtures = values[::-1][:p], mixtures[:, ::-1][:, :p]
        kept = values > max(values[0], 0.0) * NEGLIGIBLE
        vectors: Floats = basis @ mixtures[:, kept]
        if np.linalg.norm(image @ mixtures[:, kept] - vectors * values[kept], axis=0).max(initial=0.0) <= (
            EXACT * max(values[0], 0.0)
        ):
            return vectors
        basis = np.linalg.qr(image)[0]
    return None


def _largest_eigenpairs(gram: Floats, p: int) -> tuple[Floats, Floats]:
    """Return the `p` largest eigenvalues, or all, and their eigenvectors in columns, largest first."""
    n = len(gram)
    if n <= 32 or 4 * p > n:
        values, vectors = np.linalg.eigh(gram)
    else:
        import scipy.linalg

        values, vectors = scipy.linalg.eigh(gram, subset_by_index=(n - p, n - 1), check_finite=False)
    return values[::-1][:p], vectors[:, ::-1][:, :p]

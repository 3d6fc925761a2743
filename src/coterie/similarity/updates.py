"""How alike clients' models are: cosines of updates, FedGroup's EDC and MADC (Duan et al.), and predictions (FLIS)."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

AT_ONCE = 2**24
"""Entries of updates converted to float64 at a time, so that updates need not fit in memory twice."""
NEGLIGIBLE = 1e-12
"""Share of the largest eigenvalue below which a direction is rounding."""


def update_cosines(updates: npt.ArrayLike, others: npt.ArrayLike | None = None) -> Floats:
    """Return the cosines S_ij between updates given in rows, (clients, clients) or (clients, others).

    Without `others` they are symmetric with a diagonal of 1. An update of 0 has no direction: its cosine is 0 with
    all but itself.

    >>> update_cosines([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]]).round(4)
    array([[1.    , 0.7071, 0.    ],
           [0.7071, 1.    , 0.    ],
           [0.    , 0.    , 1.    ]])
    """
    x = _checked(updates, "updates")
    if others is None:
        gram = _gram(x)
        lengths = _lengths(np.diagonal(gram), "updates")
        cosines = np.clip(gram / lengths[:, None] / lengths, -1.0, 1.0)
        cosines = np.triu(cosines, 1)
        return cosines + cosines.T + np.eye(len(x))
    y = _checked(others, "others")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"updates have {x.shape[1]} entries, but others have {y.shape[1]}")
    a, b = _lengths(_squares(x), "updates"), _lengths(_squares(y), "others")
    return np.clip(_gram(x, y) / a[:, None] / b, -1.0, 1.0)


def cosine_features(updates: npt.ArrayLike, m: int) -> Floats:
    """Return X_ia = cos(Δ_i, V_a), V the first `m` right singular vectors of the updates in rows, (clients, m).

    These are the features behind FedGroup's EDC. They come from the Gram matrix of the updates: with its
    largest eigenvalues λ_a and their eigenvectors e_a, X_ia = √λ_a e_a[i] / ‖Δ_i‖. Updates of 0 have features of 0;
    where updates have fewer than `m` directions, the last columns are 0. The sign of a column is such that the
    entry of e_a of largest magnitude is positive.
    """
    if m < 1:
        raise ValueError(f"there is at least one feature, got m = {m}")
    x = _checked(updates, "updates")
    gram = _gram(x)
    lengths = _lengths(np.diagonal(gram), "updates")
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:m], vectors[:, ::-1][:, :m]
    values = np.where(values > NEGLIGIBLE * values.max(initial=0.0), values, 0.0)
    if len(x):
        vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    features = np.zeros((len(x), m))
    features[:, : len(values)] = np.sqrt(values) * vectors / lengths[:, None]
    features[np.diagonal(gram) == 0] = 0.0
    return np.clip(features, -1.0, 1.0)


def edc(updates: npt.ArrayLike, m: int) -> Floats:
    """Return the Euclidean distances of decomposed cosines, EDC(i, j) = ‖X_i − X_j‖ / m, (clients, clients)."""
    from scipy.spatial.distance import pdist, squareform

    features = cosine_features(updates, m)
    if len(features) < 2:
        return np.zeros((len(features), len(features)))
    return np.asarray(squareform(pdist(features) / m))


def madc(updates: npt.ArrayLike) -> Floats:
    """Return the mean absolute differences of cosines, MADC(i, j) = Σ_{z ≠ i, j} |S_iz − S_jz| / (n − 2).

    The result is (clients, clients), and so is the memory needed. Two clients have no third to compare them by: MADC is
    then 1 − S_ij.
    """
    from scipy.spatial.distance import pdist, squareform

    cosines = update_cosines(updates)
    n = len(cosines)
    apart = 1.0 - cosines
    if n < 3:
        return apart
    all_z = squareform(pdist(cosines, "cityblock"))
    return np.asarray(np.maximum(all_z - 2 * apart, 0.0) / (n - 2))


def gradient_diversity(gradients: npt.ArrayLike) -> float:
    """Return Λ = Σ_k ‖g_k‖² / (|C| ‖Σ_k g_k‖²) of clients' gradients in rows (PACFL, supplement, Eq. 4).

    Equal gradients of c clients have the smallest Λ, 1/c²; where gradients cancel out it is infinite. |C|² Λ is the
    measure of Haddadpour and Mahdavi (2019) for equal weights, which is 1 at the smallest.

    >>> gradient_diversity([[3.0, 4.0]]), gradient_diversity([[1.0, 0.0], [0.0, 1.0]])
    (1.0, 0.5)
    """
    x = _checked(gradients, "gradients")
    gram = _gram(x)
    _lengths(np.diagonal(gram), "gradients")
    whole = float(np.square(x.sum(axis=0, dtype=np.float64)).sum())
    return float(np.trace(gram)) / (len(x) * whole) if whole > 0 else float("inf")


def _checked(updates: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    x = np.asarray(updates)
    if x.ndim != 2:
        raise ValueError(f"{name} should have the shape (clients, entries), but have {x.shape}")
    return x


def _gram(x: npt.NDArray[Any], y: npt.NDArray[Any] | None = None) -> Floats:
    """Return x yᵀ, or x xᵀ, in float64, a block of columns at a time."""
    step = max(1, AT_ONCE // max(1, len(x)))
    total = np.zeros((len(x), len(x if y is None else y)))
    with np.errstate(invalid="ignore", over="ignore"):  # `_lengths` names what overflows
        for i in range(0, x.shape[1], step):
            some = x[:, i : i + step].astype(np.float64)
            total += some @ (some if y is None else y[:, i : i + step].astype(np.float64)).T
    return total


def _squares(x: npt.NDArray[Any]) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array([np.square(row, dtype=np.float64).sum() for row in x])


def _lengths(squares: Floats, name: str) -> Floats:
    """Return the lengths of updates to divide by, 1 for updates of 0."""
    bad = np.flatnonzero(~np.isfinite(squares))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}] holds NaN, infinity or numbers too large to square")
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def inference_similarity(predictions: npt.ArrayLike, others: npt.ArrayLike | None = None) -> Floats:
    """Return A_ij = <B_i, B_j> / (‖B_i‖ ‖B_j‖) in [0, 1], (clients, clients) or (clients, others).

    For predicted labels, (clients, samples), B_i is one-hot and A_ij the share of samples on which both agree; for soft
    outputs such as probabilities, (clients, samples, classes), B_i is the client's outputs. The diagonal is 1.

    >>> inference_similarity([[0, 1, 2, 2], [0, 1, 0, 0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    b = _checked_predictions(predictions, "predictions")
    c = b if others is None else _checked_predictions(others, "others")
    if b.ndim != c.ndim or b.shape[1:] != c.shape[1:]:
        raise ValueError(f"predictions of shape {b.shape} cannot be compared with others of shape {c.shape}")
    if b.ndim == 2:
        return np.array([(c == row).mean(axis=1) for row in b]).reshape(len(b), len(c))
    flat = None if others is None else c.reshape(len(c), -1)
    return np.clip(update_cosines(b.reshape(len(b), -1), flat), 0.0, 1.0)


def _checked_predictions(predictions: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    b = np.asarray(predictions)
    if b.ndim not in (2, 3) or 0 in b.shape[1:]:
        raise ValueError(
            f"{name} should be labels, (clients, samples), or outputs, (clients, samples, classes), but have the "
            f"shape {b.shape}"
        )
    if b.ndim == 2 and not np.issubdtype(b.dtype, np.integer):
        raise ValueError(f"{name} of shape {b.shape} should be whole-number labels, but are {b.dtype}")
    if b.ndim == 3 and b.size and not b.min() >= 0:
        raise ValueError(f"{name} hold negative numbers or NaN: outputs should be probabilities or one-hot")
    return b

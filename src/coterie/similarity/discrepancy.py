"""Maximum mean discrepancy: whether two clients' samples lie in the same regions."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.similarity.samples import Floats, checked, evenly_taken

AT_ONCE = 2**22
"""Entries of the kernel that are computed at a time."""
LARGE = 2**26
"""Where more pairs of samples than this are compared, the kernel is computed in float32."""


def mmd(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    bandwidth: float | None = None,
    unbiased: bool = False,
    squared: bool = False,
) -> float:
    """Return the maximum mean discrepancy of two samples with the kernel exp(−d² / 2σ²).

    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y), and MMD its root; `squared` asks for MMD². `unbiased` leaves
    the pairs of a row with itself out of the first two means (of one row they are 1), so that MMD² may come out below
    0; MMD is then 0. σ is `bandwidth`, or the median distance between two rows of both samples together (of about
    2,048 of them, evenly taken); where over half of these are 0, the mean of the others; 1 where all rows are equal.
    """
    rows = checked([x, y])
    distance = _mmd(rows, _bandwidth(rows, bandwidth), unbiased)[0, 1]
    return float(distance if squared else np.sqrt(max(distance, 0.0)))


def mmd_of_pairs(samples: Sequence[npt.ArrayLike], *, bandwidth: float | None = None, unbiased: bool = False) -> Floats:
    """Return MMD of all pairs of clients, with one bandwidth for all, (clients, clients)."""
    rows = checked(samples)
    return np.asarray(np.sqrt(np.maximum(_mmd(rows, _bandwidth(rows, bandwidth), unbiased), 0.0)))


def _bandwidth(rows: Sequence[Floats], given: float | None) -> float:
    if given is not None:
        if not (np.isfinite(given) and given > 0):
            raise ValueError(f"bandwidth = {given} should be greater than 0")
        return given
    from scipy.spatial.distance import pdist

    distances = pdist(evenly_taken(rows))
    median = float(np.median(distances)) if len(distances) else 0.0
    if median == 0:
        some = distances[distances > 0]
        return float(some.mean()) if len(some) else 1.0
    return median


def _mmd(rows: Sequence[Floats], bandwidth: float, unbiased: bool) -> Floats:
    """Return MMD² of all pairs, from the mean of the kernel between any two clients."""
    centre = np.mean([x.mean(axis=0) for x in rows], axis=0)
    accuracy: Any = np.float32 if sum(map(len, rows)) ** 2 > LARGE else np.float64
    scaled = ((np.concatenate(rows) - centre) / bandwidth).astype(accuracy)
    lengths = np.einsum("ij,ij->i", scaled, scaled) / 2
    ends = np.cumsum([0, *map(len, rows)])
    sums = np.zeros((len(rows), len(rows)))
    for i, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):  # with itself and those before
        step = max(1, AT_ONCE // end)
        for some in (slice(start, min(start + step, end)) for start in range(begin, end, step)):
            kernel = scaled[some] @ scaled[:end].T
            kernel -= lengths[some, None]
            kernel -= lengths[:end]
            np.exp(np.minimum(kernel, 0, out=kernel), out=kernel)
            sums[i, : i + 1] += np.add.reduceat(kernel.sum(axis=0, dtype=np.float64), ends[: i + 1])
    sums = np.tril(sums) + np.tril(sums, -1).T
    n = np.array([len(x) for x in rows], np.float64)
    within = sums.diagonal() / n**2
    if unbiased:
        within = np.where(n > 1, (sums.diagonal() - n) / np.maximum(n * (n - 1), 1), 1.0)
    result = within[:, None] + within - 2 * sums / np.outer(n, n)
    np.fill_diagonal(result, 0.0)
    return np.asarray(result)

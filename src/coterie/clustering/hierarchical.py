"""Hierarchical clustering of a proximity matrix: a tree of merges, and groups by cutting it (PACFL, FLIS-HC, FLAG).

>>> proximity = [[0, 1, 9], [1, 0, 7], [9, 7, 0]]
>>> merges = tree(proximity, "weighted")
>>> heights(merges)
array([1., 8.])
>>> cut(merges, threshold=7.9)
array([0, 0, 1])
>>> cut(merges, threshold=8)
array([0, 0, 0])
"""

import math

import numpy as np
import numpy.typing as npt

from coterie.errors import suggestion

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LINKAGES = ("single", "complete", "average", "weighted", "centroid", "median", "ward")
"""How far two groups are from each other; `average` is UPGMA, `weighted` is WPGMA."""

ROUNDING = 1e-6
"""Asymmetries, diagonals and negative entries up to this share of the largest entry are rounding of float32."""

ROUNDING_OF_COSINES = 64 * 2.0**-23
"""The same in matrices of float32, whatever is largest: 1 − cosine is a difference of numbers near 1."""

BLOCK = 256
"""Rows checked at a time, so that a large matrix is not copied whole."""


def tree(proximity: npt.ArrayLike, linkage: str = "average") -> Floats:
    """Merge the two closest groups until one is left, and return the merges as SciPy's linkage matrix, (n − 1, 4).

    `proximity` is (n, n), in any unit: 0 is the same, larger is farther. Row k of the result says which two groups
    merge into group n + k, at what distance, and how many clients it has. The tree of one client is (0, 4), that of
    none (0, 0). Where several pairs are equally close, which merges first depends on the order of clients, and is the
    same every time.

    `ward`, `centroid` and `median` are computed as if the proximities were Euclidean distances between points. With
    the latter two a merge may lie below the merges that it contains; see `cut`.

    10,000 clients take 0.85 GB besides the matrix, and some ten seconds.
    """
    if linkage not in LINKAGES:
        raise ValueError(f"no linkage '{linkage}': {suggestion(linkage, LINKAGES)}")
    distances = condensed(proximity)
    if len(distances) == 0:  # SciPy has no tree for one client, or none
        return np.zeros((0, 4 if np.size(proximity) else 0))
    from scipy.cluster import hierarchy

    return np.asarray(hierarchy.linkage(distances, linkage), np.float64)


def cut(tree: Floats, *, threshold: float | None = None, count: int | None = None) -> Ints:
    """Return each client's group, by the largest distance that merges or by the number of groups, (n,).

    `threshold`: groups merge if their distance is ≤ the threshold, in the unit of the proximities and without
    tolerance; below 0 nothing merges, not even duplicates. A merge that lies below one that it contains (`centroid`,
    `median`) counts as high as that one, as in SciPy's `fcluster`.

    `count`: exactly this many groups, even where merges tie; with `count` ≥ n each client is alone.

    Groups are numbered by first appearance.

    >>> duplicates = tree(np.zeros((3, 3)))
    >>> cut(duplicates, threshold=0), cut(duplicates, threshold=-1), cut(duplicates, count=2)
    (array([0, 0, 0]), array([0, 1, 2]), array([0, 0, 1]))
    """
    n = _clients(tree)
    if threshold is not None and count is None:
        if math.isnan(threshold):
            raise ValueError("the threshold is nan")
        merges = _heights(tree) <= threshold
    elif count is not None and threshold is None:
        if count < 1:
            raise ValueError(f"a tree is cut into at least one group, got count = {count}")
        merges = np.arange(len(tree)) < n - count
    else:
        raise ValueError("cut a tree either by `threshold` or by `count`")
    group = np.arange(n + len(tree))  # of clients, then of merges: each its own,
    parts = tree[:, :2].astype(np.int64)
    for k in np.flatnonzero(merges)[::-1]:  # or, from the top down, that of the merge which it is part of
        group[parts[k]] = group[n + k]
    return canonical(group[:n])


def heights(tree: Floats) -> Floats:
    """Return the thresholds at which the number of groups falls by one, ascending, (n − 1,)."""
    return np.sort(_heights(tree))


def number_of_groups(tree: Floats, thresholds: npt.ArrayLike) -> Ints:
    """Return how many groups `cut` makes at each threshold, in the shape of `thresholds`.

    >>> number_of_groups(tree([[0, 1, 9], [1, 0, 7], [9, 7, 0]]), [-1, 0, 1, 100])
    array([3, 3, 2, 1])
    """
    merges = np.searchsorted(heights(tree), np.asarray(thresholds, np.float64), side="right")
    return np.asarray(_clients(tree) - merges, np.int64)


def canonical(labels: npt.ArrayLike) -> Ints:
    """Number groups 0, 1, … in order of first appearance: equal partitions become equal arrays, (n,).

    >>> canonical([7, 7, -1, 7, 3])
    array([0, 0, 1, 0, 2])
    """
    _, first, group = np.unique(np.asarray(labels), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)


def condensed(proximity: npt.ArrayLike) -> Floats:
    """Check a proximity matrix (n, n), and return what is above its diagonal, row after row, (n (n − 1) / 2,).

    It must be finite, symmetric, nowhere negative and 0 on its diagonal, up to `ROUNDING` and
    `ROUNDING_OF_COSINES`; rounding is removed by averaging both triangles and clipping at 0.

    >>> condensed([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    array([1., 2., 3.])
    """
    p = np.asarray(proximity)
    n = len(p) if p.ndim else 0
    if p.shape != (n, n) and p.shape != (0,):
        raise ValueError(f"a proximity matrix is square, got shape {p.shape}")
    if n == 0:
        return np.zeros(0)
    low, high = float(p.min()), float(p.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        i, j = np.argwhere(~np.isfinite(p))[0]
        raise ValueError(f"proximity[{i}, {j}] is {p[i, j]}, not a finite number")
    slack = max(ROUNDING * max(high, -low), ROUNDING_OF_COSINES if p.dtype == np.float32 else 1e-12)
    if np.abs(p.diagonal()).max() > slack:
        i = np.abs(p.diagonal()).argmax()
        raise ValueError(f"proximity[{i}, {i}] is {p[i, i]}, not 0: is this a similarity? For cosines use 1 − cosine")
    if low < -slack:
        i, j = np.unravel_index(p.argmin(), p.shape)
        raise ValueError(f"proximity[{i}, {j}] is {p[i, j]}: proximities are not negative")

    result, end = np.empty(n * (n - 1) // 2), 0
    for start in range(0, n, BLOCK):
        upper = p[start : start + BLOCK, start:].astype(np.float64)
        lower = p[start:, start : start + BLOCK].T.astype(np.float64, order="C")
        if (apart := np.abs(upper - lower)).max() > slack:
            i, j = (int(k) + start for k in np.unravel_index(apart.argmax(), apart.shape))
            raise ValueError(f"proximity[{i}, {j}] is {p[i, j]}, but proximity[{j}, {i}] is {p[j, i]}: not symmetric")
        for k, row in enumerate(np.maximum((upper + lower) / 2, 0)):
            begin, end = end, end + len(row) - k - 1
            result[begin:end] = row[k + 1 :]
    return result


def _clients(tree: Floats) -> int:
    """Return the number of clients in a tree."""
    return len(tree) + 1 if tree.shape[1] else 0


def _heights(tree: Floats) -> Floats:
    """Return the lowest threshold at which each merge takes place: its distance, or a higher one inside it."""
    if len(tree) == 0:
        return np.zeros(0)
    from scipy.cluster import hierarchy

    return np.asarray(hierarchy.maxdists(tree), np.float64)

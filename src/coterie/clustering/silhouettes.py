"""Silhouettes: how much nearer clients are to their own group than to the next one (Rousseeuw, 1987)."""

import numpy as np

from coterie.clustering.grouping import Floats, Ints


def silhouette(proximity: Floats, labels: Ints) -> float:
    """Return the mean over clients of (b − a)/max(a, b): a to its own group, b to the nearest other; 0 if alone."""
    counts = np.bincount(labels)
    return _silhouette(proximity @ np.eye(len(counts))[labels], counts, labels)


def silhouettes(proximity: Floats, tree: Floats) -> dict[int, float]:
    """Return the silhouette of every cut of a tree by the number of groups, from 2 to n − 1; n³/2 operations."""
    n = len(tree) + 1
    sums = np.array(proximity, np.float64, order="F")  # of each client's distances to a group, (n, groups)
    counts, own, column = np.ones(n, np.int64), np.arange(n), np.arange(2 * n)
    at = list(range(n))  # the merge, or the client, that each column stands for
    scores: dict[int, float] = {}
    for k, pair in enumerate(tree[:-1, :2].astype(np.int64)):
        groups = n - 1 - k
        a, b = sorted(column[pair])
        for total in (sums.T, counts):
            total[a] += total[b]
            total[b] = total[groups]  # the last column fills the place that became free
        own[own == b] = a
        own[own == groups] = b
        at[b] = at[groups]
        column[at[b]], column[n + k], at[a] = b, a, n + k
        scores[groups] = _silhouette(sums[:, :groups], counts[:groups], own)
    return dict(sorted(scores.items()))


def _silhouette(sums: Floats, counts: Ints, labels: Ints) -> float:
    """Return the mean silhouette, given each client's summed distances to each group, (n, groups)."""
    every, own = np.arange(len(labels)), counts[labels]
    inside = sums[every, labels] / np.maximum(own - 1, 1)
    means = sums / counts
    means[every, labels] = np.inf
    nearest = means.min(axis=1)
    larger = np.maximum(inside, nearest)
    scores = np.where((own > 1) & (larger > 0), (nearest - inside) / np.where(larger > 0, larger, 1), 0)
    return float(scores.mean())

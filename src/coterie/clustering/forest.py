"""Average linkage where some pairs can't be compared: trees of merges, and nothing between them.

What no chain of known pairs connects is never merged. Such parts are joined at an infinite height, so that the merges
are still SciPy's linkage matrix; no threshold makes them.
"""

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import Floats, Ints, cut


def forest(distances: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Merge the two closest groups until no known pair is left between groups; return the merges, (n − 1, 4).

    `distances` is (n, n), symmetric, NaN where they are not known, and may be below 0, as unbiased estimates are. Two
    groups are as far apart as the mean of the known distances between them, weighted by `weights`, (n, n), if these
    are given. With all known and equal weights this is SciPy's average linkage. Heights below 0 become 0.

    2,000 clients take about a second: n² numbers are kept, and each merge looks at a few rows of them.

    >>> forest([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]])
    array([[ 0.,  1.,  1.,  2.],
           [ 2.,  3., inf,  3.]])
    """
    values = np.array(distances, np.float64)
    n = len(values)
    if n == 0:
        return np.zeros((0, 0))
    known = np.isfinite(values)
    np.fill_diagonal(known, False)
    totals = np.where(known, 1.0 if weights is None else np.asarray(weights, np.float64), 0.0)
    sums = np.where(known, values, 0.0) * totals
    means = np.where(totals > 0, values, np.inf)
    nearest = means.argmin(axis=1)
    closest = means[np.arange(n), nearest]
    branch, sizes, alive = np.arange(n), np.ones(n), np.ones(n, bool)
    merges = np.zeros((n - 1, 4))
    for k in range(n - 1):
        i = int(closest.argmin())
        if not np.isfinite(closest[i]):
            break
        i, j = sorted((i, int(nearest[i])))
        merges[k] = [*sorted(branch[[i, j]]), max(closest[i], 0.0), sizes[i] + sizes[j]]
        branch[i], alive[j], closest[j] = n + k, False, np.inf
        sizes[i] += sizes[j]
        for matrix in (sums, totals):
            matrix[i] += matrix[j]
            matrix[:, i] = matrix[i]
        row = np.where(alive & (totals[i] > 0), sums[i] / np.where(totals[i] > 0, totals[i], 1.0), np.inf)
        row[i] = np.inf
        means[i], means[:, i], means[:, j] = row, row, np.inf
        # A mean of two distances is never below both: only rows whose nearest was one of the two change theirs.
        for other in (i, *np.flatnonzero(alive & ((nearest == i) | (nearest == j)))):
            nearest[other] = means[other].argmin()
            closest[other] = means[other, nearest[other]]
    else:
        return merges
    return _joined(merges, k, branch[alive], sizes[alive])


def _joined(merges: Floats, done: int, branches: Ints, sizes: Floats) -> Floats:
    """Join the trees of a forest at an infinite height."""
    n, whole, size = len(merges) + 1, branches[0], sizes[0]
    for k, (branch, more) in enumerate(zip(branches[1:], sizes[1:], strict=True), start=done):
        size += more
        merges[k] = [*sorted((whole, branch)), np.inf, size]
        whole = n + k
    return merges


def mean_between(merges: Floats, values: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """Return the weighted mean of `values`, (n, n), over the pairs that each merge brings together; NaN for none.

    >>> tree = np.array([[0, 1, 1.0, 2], [2, 3, 5.0, 3]])
    >>> mean_between(tree, [[0, 1, 4], [1, 0, 6], [4, 6, 0]], np.ones((3, 3)))
    array([1., 5.])
    """
    totals = np.array(weights, np.float64)
    sums = np.nan_to_num(np.asarray(values, np.float64)) * totals
    n = len(merges) + 1
    row = np.arange(2 * n - 1)  # in which the sums of a branch are
    result = np.full(len(merges), np.nan)
    for k, pair in enumerate(merges[:, :2].astype(np.int64)):
        i, j = row[pair]
        if totals[i, j] > 0:
            result[k] = sums[i, j] / totals[i, j]
        for matrix in (sums, totals):
            matrix[i] += matrix[j]
            matrix[:, i] += matrix[:, j]
        row[n + k] = i
    return result


def parts_of(merges: Floats) -> Ints:
    """Return the tree of a forest that each client is in, (n,)."""
    count = 1 + int(np.isinf(merges[:, 2]).sum()) if len(merges) else 1
    return cut(merges, count=count)


def silhouettes(
    merges: Floats, distances: Floats, wanted: Collection[int], least: float = -1.0
) -> Iterator[tuple[int, float]]:
    """Yield how many merges are made, and the mean silhouette, of the wanted cuts of a forest.

    Only known pairs count, and clients whose part is divided. A client with no known pair in its own group, or to
    others, counts 0; a mean distance below 0 is 0. Cuts with so many clients alone that they can't reach the least
    silhouette are passed over.
    """
    n, parts, every = len(distances), parts_of(merges), np.arange(len(distances))
    known = np.isfinite(distances)
    np.fill_diagonal(known, False)
    sums, numbers = np.where(known, distances, 0.0), known.astype(np.float64)  # of a group, to each client
    means = np.where(known, np.maximum(sums, 0.0), np.inf)  # but infinite to its own members
    row, own, size, groups_in = np.arange(2 * n - 1), np.arange(n), np.ones(n), np.bincount(parts)
    mates = int((groups_in[parts] > 1).sum())
    inside, near = np.full(n, np.inf), means.argmin(axis=0)
    for made in range(int(np.isfinite(merges[:, 2]).sum())):
        singles = int((size == 1).sum()) - (n - mates)
        if made in wanted and singles <= (1 - least) * mates:
            yield made, _mean_score(inside, means[near, every], groups_in[parts] > 1)
        i, j = row[merges[made, :2].astype(np.int64)]
        for table in (sums, numbers, size):
            table[i] += table[j]
        size[j] = 0
        groups_in[parts[i]] -= 1
        own[own == j], row[n + made] = i, i
        members = own == i
        mean = np.where(numbers[i] > 0, np.maximum(sums[i], 0.0) / np.maximum(numbers[i], 1), np.inf)
        inside[members] = mean[members]
        means[i], means[j] = np.where(members, np.inf, mean), np.inf
        # A mean of two is never below both, so that only these can have another nearest group now.
        stale, groups = np.flatnonzero(members | (near == i) | (near == j)), np.flatnonzero(size)
        near[stale] = groups[means[np.ix_(groups, stale)].argmin(axis=0)]


def _mean_score(inside: Floats, nearest: Floats, counted: npt.NDArray[np.bool_]) -> float:
    """Return the mean of (b − a) / max(a, b) over the clients that count; 0 for one without a or b."""
    usable = np.isfinite(inside) & np.isfinite(nearest)
    a, b = np.where(usable, inside, 0.0), np.where(usable, nearest, 0.0)
    larger = np.maximum(a, b)
    scores = np.where(larger > 0, (b - a) / np.where(larger > 0, larger, 1.0), 0.0)
    return float(scores[counted].mean())

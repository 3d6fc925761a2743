"""How well two groupings agree, and how well groups fit what their clients have."""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt


def adjusted_rand_index(a: Sequence[int], b: Sequence[int]) -> float:
    """Return 1 for equal groupings, about 0 for unrelated ones; names of groups do not matter.

    Two groupings that both have one group, or both only singletons, are equal.

    >>> adjusted_rand_index([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    """
    counts = contingency(a, b)
    together, in_a, in_b = (_pairs(sizes) for sizes in (counts, counts.sum(axis=1), counts.sum(axis=0)))
    by_chance, pairs = in_a * in_b, _pairs(counts.sum())
    if together == in_a == in_b:
        return 1.0
    return (together * pairs - by_chance) / ((in_a + in_b) * pairs / 2 - by_chance)


def normalised_mutual_information(a: Sequence[int], b: Sequence[int]) -> float:
    """Return mutual information over the mean entropy of two groupings: 1 if equal, 0 if independent.

    It is not adjusted for chance: many small groups score high. One group against one group is 1, against several 0.

    >>> normalised_mutual_information([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    """
    share = contingency(a, b) / max(len(a), 1)
    in_a, in_b = share.sum(axis=1), share.sum(axis=0)
    entropies = _entropy(in_a) + _entropy(in_b)
    if entropies == 0:
        return 1.0
    return float(np.clip(2 * (entropies - _entropy(share)) / entropies, 0, 1))


def contingency(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return how many clients each group of one grouping shares with each of another, (groups, groups).

    >>> contingency([0, 0, 1, 1], [5, 5, 3, 5])
    array([[0, 2],
           [1, 1]])
    """
    rows, columns = (np.unique(np.asarray(groups), return_inverse=True)[1] for groups in (a, b))
    if len(rows) != len(columns):
        raise ValueError(f"two groupings of the same clients: {len(rows)} and {len(columns)} of them")
    height, width = (int(places.max(initial=-1)) + 1 for places in (rows, columns))
    return np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)


def _pairs(sizes: npt.ArrayLike) -> int:
    """Return how many pairs there are inside of groups of some sizes; exactly, as numbers of Python."""
    return sum(size * (size - 1) // 2 for size in np.ravel(sizes).tolist())


def _entropy(shares: npt.NDArray[np.float64]) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def clustering_error(groups: npt.ArrayLike, label_sets: Sequence[Collection[int]]) -> float:
    """Return FLIS's clustering error: false positives and false negatives per client, between 0 and n − 1.

    `groups` holds labels (n,), or who is in whose group (n, n), as `row_groups` returns. Client j belongs in the
    group of i if it has at least half of i's labels: |C_i ∩ C_j| ≥ ⌈|C_i| / 2⌉. The reverse need not
    hold. The paper defines the error as the sum of false positives and false negatives, so it is a number of clients,
    not a share, averaged over the n clients.

    >>> clustering_error([0, 0, 1], [{1, 2}, {2, 3}, {3, 4}])  # client 2 is missed by 1, and 1 by it
    0.6666666666666666
    """
    together = np.asarray(groups)
    if together.ndim == 1:
        together = together[:, None] == together
    n = len(label_sets)
    if together.shape != (n, n):
        raise ValueError(f"{n} label sets, but groups have shape {np.shape(groups)}")
    if n == 0:
        return 0.0
    if 0 in (sizes := [len(labels) for labels in label_sets]):
        raise ValueError(f"client {sizes.index(0)} has no labels")
    classes = {label: column for column, label in enumerate(sorted(set().union(*label_sets)))}
    has = np.zeros((n, len(classes)))
    for client, labels in enumerate(label_sets):
        has[client, [classes[label] for label in labels]] = 1
    expected = has @ has.T >= np.ceil(has.sum(axis=1) / 2)[:, None]
    return float((together.astype(bool) != expected).sum() / n)

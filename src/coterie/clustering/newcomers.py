"""Placing newcomers: beside groups that stay as they are, or by grouping anew."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coterie.clustering.grouping import Floats, Grouping, founding_weights
from coterie.clustering.hierarchical import cut, tree


def extend(grouping: Grouping, cross: npt.ArrayLike, among: npt.ArrayLike, reach: float | None = None) -> Grouping:
    """Return the grouping with newcomers behind the old clients, whose groups stay as they are.

    `cross` holds the distances of newcomers to old clients, (newcomers, n), `among` those between newcomers, both in
    the unit of the grouping. A newcomer joins the group that is nearest by the grouping's linkage if it is within
    `reach`, by default the threshold. Those for whom no group is near enough found new ones, numbered on from the old,
    together where they are near each other. Who joins does not move a group: later newcomers are measured by its
    founders.
    """
    cross, among = np.asarray(cross, np.float64), np.asarray(among, np.float64)
    old, new = len(grouping.labels), len(among)
    if cross.shape != (new, old) or among.shape != (new, new):
        raise ValueError(
            f"{old} old clients need a cross block of (newcomers, {old}) and one of (newcomers, newcomers) among "
            f"them, got {cross.shape} and {among.shape}"
        )
    if not (np.isfinite(cross).all() and np.isfinite(among).all()):
        raise ValueError("a distance of a newcomer is not finite")
    labels, weights = np.full(new, -1), np.zeros(new)
    far = distance_to_groups(grouping, cross)
    reach = grouping.threshold if reach is None else reach
    near = far.min(axis=1) <= reach if far.size else np.zeros(new, bool)
    labels[near] = far[near].argmin(axis=1)
    left = np.flatnonzero(~near)
    if len(left):
        merges = tree(among[np.ix_(left, left)], grouping.linkage)
        founded = cut(merges, threshold=grouping.threshold)
        labels[left] = grouping.n_groups + founded
        weights[left] = founding_weights(merges, founded, grouping.linkage)
    return replace(
        grouping,
        labels=np.concatenate([grouping.labels, labels]),
        weights=np.concatenate([grouping.weights, weights]),
        proximity=None,
    )


def distance_to_groups(grouping: Grouping, cross: npt.ArrayLike) -> Floats:
    """Return how far each newcomer is from each group by the grouping's linkage, (newcomers, groups)."""
    cross = np.asarray(cross, np.float64)
    columns = []
    for group in range(grouping.n_groups):
        founders = np.flatnonzero((grouping.labels == group) & (grouping.weights > 0))
        distances = cross[:, founders]
        if grouping.linkage == "single":
            columns.append(distances.min(axis=1))
        elif grouping.linkage == "complete":
            columns.append(distances.max(axis=1))
        else:
            columns.append(distances @ grouping.weights[founders])
    return np.stack(columns, axis=1) if columns else np.zeros((len(cross), 0))


def matched(new: npt.ArrayLike, old: npt.ArrayLike) -> dict[int, int]:
    """Return which old group's model each new group goes on with, after grouping anew.

    `old` and `new` are the groups of the same clients. Pairs with most clients in common come first, ties by the
    lower numbers; a new group for which no old one is left is not in the result.

    >>> matched([0, 0, 1, 1, 2], [1, 1, 0, 1, 0])
    {0: 1, 1: 0}
    """
    new, old = np.asarray(new), np.asarray(old)
    pairs, overlap = np.unique(np.stack([new, old], axis=1), axis=0, return_counts=True)
    heirs: dict[int, int] = {}
    for k in np.argsort(-overlap, kind="stable"):
        a, b = (int(value) for value in pairs[k])
        if a not in heirs and b not in heirs.values():
            heirs[a] = b
    return heirs

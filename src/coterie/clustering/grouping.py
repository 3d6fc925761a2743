"""The result of every clustering, and how newcomers are placed in it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import Floats, Ints, cut, heights, tree


@dataclass(frozen=True)
class Grouping:
    """Groups of clients, how they were found, and how clear they are.

    Clients are positions 0 … n − 1; the caller knows who they are.
    """

    labels: Ints
    """The group of each client, numbered by first appearance, (n,)."""
    tree: Floats
    """The merges that led there, as a linkage matrix in `unit`, without later clients; infinite heights join what is
    never merged."""
    threshold: float
    """Where the tree was cut: merges at most this high were made."""
    unit: str
    """Of heights and threshold: ``degrees``, ``times noise``, …"""
    rule: str
    linkage: str
    reason: str
    """Why these groups, in a sentence or two."""
    weights: Floats
    """How much each client counts in a newcomer's distance to its group; 0 for later clients, (n,)."""
    passes: int = field(default=0, kw_only=True)
    """How many times landmarks were chosen that stand for all clients; 0 where every two clients were compared."""
    proximity: Floats | None = field(default=None, repr=False, metadata={"saved": "never"})  # large; can be recomputed
    """What was clustered, in `unit`, (n, n); None above 5,000 clients."""

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    @property
    def heights(self) -> Floats:
        """The thresholds at which groups merge, ascending; those that never do are not in it."""
        merges = heights(self.tree)
        return merges[np.isfinite(merges)]

    @property
    def confidence(self) -> float | None:
        """How clear the cut is, 0 to 1: the gap around it, as a share of its upper edge.

        No merge lies between the highest that was made and the lowest that was not; 0.5 means that any cut within a
        factor of two gives these groups. Where all clients are in one group, or each is alone, the cut
        itself is the missing edge. None where there is nothing to group.
        """
        merges = self.heights
        if len(merges) == 0:
            return None
        made = int(np.searchsorted(merges, self.threshold, side="right"))
        below = merges[made - 1] if made else max(self.threshold, 0.0)
        above = merges[made] if made < len(merges) else self.threshold
        return float(np.clip(1 - below / above, 0, 1)) if above > 0 else 1.0

    def members(self, group: int) -> Ints:
        """Return the clients of a group."""
        return np.flatnonzero(self.labels == group)

    def with_others(self, labels: npt.ArrayLike) -> "Grouping":
        """Return the grouping with the groups of later clients, who count in no distance."""
        later = np.asarray(labels, np.int64)
        weights = np.concatenate([self.weights, np.zeros(len(later))])
        return replace(self, labels=np.concatenate([self.labels, later]), weights=weights, proximity=None)

    def summary(self) -> dict[str, Any]:
        """Return what results record of a grouping."""
        return {
            "rule": self.rule,
            "threshold": self.threshold,
            "unit": self.unit,
            "reason": self.reason,
            "confidence": self.confidence,
        }


def founding_weights(tree: Floats, labels: Ints, linkage: str) -> Floats:
    """Return the weight of each client in the mean distance to its group, (n,); they sum to 1 in a group.

    `weighted` (WPGMA) counts both halves of a merge equally, however many clients they have: 2^−merges. All other
    linkages count clients equally.
    """
    if linkage != "weighted":
        return np.asarray(1 / np.bincount(labels)[labels], np.float64)
    clients: list[list[int]] = [[i] for i in range(len(labels))]  # of each merge inside a group; of others, none
    weights = np.ones(len(labels))
    for a, b in tree[:, :2].astype(np.int64):
        inside = clients[a] and clients[b] and labels[clients[a][0]] == labels[clients[b][0]]
        clients.append(clients[a] + clients[b] if inside else [])
        weights[clients[-1]] /= 2
    return weights


def extend(grouping: Grouping, cross: npt.ArrayLike, among: npt.ArrayLike, reach: float | None = None) -> Grouping:
    """Return the grouping with newcomers after the old clients, whose groups stay as they are.

    `cross` holds the distances of newcomers to old clients, (newcomers, n), `among` those between newcomers, both in
    the unit of the grouping. A newcomer joins the group that is nearest by the grouping's linkage if it is within
    `reach`, by default the threshold. Those with no group near enough found new ones, numbered after the old,
    together if they are near each other. Joining does not move a group: later newcomers are measured against its
    founders.
    """
    cross, among = np.asarray(cross, np.float64), np.asarray(among, np.float64)
    old, new = len(grouping.labels), len(among)
    if cross.shape != (new, old) or among.shape != (new, new):
        raise ValueError(
            f"cross should have the shape (newcomers, {old}) and among (newcomers, newcomers), "
            f"got {cross.shape} and {among.shape}"
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
    """Return which old group's model each new group continues with, after regrouping.

    `old` and `new` are the groups of the same clients. Pairs with most clients in common come first, ties by the
    lower numbers; a new group with no old one left is not in the result.

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


def row_groups(similarity: npt.ArrayLike, threshold: float) -> npt.NDArray[np.bool_]:
    """Return who is in whose group, (n, n): entry i, j is true iff A_ij ≥ β, so that j belongs to G_i (FLIS-DC).

    There are as many groups as clients, and they overlap. A client is always in its own group, whatever the
    threshold. `np.flatnonzero` of row i lists the members of G_i.

    >>> row_groups([[1.0, 0.8, 0.1], [0.8, 1.0, 0.5], [0.1, 0.5, 1.0]], threshold=0.5)
    array([[ True,  True, False],
           [ True,  True,  True],
           [False,  True,  True]])
    """
    a = np.asarray(similarity)
    n = len(a) if a.ndim else 0
    if a.shape != (n, n) and a.shape != (0,):
        raise ValueError(f"a similarity matrix is square, got shape {a.shape}")
    if np.isnan(a).any() or np.isnan(threshold):
        raise ValueError("similarities and threshold must be numbers, not nan")
    members: npt.NDArray[np.bool_] = a.reshape(n, n) >= threshold
    np.fill_diagonal(members, True)
    return members

"""The answer to "who belongs together", everywhere the same."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import heights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grouping:
    """Groups of clients, how they were found, and how sure they are.

    Clients are positions 0 … n − 1; who they are is for the caller to know.
    """

    labels: Ints
    """The group of each client, numbered by first appearance, (n,)."""
    tree: Floats
    """The merges that led there, as a linkage matrix in `unit`; clients that came later are not in it."""
    threshold: float
    """Where the tree was cut: merges at most this high were made."""
    unit: str
    """Of heights and threshold: ``degrees``, ``times noise``, …"""
    rule: str
    linkage: str
    reason: str
    """Why these groups, in a sentence or two."""
    weights: Floats
    """How much each client counts in a newcomer's distance to its group; 0 for those who came later, (n,)."""
    proximity: Floats | None = field(default=None, repr=False, metadata={"saved": "never"})  # large; can be made again
    """What was clustered, in `unit`, (n, n)."""

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    @property
    def heights(self) -> Floats:
        """The thresholds at which groups merge, ascending."""
        return heights(self.tree)

    @property
    def confidence(self) -> float | None:
        """How clear the cut is, 0 to 1: the gap around it, as a share of its upper edge.

        Between the highest merge that was made and the lowest that was not lies nothing; 0.5 says that any cut
        within a factor of two gives these groups. Where all clients are in one group, or each is alone, the cut
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

    def summary(self) -> dict[str, Any]:
        """Return what results say of a grouping."""
        return {
            "rule": self.rule,
            "threshold": self.threshold,
            "unit": self.unit,
            "reason": self.reason,
            "confidence": self.confidence,
        }


def founding_weights(tree: Floats, labels: Ints, linkage: str) -> Floats:
    """Return the weight of each client in the mean distance to its group, (n,); they sum to 1 in a group.

    `weighted` (WPGMA) counts both halves of a merge the same, however many clients they have: 2^−merges. All other
    linkages count clients the same.
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

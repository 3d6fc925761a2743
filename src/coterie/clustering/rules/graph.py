"""Rules that divide a graph of clients instead of a tree of merges (PACFL's sixth remark)."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from coterie.clustering.grouping import Grouping
from coterie.clustering.hierarchical import Floats, Ints, canonical
from coterie.clustering.k_means import k_means
from coterie.clustering.rules import Cut, Rule, rule

SEED = 0
"""Of k-means, so that the same distances give the same groups."""


@rule("components")
@dataclass(frozen=True, kw_only=True)
class Components(Rule):
    """Join clients up to a distance by edges: groups are the connected components of that graph."""

    default_linkage: ClassVar[str] = "single"
    per_label: ClassVar[bool] = True

    threshold: Annotated[float, Ge(0), "clients up to this distance are joined by an edge"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "linkage", self.default_linkage)  # a newcomer joins by its shortest edge

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Find the components, which are what single linkage merges up to the threshold."""
        upto = f"{self.threshold:g} {self.unit}".rstrip()
        return Cut(components(distances, self.threshold), self.threshold, f"Edges join clients up to {upto}, as asked")


def components(distances: Floats, threshold: float) -> Ints:
    """Return the connected component of each client, where edges are distances up to a threshold.

    >>> components(np.array([[0, 1, 9.0], [1, 0, 8], [9, 8, 0]]), 2.0)
    array([0, 0, 1])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return canonical(connected_components(csr_array(distances <= threshold), directed=False)[1])


@rule("spectral")
@dataclass(frozen=True, kw_only=True)
class Spectral(Rule):
    """Divide the graph of clients by the first eigenvectors of its Laplacian; how many, by their largest gap."""

    groups: Annotated[int | None, Ge(1), "how many groups; by default where eigenvalues have their largest gap"] = None
    neighbours: Annotated[
        int, Ge(1), "an edge is as strong as two clients are near, compared with this neighbour of each"
    ] = 2

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Normalise the rows of the first k eigenvectors, and divide them by k-means (Ng, Jordan and Weiss, 2001)."""
        n = len(distances)
        values, vectors = np.linalg.eigh(laplacian(distances, self.neighbours))
        gaps = np.diff(values[: n // 2 + 1])
        k = min(self.groups, n) if self.groups else int(gaps.argmax()) + 1 if len(gaps) else 1
        rows = vectors[:, :k] / np.maximum(np.linalg.norm(vectors[:, :k], axis=1, keepdims=True), 1e-12)
        labels = k_means(rows.round(9), k, np.random.default_rng(SEED)).labels
        reason = f"{k} group{'s' * (k > 1)}, as asked" if self.groups else "The Laplacian's eigenvalues have no gap"
        if not self.groups and len(gaps):
            first = "the first" if k == 1 else f"the first {k}"
            reason = f"Behind {first} the Laplacian's eigenvalues have their largest gap, {gaps[k - 1]:.2f}"
        return Cut(labels, 0.0, reason)

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Group clients; no tree of merges leads to these groups."""
        return replace(super().group(proximity, noise), tree=np.zeros((0, 4)))

    def reach(self, grouping: Grouping) -> float:
        """Any distance: newcomers join the nearest group."""
        return math.inf

    def regroup(self, grouping: Grouping, distances: Floats) -> Grouping:
        """Divide the graph of all clients into as many groups again."""
        return replace(replace(self, groups=grouping.n_groups).group(distances), reason=grouping.reason)


def laplacian(distances: Floats, neighbours: int) -> Floats:
    """Return I − D^−½ W D^−½ with W_ij = exp(−d_ij² / σ_i σ_j), σ_i the distance of i's k-th neighbour.

    This scaling of each client by its own neighbourhood (Zelnik-Manor and Perona, 2004) needs no unit. A client with as
    many duplicates as neighbours has edges to these only. The row of a client without edges is 0.
    """
    n = len(distances)
    sigma = np.sort(distances, axis=1)[:, min(neighbours, n - 1)]
    scale = sigma[:, None] * sigma
    with np.errstate(divide="ignore", invalid="ignore"):
        W = np.where(scale > 0, np.exp(-(distances**2) / scale), distances == 0)
    np.fill_diagonal(W, 0.0)
    degrees = W.sum(axis=1)
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    return np.asarray(np.diag(np.float64(degrees > 0)) - W / roots[:, None] / roots)

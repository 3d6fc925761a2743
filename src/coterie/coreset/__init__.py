"""Few weighted, cheap nodes that stand for a graph or a cloud of points: SCGIGA and what it is compared with."""

from coterie.coreset.baselines import BASELINES, betweenness_centrality, shares, top_eigenvectors
from coterie.coreset.estimator import Coreset, baseline
from coterie.coreset.graph import checked_graph, lazy_walk, neighbour_graph, symmetrised
from coterie.coreset.scgiga import Ascent
from coterie.coreset.walk import Walk, WeightedNodes, quadrature_error, spread, walk_on

__all__ = [
    "BASELINES", "Ascent", "Coreset", "Walk", "WeightedNodes", "baseline", "betweenness_centrality", "checked_graph",
    "lazy_walk", "neighbour_graph", "quadrature_error", "shares", "spread", "symmetrised", "top_eigenvectors",
    "walk_on",
]  # fmt: skip

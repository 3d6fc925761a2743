"""SCGIGA: sample-cost greedy iterative geodesic ascent (Algorithm 12, corrected).

Columns P_v of P^ℓ, unit columns P̂_v = P_v/‖P_v‖, target p* = 1/√n. The ascent keeps y = Σ w_v P̂_v on the unit sphere
(0 at the start) and turns it towards p*, one column at a time, along the geodesic that points best to p*; or, for
κ < 1, along the cheapest of those that are nearly as good; or, with a weight λ of costs, to the column after which
p*·y − λC(S) is largest, the objective (6.9) itself.

What is kept from step to step are the inner products P_v·y of all columns with y. A chosen column changes them by
P^ℓ P^ℓ e_v, so a step costs O(nnz) and touches, for ℓ = 1, the neighbours of neighbours of one node.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from coterie.coreset.graph import Floats, checked_share
from coterie.coreset.walk import Walk, WeightedNodes, spread
from coterie.errors import CoterieError

PERFECT = 1e-12
"""p* − (p*·y)y shorter than this: nothing is left to improve."""
PARALLEL = 1e-14
"""1 − (P̂_v·y)² below this is 0 but for rounding: no geodesic leads from y to P̂_v."""
TIED = 1e-12
"""Scores within this share of each other are equal but for rounding."""
NEAR = 1e-3
"""A residual shorter than this is computed from y itself: √(1 − cos²) would be mostly rounding."""
SMALL = 1e-6
BLOCK = 16384
LOOKED_AT = 16
"""How many of the best nodes are measured before one is chosen, if lengths are estimated."""


@dataclass
class Ascent:
    """Where the ascent stands; `advance` takes it one step on."""

    walk: Walk
    costs: Floats
    kappa: float = 1.0
    cost_weight: float | None = None
    """λ of (6.9), instead of κ."""
    weights: dict[int, float] = field(default_factory=dict)
    """w_v of the unit columns, in the order of choice."""
    finished: bool = False
    """No step improves on this."""

    def __post_init__(self) -> None:
        self.kappa = checked_share("kappa", self.kappa)
        self.cost_weight = checked_cost_weight(self.cost_weight, self.kappa)
        self.walk = self.walk.own()
        self.scale = 1.0
        """Of the next two, so that a step need not touch all their entries."""
        self.y = np.zeros(self.walk.n)
        self.inner = np.zeros(self.walk.n)
        """P_v·y for every v."""
        self.cosine = 0.0
        """p*·y."""
        self.residual = 1.0
        """‖p* − (p*·y)y‖ = √(1 − cos²)."""
        self.iterations = 0

    def advance(self) -> bool:
        """Add a node, or more weight to one; return whether that was possible."""
        node = None if self.finished or self.residual < PERFECT else self._choice()
        if node is None or not self._turn_to(node):
            self.finished = True
            return False
        self.iterations += 1
        return True

    def run(self, iterations: int) -> Self:
        """Continue up to this many iterations in all; what has been done is kept."""
        while self.iterations < iterations and self.advance():
            pass
        return self

    @property
    def objective(self) -> float:
        """p*·y − λC(S), which (6.9) maximises; without a λ, p*·y."""
        return self.cosine - (self.cost_weight or 0.0) * float(self.costs[list(self.weights)].sum())

    def _scores(self) -> Floats:
        return scores(self.inner, self.scale, self.walk.squared_norms, self.cosine, self.residual)

    def _gains(self) -> Floats:
        """Return by how much each node would raise the objective (6.9), were it chosen next."""
        norms = np.sqrt(self.walk.squared_norms)
        zeta0, zeta2 = 1 / (math.sqrt(self.walk.n) * norms), self.scale * self.inner / norms
        risen, alone = rises(zeta0, self.cosine, zeta2, self._scores(), self.residual)
        chosen = list(self.weights)
        more = self.costs.copy()  # a node that is there already costs nothing; one that is left alone saves the others
        more[chosen] = 0
        more[alone] = self.costs[alone] - self.costs[chosen].sum()
        return np.asarray(risen - (self.cost_weight or 0.0) * more)

    def _choice(self) -> int | None:
        if self.cost_weight is not None:
            return self._choice_by_objective()
        scores = self._scores()
        if self.walk.estimated is None:
            return cheapest(scores, self.costs, self.kappa)
        k = min(LOOKED_AT, len(scores))
        best = np.argpartition(scores, -k)[-k:]
        self.walk.measure(best)
        scores = self._scores()
        if self.kappa == 1:  # the others' scores may be estimated too high
            scores = np.where(self.walk.estimated, -np.inf, scores)
        else:
            scores[self.walk.estimated] = np.minimum(scores[self.walk.estimated], scores[best].max())
        return cheapest(scores, self.costs, self.kappa)

    def _choice_by_objective(self) -> int | None:
        """Choose the node that raises the objective most, or none if none does; the first one must be some node."""
        gains = self._gains()
        if self.walk.estimated is not None:
            self.walk.measure(np.argsort(gains)[-LOOKED_AT:])
            gains = np.where(self.walk.estimated, -np.inf, self._gains())
        best = int(np.argmax(gains >= gains.max() - TIED * abs(gains.max())))
        return best if gains[best] > 0 or not self.weights else None

    def _turn_to(self, node: int) -> bool:
        """Move y to the point nearest to p* between y and P̂_v; return whether that is nearer than y is."""
        column = self.walk.column(node)
        norm = math.sqrt(self.walk.squared_norms[node])
        zeta0 = column.values.sum() / math.sqrt(self.walk.n) / norm
        zeta2 = self.scale * self.inner[node] / norm
        delta = step_length(zeta0, self.cosine, zeta2)
        length = math.sqrt((1 - delta) ** 2 + delta**2 + 2 * delta * (1 - delta) * zeta2)
        old, new = (1 - delta) / length, delta / length
        cosine = old * self.cosine + new * zeta0
        residual = math.sqrt(max(1 - cosine**2, 0.0))
        if residual < NEAR:
            y = old * self.scale * self.y
            y[column.nodes] += new / norm * column.values
            y /= np.linalg.norm(y)
            target = 1 / math.sqrt(self.walk.n)
            cosine = float(y.sum()) * target
            residual = float(np.linalg.norm(target - cosine * y))
        if residual >= self.residual:  # float64 holds no better one
            return False
        self.scale *= old
        if self.scale < SMALL:
            self.y *= self.scale
            self.inner *= self.scale
            self.scale = 1.0
        reached = spread(self.walk.p, column, self.walk.steps)
        self.y[column.nodes] += new / (norm * self.scale) * column.values
        self.inner[reached.nodes] += new / (norm * self.scale) * reached.values
        self.weights = {v: w * old for v, w in self.weights.items() if old}
        self.weights[node] = self.weights.get(node, 0.0) + new
        self.cosine, self.residual = cosine, residual
        return True

    def selection(self, normalise: bool = False) -> WeightedNodes:
        """Return the weights of the original columns, scaled to lie nearest to 1/n, or to sum to 1."""
        chosen = np.array(list(self.weights), np.int64)
        weights = np.array(list(self.weights.values()))
        weights /= np.sqrt(self.walk.squared_norms[chosen])
        weights *= best_scale(self.cosine, self.walk.n)
        error = self.residual / math.sqrt(self.walk.n)
        if normalise:
            weights /= weights.sum()
            error /= self.cosine
        return WeightedNodes(chosen, weights, float(self.costs[chosen].sum()), error, self.walk.steps)


def scores(inner: Floats, scale: float, squared_norms: Floats, cosine: float, residual: float) -> Floats:
    """Say how well the geodesic from y to each P̂_v points to p*: a·P̂_v / √(1 − (P̂_v·y)²).

    Here a = (p* − (p*·y)y)/‖·‖ is the direction from y to p*. With P_v·y = `scale` · `inner`, and p*·P_v = 1/√n since
    columns sum to 1, it is (1/√n − (p*·y)(P_v·y)) / (‖·‖ √(‖P_v‖² − (P_v·y)²)). At the start y = 0, and it is p*·P̂_v.
    A column parallel to y has score −∞.
    """
    result = np.empty(len(inner))
    for i in range(0, len(inner), BLOCK):  # of a size that stays in the cache
        part, squares, out = inner[i : i + BLOCK], squared_norms[i : i + BLOCK], result[i : i + BLOCK]
        rest = squares - (scale * part) ** 2
        parallel = rest <= PARALLEL * squares
        rest[parallel] = 1
        np.divide(1 / math.sqrt(len(inner)) - cosine * scale * part, residual * np.sqrt(rest), out=out)
        out[parallel] = -np.inf
    return result


def cheapest(scores: Floats, costs: Floats, kappa: float) -> int | None:
    """Choose the cheapest of the nodes with κ times the best score or more; None if no score is above 0.

    Of equally cheap ones the one with the highest score is taken, of equal ones the first.

    >>> cheapest(np.array([1.0, 0.95, 0.8]), np.array([3.0, 2.0, 1.0]), kappa=0.9)
    1
    """
    best = scores.max()
    if not best > 0:
        return None
    window = np.flatnonzero(scores >= kappa * best * (1 - TIED))
    cheap = window[costs[window] == costs[window].min()]
    top = scores[cheap]
    return int(cheap[np.argmax(top >= top.max() * (1 - TIED))])


def rises(
    zeta0: Floats, zeta1: float, zeta2: Floats, scores: Floats, residual: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return by how much p*·y' is above ζ1 = p*·y, for the best y' on the geodesic from y to each P̂_v.

    In the plane of y and P̂_v, p*·y' is at most the length of p*'s projection, √(ζ1² + ‖p* − ζ1 y‖² score²). Where that
    does not lie between the two, y' is P̂_v itself, which is told beside, or y.
    """
    alone = (zeta1 <= zeta0 * zeta2) | (zeta1 == 0)
    square = (residual * np.maximum(scores, 0.0)) ** 2
    return np.where(alone, zeta0 - zeta1, square / (np.sqrt(zeta1**2 + square) + zeta1)), alone


def checked_cost_weight(weight: float | None, kappa: float) -> float | None:
    """Check λ of (6.9), which takes κ's place."""
    if weight is None:
        return None
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 <= weight < math.inf:
        raise CoterieError(f"cost_weight is a number from 0, got {weight!r}")
    if kappa != 1:
        raise CoterieError(f"kappa = {kappa:g} and cost_weight = {weight:g} are two ways to look at costs: use one")
    return float(weight)


def step_length(zeta0: float, zeta1: float, zeta2: float) -> float:
    """Return how far to go from y to P̂_v: δ from ζ0 = p*·P̂_v, ζ1 = p*·y and ζ2 = P̂_v·y; 1 at the start.

    For κ < 1 the column chosen may lie between y and p*, and δ would be above 1: then y is left for it.
    """
    ahead, behind = zeta0 - zeta1 * zeta2, max(zeta1 - zeta0 * zeta2, 0.0)
    return min(max(ahead / (ahead + behind), 0.0), 1.0) if ahead > 0 else 0.0


def best_scale(cosine: float, n: int) -> float:
    """Return β* = max(0, ⟨Pw, 1/n⟩)/‖Pw‖² for a Pw of unit length (6.6).

    Then Σw = cos² and ‖Pw − 1/n‖² = (1 − cos²)/n.
    """
    return max(0.0, cosine) / math.sqrt(n)

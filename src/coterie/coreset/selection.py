"""What every method returns: few weighted nodes, what they cost, and how far off they may be."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.coreset.graph import Floats, Ints, checked_share
from coterie.coreset.walk import Few, Walk, spread


@dataclass(frozen=True)
class Selection:
    """Weighted nodes whose mean stands for the mean over the graph."""

    indices: Ints
    """The nodes, in the order in which they were chosen."""
    weights: Floats
    """w_s > 0 of each."""
    total_cost: float
    """Σ of their costs."""
    error: float
    """‖P^ℓ w − 1/n‖₂."""
    steps: int
    """ℓ."""

    def bound(self, smoothness: float, norm: float = 1.0) -> float:
        """Bound |mean f − Σ w_s f(s)| for every f of this norm ‖f‖₂ that is smooth: ‖f‖ λ^(−ℓ) ‖P^ℓ w − 1/n‖ (6.2).

        Smooth means made of eigenvectors of P whose eigenvalues are λ = `smoothness` or more in size.
        """
        with np.errstate(over="ignore"):
            return norm * float(self.error * np.float64(checked_share("smoothness λ", smoothness)) ** -self.steps)

    def estimate(self, values: npt.ArrayLike) -> Floats:
        """Return Σ w_s f(s), from a value (or row of values) per node of the graph."""
        chosen: Floats = np.asarray(values)[self.indices]
        return np.asarray(np.tensordot(self.weights, chosen, axes=1))


def quadrature_error(walk: Walk, indices: Ints, weights: Floats) -> float:
    """Return ‖P^ℓ w − 1/n‖₂ of any weighted nodes, each of which is there once."""
    walked = spread(walk.p, Few(indices, weights), walk.steps)
    return float(np.linalg.norm(walked.dense(walk.n) - 1 / walk.n))


def selection(walk: Walk, indices: npt.ArrayLike, weights: npt.ArrayLike, costs: Floats) -> Selection:
    """Make a selection of weighted nodes; those of weight 0 are left out."""
    nodes, w = np.asarray(indices, np.int64), np.asarray(weights, np.float64)
    nodes, w = nodes[w > 0], w[w > 0]
    error = quadrature_error(walk, nodes, w)
    return Selection(nodes, w, float(costs[nodes].sum()), error, walk.steps)

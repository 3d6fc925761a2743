"""`Coreset`, used as scikit-learn's estimators are."""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from coterie.coreset.baselines import BASELINES
from coterie.coreset.graph import NEIGHBOURS, Floats, checked_costs, checked_count, checked_share, neighbour_graph
from coterie.coreset.scgiga import Ascent
from coterie.coreset.walk import Norms, WeightedNodes, walk_on
from coterie.errors import CoterieError, suggestion


@dataclass(eq=False)
class Coreset:
    """Few weighted, cheap nodes of a graph whose mean of a smooth function is nearly the mean over all nodes.

    Parameters: `k` iterations, so at most k nodes; `kappa`, how much of the best score a cheaper node must have (1:
    costs do not matter), or `cost_weight`, λ of the objective cos − λC(S) (6.9), which every step then raises as far as
    it can; `steps` of the walk (ℓ); `normalise` the weights to sum to 1; `smoothness` λ of the functions that `bound_`
    is for; `norms` and `seed`: how columns are measured where steps > 1 (see `coterie.coreset.walk`).

    After `fit`: `indices_`, `weights_`, `total_cost_`, `error_` (‖P^ℓ w − 1/n‖), `bound_` (of |mean f − Σ w f| for
    smooth f of norm 1), `n_iter_`, and all of it as `selection_`.

    >>> ring = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    >>> coreset = Coreset(k=2).fit(ring, cost=[1, 2, 1, 3])
    >>> coreset.indices_, coreset.weights_.round(3), coreset.total_cost_
    (array([0, 1]), array([0.5, 0.5]), 3.0)
    >>> round(coreset.estimate([10, 20, 30, 40]), 6)
    15.0
    """

    k: int
    kappa: float = 1.0
    steps: int = 1
    normalise: bool = False
    _: KW_ONLY
    smoothness: float = 0.9
    norms: Norms = "auto"
    seed: int = 0
    cost_weight: float | None = None

    def fit(self, adjacency: Any, cost: npt.ArrayLike | None = None) -> Self:
        """Choose nodes of a graph: a symmetric matrix of weights, dense or sparse; `cost` per node, 1 if not given."""
        checked_count(self.k, 1)
        checked_share("smoothness λ", self.smoothness)
        steps = walk_on(adjacency, self.steps, norms=self.norms, seed=self.seed)
        self._ascent = Ascent(steps, checked_costs(cost, steps.n), self.kappa, self.cost_weight)
        return self.extend(self.k)

    def fit_points(
        self, points: npt.ArrayLike, cost: npt.ArrayLike | None = None, neighbours: int = NEIGHBOURS
    ) -> Self:
        """Choose points of a cloud, (n, features), on the graph of nearest neighbours."""
        return self.fit(neighbour_graph(points, neighbours), cost)

    def extend(self, k: int) -> Self:
        """Go on to k iterations from those that are done; the result is that of a fit with this k."""
        ascent = self._fitted()
        count = checked_count(k, ascent.walk.n)
        if count < ascent.iterations:
            raise CoterieError(f"{ascent.iterations} iterations are done; fit anew for k={k}")
        self.k = k
        selection = ascent.run(count).selection(self.normalise)
        self.selection_ = selection
        self.indices_, self.weights_ = selection.indices, selection.weights
        self.total_cost_, self.error_ = selection.total_cost, selection.error
        self.bound_ = selection.bound(self.smoothness)
        self.n_iter_ = ascent.iterations
        return self

    def _fitted(self) -> Ascent:
        if not hasattr(self, "_ascent"):
            raise CoterieError("this Coreset has no nodes yet: call fit first")
        return self._ascent

    def estimate(self, values: npt.ArrayLike) -> Any:
        """Return Σ w_s f(s), the estimate of the mean of a function, from its value at every node.

        Only the values at `indices_` are looked at.
        """
        n, given = self._fitted().walk.n, np.asarray(values)
        if given.dtype.kind not in "buifc":
            raise CoterieError(f"values are numbers, got {given.dtype}")
        if given.ndim == 0 or len(given) != n:
            raise CoterieError(f"values are one (or a row) per node, {n} in all, got shape {given.shape}")
        estimate: Floats = self.selection_.estimate(given)
        return float(estimate) if estimate.ndim == 0 else estimate

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's `clone` and searches ask for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        for name, value in params.items():
            if name not in self.get_params():
                raise CoterieError(f"a Coreset has no parameter '{name}'; it has {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self


def baseline(
    name: str, adjacency: Any, k: int, cost: npt.ArrayLike | None = None, *, steps: int = 1, **options: Any
) -> WeightedNodes:
    """Choose nodes by one of `BASELINES`; options are those of its function.

    >>> baseline("random", [[0, 1], [1, 0]], k=2).weights
    array([0.5, 0.5])
    """
    if name not in BASELINES:
        raise CoterieError(f"no method '{name}': {suggestion(name, [*BASELINES, 'scgiga'])}")
    walk = walk_on(adjacency, steps, norms="auto" if name == "frank-wolfe" else None)  # the others look at no lengths
    return BASELINES[name](walk, checked_count(k, walk.n), checked_costs(cost, walk.n), **options)

"""P^ℓ without forming it: applied to vectors, and the lengths of its columns.

For ℓ = 1 lengths are read off P. For ℓ > 1 they cost up to n·ℓ·nnz multiplications, less where walks stay near: if
`effort` expects at most `AFFORDABLE`, they are computed exactly, in blocks of columns; else they are estimated from
`PROBES` random vectors, to about 4 %. The columns that a method chooses, and those that are about to be chosen, are
always measured exactly. So an estimate can change which node is chosen, as a κ of about 0.9 would, but never the
weights, the error or the bound of what is chosen.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from coterie.coreset.graph import Floats, Ints, Sparse, checked_graph, checked_share, lazy_walk
from coterie.errors import CoterieError
from coterie.streams import stream

Norms = Literal["auto", "exact", "estimated"]

AFFORDABLE = 1e10
"""Multiplications that exact lengths may take by rule `auto`: about ten seconds of one core."""
SPARSE_PRICE = 10
"""How much slower a multiplication is where the product is sparse."""
PROBES = 256
BLOCK = 256
"""Columns worked on at a time."""
FILLED = 0.1
"""From this share of entries on a block is dense."""


class Few(NamedTuple):
    """A vector that is 0 but at some nodes."""

    nodes: Ints
    values: Floats

    def dense(self, n: int) -> Floats:
        """Return it with its zeros."""
        x = np.zeros(n)
        x[self.nodes] = self.values
        return x


@dataclass
class Walk:
    """An ℓ-step lazy walk: its columns are where a walker from each node is after ℓ steps."""

    p: Sparse
    """One step, P, (n, n)."""
    steps: int
    squared_norms: Floats
    """‖P_v‖² of every column of P^ℓ, (n,)."""
    estimated: np.ndarray[Any, np.dtype[np.bool_]] | None
    """Whose lengths are estimates; None if none are."""

    @property
    def n(self) -> int:
        """The number of nodes."""
        return int(self.p.shape[0])

    def own(self) -> Self:
        """Return a walk that can be measured further without changing this one."""
        if self.estimated is None:
            return self
        return replace(self, squared_norms=self.squared_norms.copy(), estimated=self.estimated.copy())

    def column(self, node: int) -> Few:
        """Return P^ℓ e_v, and remember its length."""
        column = spread(self.p, Few(np.array([node]), np.ones(1)), self.steps)
        self._measured(node, column.values @ column.values)
        return column

    def measure(self, nodes: Ints) -> None:
        """Replace the estimated lengths of some columns by exact ones."""
        if self.estimated is not None:
            todo = nodes[self.estimated[nodes]]
            self._measured(todo, _squared_norms(self.p, self.steps, todo))

    def _measured(self, nodes: int | Ints, squares: Any) -> None:
        self.squared_norms[nodes] = squares
        if self.estimated is not None:
            self.estimated[nodes] = False


def walk_on(adjacency: Any, steps: int = 1, *, norms: Norms | None = "auto", seed: int = 0) -> Walk:
    """Return the walk of `steps` steps on a graph.

    `norms` says how columns are measured where ℓ > 1; by None, for methods that look at no lengths, they are not.
    """
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise CoterieError(f"steps is a whole number from 1, got {steps!r}")
    if norms not in ("auto", "exact", "estimated", None):
        raise CoterieError(f"norms is 'auto', 'exact' or 'estimated', got {norms!r}")
    p, steps = lazy_walk(checked_graph(adjacency)), int(steps)
    n = p.shape[0]
    if norms is None:
        return Walk(p, steps, np.full(n, np.nan), None)
    if norms == "exact" or (norms == "auto" and effort(p, steps) <= AFFORDABLE) or steps == 1:
        return Walk(p, steps, _all_squared_norms(p, steps), None)
    return Walk(p, steps, estimated_squared_norms(p, steps, seed), np.ones(n, np.bool_))


def effort(p: Sparse, steps: int) -> float:
    """Say how many multiplications the lengths of all columns of P^ℓ may take, from the degrees.

    A walk is taken to reach a mean degree of nodes in its first step, and from each of them the mean degree of
    neighbours, which is larger.
    """
    n, degrees = p.shape[0], np.diff(p.indptr).astype(np.float64)
    next_degree = float((degrees**2).sum() / degrees.sum())
    reached, total = float(degrees.mean()), 0.0
    for _ in range(steps - 1):
        price = SPARSE_PRICE if reached < FILLED * n else 1
        total += price * min(reached * next_degree, p.nnz)
        reached = min(reached * next_degree, n)
    return float(n * total)


def spread(p: Sparse, x: Few, steps: int) -> Few:
    """Return P^steps x; while x has few nodes, only their columns are touched."""
    for _ in range(steps):
        counts = p.indptr[x.nodes + 1] - p.indptr[x.nodes]
        if 8 * counts.sum() < p.shape[0]:
            columns = p[x.nodes]
            nodes, place = np.unique(columns.indices, return_inverse=True)
            values: Floats = np.bincount(place, columns.data * np.repeat(x.values, counts), len(nodes)).astype(
                np.float64
            )
            x = Few(nodes, values)
        else:
            y = p @ x.dense(p.shape[0])
            nodes = np.flatnonzero(y)
            x = Few(nodes, y[nodes])
    return x


def _all_squared_norms(p: Sparse, steps: int) -> Floats:
    if steps == 1:
        return np.asarray((p * p).sum(axis=0))
    nodes = np.arange(p.shape[0])
    return np.concatenate([_squared_norms(p, steps, nodes[i : i + BLOCK]) for i in range(0, len(nodes), BLOCK)])


def _squared_norms(p: Sparse, steps: int, nodes: Ints) -> Floats:
    """Measure some columns of P^ℓ, by ℓ products that stay sparse while they are."""
    x = p[nodes].T.tocsr()
    for _ in range(steps - 1):
        if not isinstance(x, np.ndarray) and x.nnz > FILLED * x.shape[0] * x.shape[1]:
            x = x.toarray()
        x = p @ x
    return np.asarray((x * x).sum(axis=0))


def estimated_squared_norms(p: Sparse, steps: int, seed: int, probes: int = PROBES) -> Floats:
    """Estimate ‖P^ℓ e_v‖² for all v as the mean of (P^ℓ z)_v² over vectors z of random signs.

    The estimates have no bias, and a relative deviation of √(2/probes) at most.
    """
    n = p.shape[0]
    total = np.zeros(n)
    rng = stream(seed, "coreset norms")
    for done in range(0, probes, 16):
        x = rng.integers(0, 2, (n, min(16, probes - done))) * 2.0 - 1
        for _ in range(steps):
            x = p @ x
        total += (x * x).sum(axis=1)
    return total / probes


@dataclass(frozen=True)
class WeightedNodes:
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
    """Return ‖P^ℓ w − 1/n‖₂ of any weighted nodes, each given once."""
    walked = spread(walk.p, Few(indices, weights), walk.steps)
    return float(np.linalg.norm(walked.dense(walk.n) - 1 / walk.n))


def selection(walk: Walk, indices: npt.ArrayLike, weights: npt.ArrayLike, costs: Floats) -> WeightedNodes:
    """Make a selection of weighted nodes; those of weight 0 are left out."""
    nodes, w = np.asarray(indices, np.int64), np.asarray(weights, np.float64)
    nodes, w = nodes[w > 0], w[w > 0]
    error = quadrature_error(walk, nodes, w)
    return WeightedNodes(nodes, w, float(costs[nodes].sum()), error, walk.steps)

"""Graphs as they are given, and the lazy walk that a coreset is chosen on (Definition 1)."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Sparse = Any
"""A SciPy sparse array; SciPy has no types."""

NEIGHBOURS = 10
ALMOST = 1e-9
"""Share of the largest weight by which two weights of an edge may differ: rounding, not a direction."""


def checked_graph(adjacency: Any) -> Sparse:
    """Return a symmetric adjacency, dense or of SciPy's sparse kinds, as a CSR array of float64, or say what is wrong.

    Weights are scaled to a maximum of 1, which changes no walk. Zeros are not edges.

    >>> checked_graph([[0, 2], [2, 0]]).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    from scipy.sparse import csr_array, issparse

    given = adjacency if issparse(adjacency) else np.asarray(adjacency)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise CoterieError(f"an adjacency is a square matrix, got shape {tuple(given.shape)}")
    if given.shape[0] == 0:
        raise CoterieError("the graph has no nodes")
    if given.dtype.kind not in "buif":
        raise CoterieError(f"the weights of edges are real numbers, got {given.dtype}")
    a = csr_array(given, dtype=np.float64)
    if not a.has_canonical_format or not a.data.all():
        a = a.copy()  # the user's stays as it is
        a.sum_duplicates()
        a.eliminate_zeros()
    row = functools.partial(np.searchsorted, a.indptr, side="right")
    refuse_bad_numbers(a.data, lambda i: f"the weight of edge ({row(i) - 1}, {a.indices[i]})", "weights")
    indices, indptr = a.indices, a.indptr
    if max(a.nnz, a.shape[0]) < 2**31:  # 32 bits take less memory, and are all that scikit-learn takes
        indices, indptr = indices.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)
    largest = a.data.max(initial=0.0) or 1.0
    return _symmetric(csr_array((a.data / largest, indices, indptr), shape=a.shape), a)


def refuse_bad_numbers(values: Floats, name: Callable[[int], str], kind: str) -> None:
    """Name the first number that is not finite, or else the first that is negative, if there is one."""
    for bad, why in (
        (~np.isfinite(values), "is not a finite number"),
        (values < 0, f"is negative; {kind} are 0 or more"),
    ):
        if bad.any():
            i = int(np.argmax(bad))
            raise CoterieError(f"{name(i)}, {values[i]:g}, {why}")


def _symmetric(a: Sparse, given: Sparse) -> Sparse:
    """Return A if it is symmetric, the mean of A and Aᵀ if it is but for rounding, or name an edge of one direction.

    The edge's weights are said as they were given.
    """
    b = a.T.tocsr()
    if np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices) and np.array_equal(a.data, b.data):
        return a
    gap = abs(a - b).tocoo()
    worst = int(np.argmax(gap.data))
    if gap.data[worst] > ALMOST:
        i, j = sorted((int(gap.coords[0][worst]), int(gap.coords[1][worst])))
        raise CoterieError(
            f"the graph is not symmetric: edge ({i}, {j}) has weight {given[i, j]:.12g} and edge ({j}, {i}) "
            f"{given[j, i]:.12g}; coreset.symmetrised(A), or --symmetrise, takes the larger one of both directions"
        )
    return (a + b) / 2


def symmetrised(adjacency: Any) -> Sparse:
    """Give both directions of an edge the larger of their weights.

    >>> symmetrised([[0, 1], [0, 0]]).toarray()
    array([[0, 1],
           [1, 0]])
    """
    from scipy.sparse import csr_array

    a = csr_array(adjacency)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise CoterieError(f"an adjacency is a square matrix, got shape {tuple(a.shape)}")
    return a.maximum(a.T)


def neighbour_graph(points: npt.ArrayLike, neighbours: int = NEIGHBOURS) -> Sparse:
    """Join each point with its nearest others, in both directions, with weight 1.

    `points` is (n, features). With `neighbours` or fewer other points all are joined. A point is never its own
    neighbour; of points that coincide, some are.

    >>> neighbour_graph([[0.0], [1.0], [3.0]], neighbours=1).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    from scipy.sparse import csr_array
    from sklearn.neighbors import kneighbors_graph

    x = np.asarray(points)
    if x.ndim != 2 or x.dtype.kind not in "buif":
        raise CoterieError(f"points are numbers of shape (points, features), got {x.dtype} of shape {x.shape}")
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        raise CoterieError(f"point {np.argwhere(~np.isfinite(x))[0, 0]} has a coordinate that is not a finite number")
    if neighbours < 1:
        raise CoterieError(f"neighbours are at least 1, got {neighbours}")
    n = len(x)
    if n < 2:
        return csr_array((n, n), dtype=np.float64)
    nearest = csr_array(kneighbors_graph(x, min(neighbours, n - 1), include_self=False))
    return nearest.maximum(nearest.T)


def lazy_walk(a: Sparse) -> Sparse:
    """Return P = (A − D)/d_max + I: symmetric, its rows and columns sum to 1 (Definition 1).

    Without an edge it is I. A loop's weight counts in D, so that loops only make the walk lazier.

    >>> lazy_walk(checked_graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])).toarray()
    array([[0.5, 0.5, 0. ],
           [0.5, 0. , 0.5],
           [0. , 0.5, 0.5]])
    """
    from scipy.sparse import csr_array, dia_array, eye_array

    n = a.shape[0]
    degrees = a.sum(axis=1)
    largest = degrees.max()
    if largest == 0:
        return csr_array(eye_array(n))
    stay = dia_array((1 - degrees[None] / largest, [0]), shape=(n, n))
    p = csr_array(a / largest + stay)
    p.eliminate_zeros()
    p.sort_indices()
    return p


def checked_costs(cost: npt.ArrayLike | None, n: int, name: Callable[[int], str] = str) -> Floats:
    """Return the cost of each node, 1 for all if none are given, or say what is wrong; `name` names nodes."""
    if cost is None:
        return np.ones(n)
    given = np.asarray(cost)
    if given.dtype.kind not in "buif":
        raise CoterieError(f"costs are real numbers, got {given.dtype}")
    costs: Floats = given.astype(np.float64)
    if costs.shape != (n,):
        raise CoterieError(f"there are {n} nodes, so costs have shape ({n},), got {costs.shape}")
    refuse_bad_numbers(costs, lambda node: f"the cost of node {name(node)}", "costs")
    return costs


def checked_share(what: str, value: object) -> float:
    """Return a parameter that is above 0 and at most 1."""
    if not isinstance(value, int | float | np.integer | np.floating):
        raise CoterieError(f"{what} is a number above 0 and at most 1, got {value!r}")
    if not 0 < value <= 1:
        raise CoterieError(f"{what} is above 0 and at most 1, got {value:g}")
    return float(value)


def checked_count(k: object, n: int) -> int:
    """Return how many nodes to choose, at most all."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise CoterieError(f"k, the number of points, is a whole number from 1, got {k!r}")
    return min(int(k), n)

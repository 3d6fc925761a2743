"""What SCGIGA is compared with: Frank-Wolfe, k-means, spectral clustering, random nodes, betweenness.

Each is a function of a walk, the number of nodes and the nodes' costs, which these methods pay but do not look at.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.coreset.graph import Floats, Ints, Sparse
from coterie.coreset.walk import Walk, WeightedNodes, selection, spread
from coterie.errors import CoterieError
from coterie.streams import derived_seed, stream

WHOLE_ROWS = 2000
"""Up to this many nodes k-means sees whole rows of P^ℓ for ℓ > 1; beyond, their random projections."""
PROJECTED = 256
SOURCES = 5000
"""Up to this many nodes betweenness counts the paths from all; beyond, those from `PIVOTS` random ones."""
PIVOTS = 1000
DENSE = 2000
"""Up to this many nodes eigenvectors are computed densely."""
TIED = 1e-12


def frank_wolfe(walk: Walk, k: int, costs: Floats, *, share: bool = False) -> WeightedNodes:
    """Frank-Wolfe on the polytope Σ‖P_i‖w_i = (1/n)Σ‖P_i‖ =: σ, whose vertices are e_f σ/‖P_f‖.

    Select f = argmax P̂ᵀ(1/n − Pw), then go to the best point between w and its vertex. With `share` the weights are
    those of `shares` instead of its own.
    """
    walk = walk.own()
    weights: dict[int, float] = {}
    pw, ppw = np.zeros(walk.n), np.zeros(walk.n)  # P^ℓ w, and its inner products with all columns
    sigma = float(np.sqrt(walk.squared_norms).mean())
    for _ in range(k):
        aligned = (1 / walk.n - ppw) / np.sqrt(walk.squared_norms)
        f = int(np.argmax(aligned >= aligned.max() - TIED * abs(aligned.max())))
        column = walk.column(f)
        scale = sigma / math.sqrt(walk.squared_norms[f])
        vertex = scale * column.dense(walk.n)
        gamma = line_search(vertex - pw, 1 / walk.n - pw) if weights else 1.0
        if gamma == 0:
            break
        pw = (1 - gamma) * pw + gamma * vertex
        ppw = (1 - gamma) * ppw + gamma * scale * spread(walk.p, column, walk.steps).dense(walk.n)
        weights = {v: w * (1 - gamma) for v, w in weights.items() if gamma < 1}
        weights[f] = weights.get(f, 0.0) + gamma * scale
    nodes = np.array(list(weights), np.int64)
    return selection(walk, nodes, shares(walk.p, nodes) if share else list(weights.values()), costs)


def line_search(direction: Floats, residual: Floats) -> float:
    """Return γ = ⟨direction, residual⟩/‖direction‖², between 0 and 1."""
    square = float(direction @ direction)
    return min(max(float(direction @ residual) / square, 0.0), 1.0) if square > 0 else 0.0


def k_means(walk: Walk, k: int, costs: Floats, *, points: npt.ArrayLike | None = None, seed: int = 0) -> WeightedNodes:
    """Cluster the points, or the rows of P^ℓ where there are none; take the node nearest to each centre.

    Weights are the clusters' shares of the nodes.
    """
    features = rows(walk, seed) if points is None else np.asarray(points, np.float64)
    if features.shape[0] != walk.n:
        raise CoterieError(f"there are {walk.n} nodes but {features.shape[0]} points")
    return _of_clusters(walk, features, k, costs, seed)


def spectral(walk: Walk, k: int, costs: Floats, *, seed: int = 0) -> WeightedNodes:
    """Cluster the nodes in the top-K eigenvectors of P; nearest nodes and clusters' shares as in k-means."""
    return _of_clusters(walk, top_eigenvectors(walk.p, k, seed), k, costs, seed)


def random(walk: Walk, k: int, costs: Floats, *, seed: int = 0) -> WeightedNodes:
    """Draw nodes uniformly without replacement, with weights 1/K."""
    return selection(walk, stream(seed, "random coreset").permutation(walk.n)[:k], np.full(k, 1 / k), costs)


def betweenness(walk: Walk, k: int, costs: Floats, *, share: bool = False, seed: int = 0) -> WeightedNodes:
    """Take the K nodes on most shortest paths, with weights 1/K, or by `share` those of `shares`."""
    central = betweenness_centrality(walk.p, seed)
    nodes = np.lexsort((np.arange(walk.n), -np.round(central / max(central.max(), 1.0), 12)))[:k]
    return selection(walk, nodes, shares(walk.p, nodes) if share else np.full(k, 1 / k), costs)


def rows(walk: Walk, seed: int) -> Any:
    """Return the rows of P^ℓ, or, where these would fill the memory, projections that keep their distances."""
    if walk.steps == 1:
        return walk.p
    x: Any
    if walk.n <= WHOLE_ROWS:
        x = np.eye(walk.n)
    else:
        x = stream(seed, "projection").standard_normal((walk.n, PROJECTED)) / math.sqrt(PROJECTED)
    for _ in range(walk.steps):
        x = walk.p @ x
    return x


def top_eigenvectors(p: Sparse, k: int, seed: int) -> Floats:
    """Return the eigenvectors of P with the k largest eigenvalues, (n, k)."""
    n = p.shape[0]
    if n <= DENSE or k >= n - 1:
        import scipy.linalg

        return np.asarray(scipy.linalg.eigh(p.toarray(), subset_by_index=(n - k, n - 1))[1])
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    start = stream(seed, "eigenvectors").standard_normal(n)
    try:
        return np.asarray(eigsh(p, k, which="LA", v0=start, ncv=min(n, max(4 * k + 1, 40)), tol=1e-6)[1])
    except ArpackNoConvergence as error:
        raise CoterieError(f"the {k} top eigenvectors of this walk were not found; take another method") from error


def _of_clusters(walk: Walk, features: Any, k: int, costs: Floats, seed: int) -> WeightedNodes:
    """Cluster nodes by features; return the member nearest to each cluster's centre with the cluster's share."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different nodes than k: fewer clusters
        clusters = KMeans(k, n_init=3, random_state=derived_seed(seed, "k-means") % 2**32).fit(features)
    far = clusters.transform(features)[np.arange(walk.n), clusters.labels_]
    order = np.lexsort((far, clusters.labels_))
    _, first, sizes = np.unique(clusters.labels_[order], return_index=True, return_counts=True)
    return selection(walk, order[first], sizes / walk.n, costs)


def shares(graph: Sparse, nodes: Ints) -> Floats:
    """Return the share of the nodes that are nearer, in hops, to each of these than to the others.

    Of equally near ones one gets it. Nodes that none of these reaches are not counted.
    """
    from scipy.sparse.csgraph import dijkstra

    _, _, nearest = dijkstra(graph, indices=nodes, unweighted=True, min_only=True, return_predecessors=True)
    counts = np.bincount(nearest[nearest >= 0], minlength=graph.shape[0])[nodes]
    return np.asarray(counts / counts.sum())


def betweenness_centrality(graph: Sparse, seed: int = 0, block: int = 64) -> Floats:
    """Count for each node on which share of the shortest paths (in hops) between two others it lies (Brandes 2001).

    Breadth-first searches from a block of sources run side by side as sparse products. Each pair counts once. From
    more than `SOURCES` nodes, the sums over random sources are scaled up.
    """
    from scipy.sparse import csr_array

    n = graph.shape[0]
    a = csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    a.setdiag(0)
    a.eliminate_zeros()
    sources = np.arange(n) if n <= SOURCES else stream(seed, "pivots").permutation(n)[:PIVOTS]
    total = np.zeros(n)
    for i in range(0, len(sources), block):
        total += _dependencies(a, sources[i : i + block])
    return np.asarray(total * (n / len(sources)) / 2)


def _dependencies(a: Sparse, sources: Ints) -> Floats:
    """Sum over sources s and all targets t the share of the shortest s-t paths that pass each node."""
    n, b = a.shape[0], len(sources)
    paths = np.zeros((n, b))  # how many shortest paths lead from the source to each node
    paths[sources, np.arange(b)] = 1
    levels = [paths.copy()]  # the paths to the nodes of each distance
    while True:
        reached = a @ levels[-1]
        reached[paths > 0] = 0
        if not reached.any():
            break
        paths += reached
        levels.append(reached)
    passing = np.zeros((n, b))
    for here, nearer in zip(levels[:0:-1], levels[-2::-1], strict=True):
        each = np.divide(1 + passing, here, out=np.zeros((n, b)), where=here > 0)
        passing += nearer * (a @ each)
    passing[sources, np.arange(b)] = 0
    return np.asarray(passing.sum(axis=1))


BASELINES: dict[str, Callable[..., WeightedNodes]] = {
    "frank-wolfe": frank_wolfe,
    "k-means": k_means,
    "spectral": spectral,
    "random": random,
    "betweenness": betweenness,
}

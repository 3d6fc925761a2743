"""The baselines against NetworkX, brute force and closed forms."""

import networkx as nx
import numpy as np
import pytest
from coreset_worlds import dense_walk, gaussians, random_graph
from hypothesis import given
from hypothesis import strategies as st

from coterie.coreset import (
    BASELINES,
    baseline,
    betweenness_centrality,
    checked_graph,
    neighbour_graph,
    shares,
    top_eigenvectors,
    walk_on,
)
from coterie.coreset.baselines import line_search
from coterie.errors import CoterieError


@given(n=st.integers(1, 25), seed=st.integers(0, 10**6), density=st.sampled_from([0.05, 0.15, 0.5]))
def test_betweenness_is_networkx(n: int, seed: int, density: float) -> None:
    a = random_graph(n, seed, density=density, loops=True)
    expected = nx.betweenness_centrality(nx.from_numpy_array((a > 0).astype(int)), normalized=False)
    found = betweenness_centrality(checked_graph(a))
    np.testing.assert_allclose(found, [expected[v] for v in range(n)], atol=1e-9)


def test_betweenness_from_pivots(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = checked_graph(random_graph(200, 0, density=0.03))
    exact = betweenness_centrality(graph)
    monkeypatch.setattr("coterie.coreset.baselines.SOURCES", 100)
    monkeypatch.setattr("coterie.coreset.baselines.PIVOTS", 120)
    sampled = betweenness_centrality(graph)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.95
    assert sampled.sum() == pytest.approx(exact.sum(), rel=0.1)


def test_betweenness_takes_the_middle_of_a_star() -> None:
    a = np.zeros((6, 6))
    a[0, 1:] = a[1:, 0] = 1
    found = baseline("betweenness", a, 2, [5, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(found.indices, [0, 1])
    np.testing.assert_array_equal(found.weights, [0.5, 0.5])
    assert found.total_cost == 6
    np.testing.assert_allclose(baseline("betweenness", a, 2, share=True).weights, [5 / 6, 1 / 6])


def test_shares_by_brute_force() -> None:
    graph = nx.random_labeled_tree(60, seed=1)
    nodes = np.array([3, 30, 50, 12])
    far = np.array([[nx.shortest_path_length(graph, s, v) for v in range(60)] for s in nodes.tolist()])
    found = shares(nx.to_scipy_sparse_array(graph), nodes) * 60
    sure = (far == far.min(axis=0)).sum(axis=0) == 1
    low = [((far.argmin(axis=0) == i) & sure).sum() for i in range(4)]
    high = [(far[i] == far.min(axis=0)).sum() for i in range(4)]
    assert (found >= np.array(low) - 1e-9).all()
    assert (found <= np.array(high) + 1e-9).all()
    assert found.sum() == pytest.approx(60)


def test_unreachable_nodes_have_no_share() -> None:
    a = np.zeros((5, 5))
    a[0, 1] = a[1, 0] = 1
    np.testing.assert_allclose(shares(checked_graph(a), np.array([0, 4])), [2 / 3, 1 / 3])


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_frank_wolfe_is_a_dense_one(seed: int, steps: int) -> None:
    a = random_graph(40, seed, density=0.2)
    q = dense_walk(a, steps)
    norms, b = np.linalg.norm(q, axis=0), np.full(40, 1 / 40)
    sigma, w = norms.mean(), np.zeros(40)
    for i in range(12):
        f = int(np.argmax((q / norms).T @ (b - q @ w)))
        vertex = np.zeros(40)
        vertex[f] = sigma / norms[f]
        way = q @ (vertex - w)
        gamma = 1.0 if i == 0 else float(np.clip(way @ (b - q @ w) / (way @ way), 0, 1))
        w = (1 - gamma) * w + gamma * vertex
    found = baseline("frank-wolfe", a, 12, steps=steps)
    got = np.zeros(40)
    got[found.indices] = found.weights
    np.testing.assert_allclose(got, w, atol=1e-9)
    assert norms @ got == pytest.approx(sigma)  # it stays in its polytope
    assert found.error == pytest.approx(np.linalg.norm(q @ w - b))
    assert baseline("frank-wolfe", a, 12, steps=steps, share=True).weights.sum() == pytest.approx(1)


def test_the_line_search_is_clipped() -> None:
    assert line_search(np.array([1.0, 0.0]), np.array([3.0, 1.0])) == 1
    assert line_search(np.array([1.0, 0.0]), np.array([-3.0, 1.0])) == 0
    assert line_search(np.array([2.0, 0.0]), np.array([1.0, 1.0])) == 0.5
    assert line_search(np.zeros(2), np.ones(2)) == 0


def three_cliques() -> np.ndarray:
    """Of 4, 6 and 10 nodes, joined in a row by two edges."""
    a = np.zeros((20, 20))
    for start, stop in ((0, 4), (4, 10), (10, 20)):
        a[start:stop, start:stop] = 1
    np.fill_diagonal(a, 0)
    a[3, 4] = a[4, 3] = a[9, 10] = a[10, 9] = 1
    return a


@pytest.mark.parametrize(("name", "steps"), [("k-means", 8), ("spectral", 1)])
def test_clusters_are_found_and_weighted_by_their_share(name: str, steps: int) -> None:
    found = baseline(name, three_cliques(), 3, steps=steps)
    which = np.digitize(found.indices, [4, 10])
    shares_found = dict(zip(which.tolist(), found.weights.tolist(), strict=True))
    assert shares_found == pytest.approx({0: 0.2, 1: 0.3, 2: 0.5})


def test_k_means_takes_the_point_nearest_to_the_centre() -> None:
    x = np.array([[0.0], [1.0], [5.0], [50.0], [51.0], [56.0]])
    found = baseline("k-means", neighbour_graph(x, 2), 2, points=x)
    assert set(found.indices.tolist()) == {1, 4}
    with pytest.raises(CoterieError, match="6 nodes but 3 points"):
        baseline("k-means", neighbour_graph(x, 2), 2, points=x[:3])


def test_projected_rows_keep_their_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.coreset.baselines.WHOLE_ROWS", 10)
    found = baseline("k-means", three_cliques(), 3, steps=8)
    assert sorted(found.weights.tolist()) == pytest.approx([0.2, 0.3, 0.5])


def test_top_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    p = walk_on(random_graph(60, 0, density=0.1)).p
    dense = top_eigenvectors(p, 3, 0)
    monkeypatch.setattr("coterie.coreset.baselines.DENSE", 10)
    sparse = top_eigenvectors(p, 3, 0)
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, atol=1e-5)
    largest = np.sort(np.linalg.eigvalsh(p.toarray()))[-3:]
    np.testing.assert_allclose(np.sort(np.diag(dense.T @ (p @ dense))), largest, atol=1e-9)


@pytest.mark.integration
def test_random_nodes_are_drawn_without_replacement() -> None:
    counts = np.zeros(10)
    for seed in range(400):
        found = baseline("random", np.zeros((10, 10)), 4, seed=seed)
        assert len(set(found.indices.tolist())) == 4
        np.testing.assert_array_equal(found.weights, 0.25)
        counts[found.indices] += 1
    assert counts.min() > 120  # 160 on average
    assert counts.max() < 200


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(BASELINES))
def test_what_every_baseline_returns(name: str) -> None:
    x, _ = gaussians(300, 0)
    cost = np.random.default_rng(0).random(300)
    graph = neighbour_graph(x)
    found, again = (baseline(name, graph, 14, cost, steps=5) for _ in range(2))
    assert 1 <= len(found.indices) <= 14
    assert (found.weights > 0).all()
    assert found.total_cost == pytest.approx(cost[found.indices].sum())
    w = np.zeros(300)
    w[found.indices] = found.weights
    error = np.linalg.norm(dense_walk(graph.toarray(), 5) @ w - 1 / 300)
    assert found.error == pytest.approx(error)
    assert found.bound(0.8) == pytest.approx(error * 0.8**-5)
    np.testing.assert_array_equal(found.indices, again.indices)
    assert len(baseline(name, np.eye(1), 3).indices) == 1


def test_fewer_different_nodes_than_clusters() -> None:
    found = baseline("k-means", np.zeros((4, 4)), 3, points=np.zeros((4, 2)))
    np.testing.assert_allclose(found.weights, [1.0])


def test_unknown_names() -> None:
    with pytest.raises(CoterieError, match="did you mean 'k-means'"):
        baseline("kmeans", np.eye(2), 1)

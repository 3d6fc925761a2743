"""Odd graphs, and input that is refused with a sentence."""

import numpy as np
import pytest
from coreset_worlds import random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from coterie.coreset import (
    BASELINES,
    Coreset,
    baseline,
    checked_graph,
    lazy_walk,
    neighbour_graph,
    symmetrised,
    walk_on,
)
from coterie.coreset.walk import SPARSE_PRICE, Few, effort, estimated_squared_norms, spread
from coterie.errors import CoterieError

PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])


@given(n=st.integers(1, 30), seed=st.integers(0, 10**6), loops=st.booleans())
def test_the_walk(n: int, seed: int, loops: bool) -> None:
    """Symmetric, not negative, rows sum to 1; the formula of Definition 1."""
    a = random_graph(n, seed, loops=loops)
    p = lazy_walk(checked_graph(a)).toarray()
    np.testing.assert_array_equal(p, p.T)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=0), 1)
    if a.any():
        d = a.sum(axis=1)
        np.testing.assert_allclose(p, (a - np.diag(d)) / d.max() + np.eye(n), atol=1e-15)


@pytest.mark.integration
@given(n=st.integers(1, 200), seed=st.integers(0, 10**6), steps=st.integers(1, 5))
@settings(max_examples=40)
def test_spreading_and_lengths(n: int, seed: int, steps: int) -> None:
    """Sparse and dense products, and lengths in blocks, are the matrix power's."""
    known = walk_on(random_graph(n, seed, density=3 / n), steps, norms="exact")
    q = np.linalg.matrix_power(known.p.toarray(), steps)
    np.testing.assert_allclose(known.squared_norms, (q**2).sum(axis=0))
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(n)[: rng.integers(1, n + 1)]
    x = Few(nodes, rng.normal(size=len(nodes)))
    np.testing.assert_allclose(spread(known.p, x, steps).dense(n), q @ x.dense(n), atol=1e-12)
    np.testing.assert_allclose(known.column(int(nodes[0])).dense(n), q[nodes[0]], atol=1e-12)


def test_estimated_lengths() -> None:
    p = walk_on(random_graph(300, 0, density=0.02), 3).p
    exact = (np.linalg.matrix_power(p.toarray(), 3) ** 2).sum(axis=0)
    few, many = (estimated_squared_norms(p, 3, 0, probes) / exact for probes in (64, 4096))
    assert np.abs(few - 1).max() < 5 * np.sqrt(2 / 64)
    assert np.abs(many - 1).max() < 5 * np.sqrt(2 / 4096)
    assert abs(many.mean() - 1) < 0.01


def test_large_graphs_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random_graph(50, 0)
    assert walk_on(a, 3).estimated is None
    monkeypatch.setattr("coterie.coreset.walk.AFFORDABLE", 1000)
    assert walk_on(a, 3).estimated is not None
    assert walk_on(a, 3, norms="exact").estimated is None
    assert walk_on(a, 1).estimated is None
    assert np.isnan(walk_on(a, 3, norms=None).squared_norms).all()


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_the_expected_effort(steps: int) -> None:
    """On a random graph it is near the multiplications that are done, sparse ones at their price."""
    p = walk_on(random_graph(400, 0, density=0.01)).p
    done, x = 0.0, p
    for _ in range(steps - 1):
        price = SPARSE_PRICE if x.nnz < 0.1 * 400**2 else 1
        done += price * float(np.diff(p.indptr) @ np.diff(x.indptr)) if price > 1 else float(400 * p.nnz)
        x = p @ x
    assert 0.5 * done < effort(p, steps) < 2.5 * done


def test_sparse_kinds_and_dtypes_give_the_same() -> None:
    expected = Coreset(3).fit(PATH)
    for kind in (
        sparse.csr_array,
        sparse.csc_array,
        sparse.coo_array,
        sparse.lil_matrix,
        sparse.csr_matrix,
        np.asarray,
    ):
        for dtype in (np.bool_, np.int8, np.float32, np.float64):
            found = Coreset(3).fit(kind(PATH.astype(dtype)))
            np.testing.assert_array_equal(found.indices_, expected.indices_)
            np.testing.assert_allclose(found.weights_, expected.weights_)


def test_the_users_graph_stays_as_it_is() -> None:
    a = sparse.csr_array((np.array([3.0, 0.0, 1.0, 2.0]), np.array([1, 1, 0, 0]), np.array([0, 2, 4])), shape=(2, 2))
    before = a.data.copy(), a.indices.copy(), a.nnz
    Coreset(1).fit(a)
    np.testing.assert_array_equal(a.data, before[0])
    np.testing.assert_array_equal(a.indices, before[1])
    assert a.nnz == before[2]


def test_scaling_weights_changes_nothing() -> None:
    a = random_graph(40, 0)
    expected = Coreset(10).fit(a)
    for scale in (1e-300, 1e-9, 1e300):
        found = Coreset(10).fit(a * scale)
        np.testing.assert_array_equal(found.indices_, expected.indices_)
        np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-9)


def test_a_graph_without_edges() -> None:
    """P = I: nodes one after the other, in order of cost among equals; all of them are the mean."""
    found = Coreset(2).fit(np.zeros((4, 4)), [3, 1, 2, 1])
    np.testing.assert_array_equal(found.indices_, [1, 3])
    whole = Coreset(4).fit(sparse.csr_array((4, 4)))
    np.testing.assert_allclose(np.sort(whole.weights_), 0.25)
    assert whole.error_ < 1e-12


def test_isolated_nodes_and_components() -> None:
    """An isolated node is a component; with K large enough every component gets its share."""
    a = np.zeros((7, 7))
    a[:3, :3] = 1 - np.eye(3)
    a[3:6, 3:6] = 1 - np.eye(3)
    found = Coreset(7, steps=60).fit(a)
    w = np.zeros(7)
    w[found.indices_] = found.weights_
    np.testing.assert_allclose([w[:3].sum(), w[3:6].sum(), w[6]], [3 / 7, 3 / 7, 1 / 7], atol=1e-6)


def test_one_node() -> None:
    found = Coreset(5).fit([[0]], [2.5])
    assert (found.indices_.tolist(), found.weights_.tolist(), found.total_cost_, found.error_) == ([0], [1], 2.5, 0)


def test_more_points_than_nodes() -> None:
    """K > n is n iterations."""
    assert Coreset(100).fit(PATH).n_iter_ <= 4
    for name in BASELINES:
        assert len(baseline(name, PATH, 100).indices) <= 4


def test_loops_make_the_walk_lazier() -> None:
    looped = PATH + 2 * np.eye(4)
    np.testing.assert_allclose(lazy_walk(checked_graph(looped)).toarray()[0], [0.75, 0.25, 0, 0])
    assert Coreset(2).fit(looped).weights_.sum() < Coreset(2).fit(PATH).weights_.sum()


def test_almost_symmetric_is_symmetric() -> None:
    a = random_graph(20, 0)
    a[0, 1] = a[1, 0] = 0.5
    a[0, 1] *= 1 + 1e-13
    p = lazy_walk(checked_graph(a))
    assert abs(p - p.T).max() == 0


def test_neighbours_of_a_brute_force() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    far = np.linalg.norm(x[:, None] - x, axis=2)
    np.fill_diagonal(far, np.inf)
    near = np.zeros((60, 60))
    np.put_along_axis(near, np.argsort(far, axis=1)[:, :10], 1, axis=1)
    np.testing.assert_array_equal(neighbour_graph(x).toarray(), np.maximum(near, near.T))


def test_clouds_of_few_or_equal_points() -> None:
    assert neighbour_graph(np.zeros((1, 2))).nnz == 0
    np.testing.assert_array_equal(neighbour_graph(np.zeros((3, 2))).toarray(), 1 - np.eye(3))
    assert Coreset(2).fit_points(np.zeros((30, 2))).weights_.sum() <= 1 + 1e-12


def not_symmetric() -> np.ndarray:
    a = PATH.astype(float)
    a[0, 1] = 5
    return a


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (-PATH, r"weight of edge \(0, 1\), -1, is negative"),
        (np.where(PATH, np.nan, 0), "not a finite number"),
        (np.where(PATH, np.inf, 0), "not a finite number"),
        (not_symmetric(), r"edge \(0, 1\) has weight 5 and edge \(1, 0\) 1; coreset.symmetrised"),
        (np.triu(PATH), "not symmetric"),
        (PATH[:3], r"square matrix, got shape \(3, 4\)"),
        (np.zeros(4), "square matrix"),
        (np.zeros((0, 0)), "no nodes"),
        (PATH * 1j, "real numbers, got complex128"),
        (PATH.astype(str), "real numbers"),
    ],
)
def test_bad_graphs(graph: np.ndarray, said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        Coreset(2).fit(graph)
    with pytest.raises(CoterieError, match=said):
        baseline("random", graph, 2)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ([1, 2, 3], r"there are 4 nodes, so costs have shape \(4,\), got \(3,\)"),
        ([[1, 2, 3, 4]], "shape"),
        ([1, -2, 3, 4], "cost of node 1, -2, is negative"),
        ([1, 2, np.nan, 4], "cost of node 2, nan, is not a finite"),
        (["a", "b", "c", "d"], "real numbers"),
    ],
)
def test_bad_costs(cost: list[object], said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        Coreset(2).fit(PATH, cost)
    with pytest.raises(CoterieError, match=said):
        baseline("random", PATH, 2, cost)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"kappa": 0}, "kappa is above 0 and at most 1, got 0"),
        ({"kappa": 1.01}, "kappa"),
        ({"kappa": np.nan}, "kappa"),
        ({"k": 0}, "k, the number of points, is a whole number from 1, got 0"),
        ({"k": 2.5}, "whole number"),
        ({"steps": 0}, "steps is a whole number from 1, got 0"),
        ({"norms": "guess"}, "norms is"),
        ({"smoothness": 0}, "smoothness"),
        ({"kappa": "0.9"}, "kappa is a number above 0 and at most 1, got '0.9'"),
        ({"kappa": None}, "kappa is a number above 0 and at most 1, got None"),
        ({"smoothness": "x"}, "smoothness λ is a number above 0 and at most 1, got 'x'"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        Coreset(**{"k": 2, **parameters}).fit(PATH)  # type: ignore[arg-type]


def test_bad_points() -> None:
    for points, said in [
        (np.zeros(3), "shape"),
        (np.array([[0.0], [np.nan]]), "point 1"),
        (np.array([["a"]]), "numbers"),
    ]:
        with pytest.raises(CoterieError, match=said):
            neighbour_graph(points)
    with pytest.raises(CoterieError, match="neighbours are at least 1"):
        neighbour_graph(np.zeros((3, 1)), 0)


def test_extending_what_is_not_there() -> None:
    with pytest.raises(CoterieError, match="call fit first"):
        Coreset(2).extend(3)
    with pytest.raises(CoterieError, match="fit anew for k=1"):
        Coreset(3).fit(PATH).extend(1)


def test_estimates_of_what_is_not_there() -> None:
    with pytest.raises(CoterieError, match="call fit first"):
        Coreset(2).estimate([1, 2, 3, 4])
    found = Coreset(2).fit(PATH)
    for values, said in [
        ([1, 2, 3], r"4 in all, got shape \(3,\)"),
        ([1, 2, 3, 4, 5], r"4 in all, got shape \(5,\)"),
        (1.0, "4 in all"),
        (list("abcd"), "values are numbers"),
    ]:
        with pytest.raises(CoterieError, match=said):
            found.estimate(values)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.estimate(np.ones((4, 2))), [found.weights_.sum()] * 2)


def test_symmetrised_takes_the_larger() -> None:
    np.testing.assert_array_equal(symmetrised(np.array([[0, 1], [3, 0]])).toarray(), [[0, 3], [3, 0]])
    with pytest.raises(CoterieError, match="square"):
        symmetrised(np.zeros((2, 3)))


def test_used_as_scikit_learn_does() -> None:
    first = Coreset(k=14, kappa=0.9, steps=1, normalise=False)
    copy = clone(first)
    assert copy.get_params() == first.get_params() == Coreset(14, 0.9).get_params()
    assert repr(copy.set_params(k=3)).startswith("Coreset(k=3, kappa=0.9, steps=1, normalise=False")
    assert copy.fit(PATH) is copy
    assert not hasattr(clone(copy), "indices_")
    with pytest.raises(CoterieError, match="no parameter 'kapa'"):
        copy.set_params(kapa=1)

"""SCGIGA against a dense one, its invariants (oracle 14), the bound by brute force, costs, and going on."""

import math

import numpy as np
import pytest
from coreset_worlds import dense_scgiga, dense_walk, gaussians, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coreset import BASELINES, Ascent, Coreset, baseline, neighbour_graph, quadrature_error, walk_on
from coterie.coreset.scgiga import cheapest, scores, step_length
from coterie.errors import CoterieError

GENERATED = settings(max_examples=40)
KAPPAS = st.sampled_from([1.0, 0.9, 0.5, 0.2])


def spread_out(coreset: Coreset, n: int) -> np.ndarray:
    w = np.zeros(n)
    w[coreset.indices_] = coreset.weights_
    return w


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("seed", range(8))
def test_equals_a_dense_giga(seed: int, steps: int) -> None:
    a = random_graph(60, seed, density=0.15)
    found = Coreset(k=25, steps=steps).fit(a)
    weights, objective = dense_scgiga(a, 25, steps)
    np.testing.assert_allclose(spread_out(found, 60), weights, atol=1e-9)
    assert 60 * found.error_**2 == pytest.approx(objective[-1], abs=1e-9)


@pytest.mark.parametrize("kappa", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_equals_a_dense_one_with_costs(seed: int, kappa: float) -> None:
    a, cost = random_graph(50, seed, density=0.2, loops=True), np.random.default_rng(seed).random(50)
    found = Coreset(k=15, kappa=kappa, steps=2).fit(a, cost)
    weights, _ = dense_scgiga(a, 15, 2, cost, kappa)
    np.testing.assert_allclose(spread_out(found, 50), weights, atol=1e-9)
    assert found.total_cost_ == pytest.approx(cost[weights > 0].sum(), abs=1e-12)


def objective_on_a_grid(unit: np.ndarray, y: np.ndarray, v: int, fine: int = 400) -> tuple[float, float]:
    """The largest p*·y' on the geodesic from y to P̂_v, and the share of P̂_v there, by trying."""
    shares = np.linspace(0, 1, fine + 1)[:, None]
    points = (1 - shares) * y + shares * unit[:, v]
    cosines = points.sum(axis=1) / np.sqrt(len(y)) / np.linalg.norm(points, axis=1)
    return float(cosines.max()), float(shares[cosines.argmax(), 0])


@pytest.mark.parametrize("weight", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_6_9_is_raised_as_far_as_a_node_can(seed: int, weight: float) -> None:
    """Each step against all nodes and a grid of step lengths: P(w)·P* − λC(S), with S those of weight above 0."""
    a, cost = random_graph(25, seed, density=0.2, loops=True), np.random.default_rng(seed).random(25)
    q = dense_walk(a, 2)
    unit = q / np.linalg.norm(q, axis=0)
    ascent, y, before = Ascent(walk_on(a, 2), cost, cost_weight=weight), np.zeros(25), -np.inf
    while ascent.iterations < 8:
        reachable = []
        for v in range(25):
            cosine, share = objective_on_a_grid(unit, y, v) if y.any() else (float(unit[:, v].sum()) / 5, 1.0)
            kept = {v} if share == 1 else {v, *ascent.weights}
            reachable.append(cosine - weight * sum(cost[u] for u in kept))
        if not ascent.advance():
            assert max(reachable) < before + 1e-4
            break
        w = np.zeros(25)
        w[list(ascent.weights)] = list(ascent.weights.values())
        y = unit @ w
        assert np.linalg.norm(y) == pytest.approx(1)
        reached = float(y.sum()) / 5 - weight * cost[w > 0].sum()
        assert reached == pytest.approx(ascent.objective, abs=1e-9)
        assert reached == pytest.approx(max(reachable), abs=1e-4)
        assert reached > before
        before = reached
    assert ascent.iterations >= 1


@pytest.mark.parametrize("seed", range(4))
def test_theorem_5(seed: int) -> None:
    """With λ ≤ (1 − κ)/(C_max^k min‖P_i‖ √n) the best single node has κ of the largest alignment; one step is exact."""
    a, cost = random_graph(30, seed, density=0.2, loops=True), np.random.default_rng(seed).random(30)
    norms = np.linalg.norm(dense_walk(a, 1), axis=0)
    alignment = 1 / (norms * np.sqrt(30))
    for kappa in (0.2, 0.5, 0.9):
        weight = (1 - kappa) / (cost.max() * norms.min() * np.sqrt(30))
        chosen = Coreset(1, cost_weight=weight).fit(a, cost).indices_
        assert chosen.tolist() == [int(np.argmax(alignment - weight * cost))]
        assert alignment[chosen[0]] >= kappa * alignment.max()


@pytest.mark.parametrize("norms", ["exact", "estimated"])
def test_costs_that_weigh_nothing_leave_giga_and_heavier_ones_cost_less(norms: str) -> None:
    a, cost = random_graph(60, 1, density=0.15), np.random.default_rng(1).random(60)
    plain = Coreset(k=20, steps=3, norms=norms).fit(a)  # type: ignore[arg-type]
    fits = [Coreset(k=20, steps=3, norms=norms, cost_weight=x).fit(a, cost) for x in (0.0, 0.003, 0.03, 30.0)]  # type: ignore[arg-type]
    np.testing.assert_array_equal(fits[0].indices_, plain.indices_)
    np.testing.assert_array_equal(fits[0].weights_, plain.weights_)
    assert [fit.total_cost_ for fit in fits] == sorted((fit.total_cost_ for fit in fits), reverse=True)
    assert [fit.error_ for fit in fits] == sorted(fit.error_ for fit in fits)
    assert len(fits[-1].indices_) == 1  # none is no coreset
    grown = Coreset(k=1, steps=3, norms=norms, cost_weight=0.003).fit(a, cost).extend(20)  # type: ignore[arg-type]
    np.testing.assert_array_equal(grown.weights_, fits[1].weights_)


def test_a_weight_of_costs_is_checked() -> None:
    with pytest.raises(CoterieError, match="cost_weight is a number from 0, got -1"):
        Coreset(2, cost_weight=-1).fit(np.eye(3))
    with pytest.raises(CoterieError, match="two ways to look at costs"):
        Coreset(2, 0.5, cost_weight=0.1).fit(np.eye(3))


@pytest.mark.integration
@given(n=st.integers(1, 25), seed=st.integers(0, 10**6), steps=st.integers(1, 4), kappa=KAPPAS, loops=st.booleans())
@GENERATED
def test_invariants(n: int, seed: int, steps: int, kappa: float, loops: bool) -> None:
    """The objective falls, Σw = cos², ‖Pw − 1/n‖² = (1 − cos²)/n; all of a graph, also an unconnected one."""
    a = random_graph(n, seed, density=0.2, loops=loops)
    cost = np.random.default_rng(seed).random(n)
    known = walk_on(a, steps)
    ascent = Ascent(known, cost, kappa)
    q, before = dense_walk(a, steps), 1.0
    while ascent.iterations < 2 * n and ascent.advance():
        chosen = ascent.selection()
        w = np.zeros(n)
        w[chosen.indices] = chosen.weights
        assert (chosen.weights > 0).all()
        assert len(set(chosen.indices.tolist())) == len(chosen.indices) <= ascent.iterations
        cosine = (q @ w).sum() / (math.sqrt(n) * np.linalg.norm(q @ w))
        assert 1 - cosine**2 < before + 1e-12
        before = 1 - cosine**2
        assert w.sum() == pytest.approx(cosine**2, abs=1e-9)
        assert np.sum((q @ w - 1 / n) ** 2) == pytest.approx((1 - cosine**2) / n, abs=1e-9)
        assert chosen.error == pytest.approx(np.linalg.norm(q @ w - 1 / n), abs=1e-9)
        assert chosen.error == pytest.approx(quadrature_error(known, chosen.indices, chosen.weights), abs=1e-9)
        assert chosen.total_cost == pytest.approx(cost[w > 0].sum())
    assert ascent.residual < 1e-6 or ascent.iterations == 2 * n or ascent.finished


@given(n=st.integers(2, 20), seed=st.integers(0, 10**6), k=st.integers(1, 10), kappa=KAPPAS)
@GENERATED
def test_normalised_weights(n: int, seed: int, k: int, kappa: float) -> None:
    """Σw = 1, in the proportions of the others; the error is that of these weights."""
    a = random_graph(n, seed, density=0.3)
    plain, whole = Coreset(k, kappa).fit(a), Coreset(k, kappa, normalise=True).fit(a)
    assert whole.weights_.sum() == pytest.approx(1)
    np.testing.assert_allclose(whole.weights_, plain.weights_ / plain.weights_.sum())
    q = dense_walk(a, 1)
    assert whole.error_ == pytest.approx(np.linalg.norm(q @ spread_out(whole, n) - 1 / n), abs=1e-9)
    # with Σw = 1 the error is the source's (‖Pw‖² − 1/n)^½
    assert whole.error_**2 == pytest.approx(np.sum((q @ spread_out(whole, n)) ** 2) - 1 / n, abs=1e-9)


@pytest.mark.integration
@given(n=st.integers(2, 15), seed=st.integers(0, 10**6), steps=st.integers(1, 4), k=st.integers(1, 6))
@GENERATED
def test_the_bound_by_brute_force(n: int, seed: int, steps: int, k: int) -> None:
    """The worst smooth function of norm 1, from the eigenvectors of P, is not above the bound, for any threshold λ."""
    a = random_graph(n, seed, density=0.4)
    values, vectors = np.linalg.eigh(dense_walk(a, 1))
    rng = np.random.default_rng(seed)
    for normalise in (False, True):
        found = Coreset(k, steps=steps, normalise=normalise).fit(a)
        off = np.full(n, 1 / n) - spread_out(found, n)
        for smoothness in (0.3, 0.7, 0.9, 1.0):
            smooth = vectors[:, np.abs(values) >= smoothness - 1e-12]
            worst = np.linalg.norm(smooth.T @ off)
            assert worst <= found.selection_.bound(smoothness) + 1e-12
            f = smooth @ rng.normal(size=smooth.shape[1])
            gap = abs(f.mean() - found.estimate(f))
            assert gap <= found.selection_.bound(smoothness, float(np.linalg.norm(f))) + 1e-12
        assert found.bound_ == pytest.approx(found.error_ * 0.9**-steps)


@pytest.mark.integration
@pytest.mark.parametrize("kappa", [1.0, 0.7])
@pytest.mark.parametrize(("steps", "norms"), [(1, "auto"), (3, "exact"), (3, "estimated")])
def test_going_on_equals_starting_anew(steps: int, norms: str, kappa: float) -> None:
    a, cost = random_graph(80, 3, density=0.1), np.random.default_rng(0).random(80)
    grown = Coreset(k=1, kappa=kappa, steps=steps, norms=norms).fit(a, cost)  # type: ignore[arg-type]
    for k in range(1, 30):
        fresh = Coreset(k=k, kappa=kappa, steps=steps, norms=norms).fit(a, cost)  # type: ignore[arg-type]
        grown.extend(k)
        np.testing.assert_array_equal(grown.indices_, fresh.indices_)
        np.testing.assert_array_equal(grown.weights_, fresh.weights_)
        assert (grown.error_, grown.total_cost_) == (fresh.error_, fresh.total_cost_)


def test_nothing_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step from K to K + 1 asks for one column."""
    from coterie.coreset.walk import Walk

    asked: list[int] = []
    column = Walk.column
    monkeypatch.setattr(Walk, "column", lambda self, node: asked.append(node) or column(self, node))
    found = Coreset(k=10).fit(random_graph(50, 0))
    assert len(asked) == 10
    found.extend(11)
    assert len(asked) == 11


@pytest.mark.integration
def test_the_example_of_the_specification() -> None:
    """3 Gaussians, n = 1000, ℓ = 20, K = 14: 1 − cos² ≈ .03, cost falling by an order of magnitude and more."""
    objective, costs = [], []
    for seed in range(2):
        x, _ = gaussians(1000, seed)
        cost = np.random.default_rng(seed).random(1000)
        fits = [Coreset(14, kappa, steps=20, norms="exact").fit_points(x, cost) for kappa in (1, 0.9, 0.5)]
        objective.append(1000 * fits[0].error_ ** 2)
        costs.append([found.total_cost_ for found in fits])
    assert 0.02 < np.mean(objective) < 0.06
    ones, nine, five = np.mean(costs, axis=0)
    assert 5 < ones < 9
    assert 0.3 < nine < 2
    assert 0.05 < five < 0.4


@pytest.mark.integration
def test_costs_fall_by_an_order_of_magnitude_on_the_gaussians() -> None:
    """10,000 points, K = 14: from κ = 1 to κ = 0.5 the cost falls tenfold, and the error stays comparable."""
    x, _ = gaussians(10_000, 0)
    cost = np.random.default_rng(0).random(10_000)
    graph = neighbour_graph(x)
    full, cheap = (Coreset(14, kappa, steps=20, norms="estimated").fit(graph, cost) for kappa in (1, 0.5))
    assert full.total_cost_ > 10 * cheap.total_cost_
    assert cheap.error_ < 1.2 * full.error_
    assert np.sqrt(1 / 10_000) > full.error_


@pytest.mark.integration
def test_better_than_random_nodes() -> None:
    """At K = 14, for each of 20 seeds."""
    for seed in range(20):
        x, _ = gaussians(300, seed)
        graph = neighbour_graph(x)
        found = Coreset(14, steps=20).fit(graph)
        assert found.error_ < baseline("random", graph, 14, steps=20, seed=seed).error


@pytest.mark.integration
def test_estimated_lengths_change_little() -> None:
    x, _ = gaussians(1500, 1)
    cost = np.random.default_rng(1).random(1500)
    for kappa in (1, 0.5):
        exact, estimated = (
            Coreset(14, kappa, steps=10, norms=norms).fit_points(x, cost) for norms in ("exact", "estimated")
        )
        assert estimated.error_ == pytest.approx(exact.error_, rel=0.05)
        measured = quadrature_error(walk_on(neighbour_graph(x), 10), estimated.indices_, estimated.weights_)
        assert estimated.error_ == pytest.approx(measured, rel=1e-9)


def test_methods_can_share_a_walk() -> None:
    """What one method measures changes nothing for the next."""
    known = walk_on(random_graph(300, 0, density=0.02), 3, norms="estimated")
    estimates = known.squared_norms.copy()
    first = Ascent(known, np.ones(300)).run(20).selection()
    BASELINES["frank-wolfe"](known, 20, np.ones(300))
    again = Ascent(known, np.ones(300)).run(20).selection()
    np.testing.assert_array_equal(first.indices, again.indices)
    np.testing.assert_array_equal(known.squared_norms, estimates)


def test_scores_by_hand() -> None:
    """Three columns in the plane of y and p*: parallel to y, orthogonal to it, in between."""
    y, star = np.array([1.0, 0.0]), np.array([1.0, 1.0]) / math.sqrt(2)
    columns = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.4]]).T  # each sums to 1
    direction = (star - (star @ y) * y) / np.linalg.norm(star - (star @ y) * y)
    unit = columns / np.linalg.norm(columns, axis=0)
    expected = (direction @ unit)[1:] / np.sqrt(1 - (y @ unit)[1:] ** 2)
    norm = float(np.linalg.norm(star - (star @ y) * y))
    # `scores` takes as many columns as dimensions; the third stands in for the first
    for pair in ([0, 1], [1, 2]):
        part = columns[:, pair]
        found = scores(y @ part / 4, 4.0, (part**2).sum(axis=0), float(star @ y), norm)
        assert found[0] == (-np.inf if pair[0] == 0 else pytest.approx(expected[0]))
        assert found[1] == pytest.approx(expected[pair[1] - 1])


@given(st.integers(0, 10**6))
@GENERATED
def test_the_step_is_the_best_between_two_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    star, y, v = (x / np.linalg.norm(x) for x in rng.normal(size=(3, 3)))
    z0, z1, z2 = star @ v, star @ y, v @ y
    if z0 - z1 * z2 <= 1e-6:
        return
    delta = step_length(z0, z1, z2)

    def cosine(d: float) -> float:
        x = (1 - d) * y + d * v
        return float(x @ star / np.linalg.norm(x))

    if z1 > 0 or delta < 1:
        grid = np.linspace(0, 1, 401)
        assert cosine(delta) >= max(cosine(d) for d in grid) - 1e-9


def test_the_choice_in_the_window() -> None:
    score, cost = np.array([0.5, 1.0, 0.95, 0.95, 0.2]), np.array([0.1, 3.0, 2.0, 2.0, 0.0])
    assert cheapest(score, cost, 1.0) == 1
    assert cheapest(score, cost, 0.9) == 2
    assert cheapest(score, cost, 0.5) == 0
    assert cheapest(score, cost, 0.1) == 4
    assert cheapest(score + np.array([0, 0, 0, 0.01, 0]), cost, 0.9) == 3
    assert cheapest(-score, cost, 0.5) is None
    assert cheapest(np.array([-np.inf, 0.0]), np.ones(2), 0.5) is None

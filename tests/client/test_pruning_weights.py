"""Which weights a client proposes to prune, against loops, and each gate that a proposal has to pass."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pruning_examples import by_loop

from coterie.client.pruning import Mask, decide, hamming, last_rate, propose_weights, pruned_share, under, whole
from coterie.messages import Params, Prune

# Proposals.


@pytest.mark.integration
@given(
    st.integers(0, 2**32),
    st.sampled_from([(7, 5), (1, 9), (12, 1), (4, 3, 2, 2)]),
    st.floats(0.01, 0.99),
    st.floats(0.1, 1),
)
def test_the_smallest_weights_of_each_layer_are_proposed(
    seed: int, shape: tuple[int, ...], rate: float, left: float
) -> None:
    rng = np.random.default_rng(seed)
    weights, alive = rng.normal(size=shape).astype(np.float32), rng.random(shape) < left
    if not alive.any():
        return
    kept = propose_weights({"w": weights}, {"w": alive}, ["w"], rate)["w"]
    np.testing.assert_array_equal(kept, by_loop(weights, alive, rate))
    assert not (kept & ~alive).any()
    rows = alive.reshape(len(alive), -1).any(axis=1)
    np.testing.assert_array_equal(kept.reshape(len(kept), -1).any(axis=1), rows)


def test_percentiles_by_numpy_and_by_hand() -> None:
    weights = np.float32([[-5, 1, 2], [3, -4, 6]])
    full = whole({"w": weights}, ["w"])
    assert propose_weights({"w": weights}, full, ["w"], 0.4)["w"].tolist() == [[True, False, False], [True] * 3]
    assert propose_weights({"w": weights}, full, ["w"], 0.5)["w"].tolist() == [
        [True, False, False],
        [False, True, True],
    ]
    many = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    kept = propose_weights({"w": many}, whole({"w": many}, ["w"]), ["w"], 0.1)["w"]
    np.testing.assert_array_equal(kept, np.abs(many) >= np.percentile(np.abs(many).astype(float), 10))
    assert (~kept).sum() == 200


def test_layers_have_thresholds_of_their_own() -> None:
    weights = {"a": np.full((2, 50), 1e-3, np.float32), "b": np.ones((2, 50), np.float32)}
    for value in weights.values():
        value *= np.linspace(1, 2, 100, dtype=np.float32).reshape(2, 50)
    kept = propose_weights(weights, whole(weights, weights), weights, 0.2)
    assert [int(k.sum()) for k in kept.values()] == [80, 80]


def test_no_output_unit_loses_all_its_weights() -> None:
    weights = np.float32([[1e-6, 2e-6, -3e-6], [10, 20, 30]])
    mask = whole({"w": weights}, ["w"])
    for _ in range(30):
        mask = propose_weights({"w": weights}, mask, ["w"], 0.6)
    assert mask["w"].tolist() == [[False, False, True], [False, False, True]]


def test_a_layer_without_weights_stays_so() -> None:
    mask = {"w": np.zeros((2, 2), bool)}
    assert not propose_weights({"w": np.ones((2, 2), np.float32)}, mask, ["w"], 0.5)["w"].any()


def test_the_distance_is_the_mean_over_layers() -> None:
    rng = np.random.default_rng(1)
    a, b = ({"x": rng.random((3, 4)) < 0.5, "y": rng.random(70) < 0.5} for _ in range(2))
    shares = [sum(p != q for p, q in zip(a[k].ravel(), b[k].ravel(), strict=True)) / a[k].size for k in a]
    assert hamming(a, b) == pytest.approx(sum(shares) / 2)
    assert hamming(a, a) == 0.0
    assert pruned_share(a, ["x", "y"]) == pytest.approx(np.mean(np.concatenate([~a["x"].ravel(), ~a["y"]])))


def test_the_last_step_ends_at_the_target() -> None:
    rng = np.random.default_rng(2)
    weights = {"a": rng.normal(size=(40, 60)).astype(np.float32), "b": rng.normal(size=(30, 20)).astype(np.float32)}
    mask = whole(weights, weights)
    while 0.7 - pruned_share(mask, weights) >= 0.1:
        mask = propose_weights(weights, mask, weights, 0.1)
    mask = propose_weights(weights, mask, weights, last_rate(0.7, pruned_share(mask, weights), None))
    assert pruned_share(mask, weights) == pytest.approx(0.7, abs=2 / 3000)


# The decision.

RNG = np.random.default_rng(3)
FIRST, LAST = ({"w": RNG.normal(size=(20, 30)).astype(np.float32), "b": np.float32([5, 6])} for _ in range(2))
VERB = Prune(("w",), rate=0.1, target=0.5, distance=0.0, accuracy=0.5)


def decided(verb: Prune = VERB, mask: Mask | None = None, reached: float | None = 1.0) -> tuple[Any, int]:
    """The decision, and how often accuracy was measured."""
    measured = []

    def accuracy(params: Params) -> float | None:
        measured.append(params)
        assert np.count_nonzero(params["w"]) < np.count_nonzero(under(LAST, mask or whole(LAST, ["w"]))["w"])
        return reached

    return decide(verb, FIRST, LAST, mask or whole(LAST, ["w"]), accuracy), len(measured)


def test_a_proposal_that_passes_all_gates_is_taken() -> None:
    (mask, verdict, channels), measured = decided()
    assert (verdict, channels, measured) == ("pruned", None, 1)
    np.testing.assert_array_equal(mask["w"], by_loop(LAST["w"], np.ones((20, 30), bool), 0.1))


def test_masks_that_hardly_differ_prune_nothing() -> None:
    apart = hamming(*(propose_weights(m, whole(m, ["w"]), ["w"], 0.1) for m in (FIRST, LAST)))
    assert 0.1 < apart < 0.2
    for epsilon, verdict in ((apart * 0.999, "pruned"), (apart, "unchanged"), (1.0, "unchanged")):
        (mask, decision, _), measured = decided(replace(VERB, distance=epsilon))
        assert (decision, measured) == (verdict, int(verdict == "pruned"))
        assert mask["w"].all() == (verdict == "unchanged")


def test_a_single_epoch_prunes_nothing() -> None:
    decision = decide(VERB, LAST, LAST, whole(LAST, ["w"]), lambda model: 1.0)
    assert decision.weights == "unchanged"
    assert decision.mask["w"].all()


@pytest.mark.parametrize("target", [0.0, 0.3, 0.4])
def test_a_target_that_is_reached_prunes_nothing(target: float) -> None:
    """Also one that is below what is pruned already."""
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 2}
    (after, verdict, _), measured = decided(replace(VERB, target=target), mask)
    assert (verdict, measured) == ("target", 0)
    np.testing.assert_array_equal(after["w"], mask["w"])


def test_near_the_target_the_rate_is_made_to_end_there() -> None:
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 2}  # 40 % are pruned, 360 weights are left
    (after, _, _), _ = decided(replace(VERB, target=0.45, rate=0.1), mask)
    assert 600 - after["w"].sum() == pytest.approx(0.45 * 600, abs=1)
    (after, _, _), _ = decided(replace(VERB, target=0.49, rate=0.1, last_rate=0.05), mask)
    assert 360 - after["w"].sum() == pytest.approx(0.05 * 360, abs=1)
    (after, _, _), _ = decided(replace(VERB, target=0.5, rate=0.05, last_rate=0.01), mask)  # not near: 0.1 > 0.05
    assert 360 - after["w"].sum() == pytest.approx(0.05 * 360, abs=1)


@pytest.mark.parametrize(
    ("reached", "verdict"),
    [(0.51, "pruned"), (0.5, "reverted"), (0.0, "reverted"), (math.nan, "reverted"), (None, "pruned")],
)
def test_what_is_not_accurate_enough_is_reverted(reached: float | None, verdict: str) -> None:
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 1}
    (after, decision, _), measured = decided(mask=mask, reached=reached)
    assert (decision, measured) == (verdict, 1)
    assert np.array_equal(after["w"], mask["w"]) == (verdict == "reverted")

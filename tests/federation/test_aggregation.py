"""Putting models together: against plain loops, and what long updates, large weights and small groups lead to."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from aggregation_world import RNG, START, Noted, members, moved

from coterie.federation.aggregation import (
    among_neighbours,
    krum,
    middle,
    shortened,
    update_lengths,
)
from coterie.messages import TrainReply, weighted_mean


def test_the_mean_and_the_clipped_mean_of_like_updates_are_weighted_means() -> None:
    models, weights = [moved(1 + 0.2 * k) for k in range(5)], [3.0, 1.0, 4.0, 1.0, 5.0]
    expected = weighted_mean(models, weights)
    for rule in ("mean", "clipped"):
        aggregator = Noted(rule=rule)
        mean = aggregator.averages({"a": members(*models, weights=weights)})["a"]
        assert all(np.array_equal(mean[name], expected[name]) for name in START)
        assert not aggregator.events


def test_a_long_update_is_cut_to_three_times_the_median_and_an_event_says_whose() -> None:
    models = [moved(1.0), moved(2.0), moved(1e9), moved(3.0), moved(2.5)]
    aggregator = Noted(rule="clipped")
    cut = aggregator.screened({0: members(*models)})[0]
    assert update_lengths(cut[2].params, START)[0] == pytest.approx(3 * 2.5, rel=1e-4)
    way, kept = (model["fc.weight"] - START["fc.weight"] for model in (models[2], cut[2].params))
    assert np.vdot(way, kept) / np.linalg.norm(way) / np.linalg.norm(kept) == pytest.approx(1, abs=1e-5)
    assert [cut[k].params is models[k] for k in (0, 1, 3, 4)] == [True] * 4
    assert [(client, kind) for client, kind, _ in aggregator.events] == [(2, "clipped")]
    assert "of length 1e+09 was cut to 7.5, 3 times the median" in aggregator.events[0][2]
    assert [m is n for m, n in zip(aggregator.screened({0: cut})[0], cut, strict=True)] == [True] * 5  # once is enough


def test_what_batchnorm_counts_has_a_length_of_its_own() -> None:
    models = [moved(1.0, statistics=0.1), moved(1.0, statistics=0.2), moved(1.0, statistics=1e9)]
    cut = Noted(rule="clipped").screened({0: members(*models)})[0]
    assert update_lengths(cut[2].params, START) == pytest.approx((1.0, 0.6), rel=1e-3)
    assert np.array_equal(cut[2].params["fc.weight"], models[2]["fc.weight"])


def test_a_group_with_fewer_than_three_replies_is_measured_by_all_clients_of_the_round() -> None:
    everyone = members(*(moved(1.0) for _ in range(5)), moved(1e6), moved(1.2))
    groups = {"many": everyone[:5], "few": everyone[5:]}
    for rule in ("clipped", "median", "trimmed", "krum"):
        aggregator = Noted(rule=rule)
        means = aggregator.averages(groups)
        assert update_lengths(means["few"], START)[0] < 3.1
        assert [client for client, _, _ in aggregator.events] == [5]


def test_who_did_not_move_has_no_say_in_how_long_updates_are() -> None:
    cut = Noted(rule="clipped").screened({0: members(START, START, START, moved(1.0), moved(1.5))})[0]
    assert update_lengths(cut[4].params, START)[0] == pytest.approx(1.5, rel=1e-5)


def test_no_client_counts_for_more_than_a_multiple_of_the_median() -> None:
    declared = {0: 10, 1: 20, 2: 30, 3: 10**9, 4: 0}
    aggregator = Noted(declared, max_weight=10.0)
    trained = {c: TrainReply(declared[c], 1, 0.5, moved(1.0)) for c in range(4)}
    weights = [m.weight for m in aggregator.contributions(trained, START)]
    assert weights == [10, 20, 30, 250]
    assert [(client, kind) for client, kind, _ in aggregator.events] == [(3, "weight cut")]
    assert [m.weight for m in aggregator.contributions(trained, START, equal=True)] == [1] * 4


def test_the_median_of_all_clients_is_looked_for_once_and_again_when_somebody_comes() -> None:
    class Counts(dict[int, int]):
        looked = 0

        def values(self):  # type: ignore[no-untyped-def]
            self.looked += 1
            return super().values()

    declared = [Counts({0: 10, 1: 20, 2: 30})]
    aggregator = Noted(max_weight=2.0)
    aggregator.declared = lambda: declared[-1]
    assert [aggregator.heaviest() for _ in range(5)] == [40.0] * 5
    assert declared[0].looked == 1
    declared.append(Counts({**declared[0], 3: 40, 4: 50}))
    assert aggregator.heaviest() == 60.0


@pytest.mark.parametrize(("n", "out"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (8, 2), (20, 5)])
def test_medians_and_trimmed_means_against_sorting(n: int, out: int) -> None:
    stack = RNG.normal(size=(n, 3, 2)).astype(np.float32)
    assert Noted(rule="trimmed").left_out(n) == out
    for left_out in (out, (n - 1) // 2):
        for at in np.ndindex(3, 2):
            kept = sorted(stack[(slice(None), *at)].tolist())[left_out : n - left_out]
            assert middle(stack, left_out)[at] == pytest.approx(np.mean(kept), rel=1e-5)
    assert np.allclose(middle(stack, (n - 1) // 2), np.median(stack, axis=0), rtol=1e-5)


def test_of_numbers_that_some_have_those_count() -> None:
    stack, owners = RNG.normal(size=(7, 40)).astype(np.float32), RNG.random((7, 40)) < 0.5
    result = middle(stack, 3, owners)
    for at in range(40):
        own = stack[owners[:, at], at]
        assert result[at] == pytest.approx(np.median(own) if len(own) else 0.0, rel=1e-5)
    assert np.array_equal(middle(stack, 2, np.ones((7, 40), bool)), middle(stack, 2))


def test_integers_are_not_averaged() -> None:
    models = [moved(1.0, seen=seen) for seen in (5, 6, 7, 10**11, 10**11 - 1)]
    for rule, expected in (("median", 7), ("trimmed", 7), ("mean", 10**11)):
        assert Noted(rule=rule).averages({0: members(*models)})[0]["bn.num_batches_tracked"] == expected


def test_each_model_becomes_the_mean_of_the_majority_nearest_to_it() -> None:
    rows = RNG.normal(size=(7, 5)).astype(np.float32)
    rows[3] = 1e11
    stacks = {"a": rows[:, :2].reshape(7, 1, 2), "b": rows[:, 2:], "n": np.arange(7)}
    mixed = among_neighbours(stacks)
    for k, row in enumerate(rows):
        nearest = sorted(range(7), key=lambda j, row=row: float(np.sum((rows[j].astype(float) - row) ** 2)))[:4]
        expected = rows[nearest].astype(float).mean(axis=0)
        assert np.allclose(np.hstack([mixed["a"][k].ravel(), mixed["b"][k]]), expected, rtol=1e-5)
    assert np.array_equal(mixed["n"], stacks["n"])


def test_of_three_that_agree_and_two_that_lie_the_mean_of_the_three_is_taken() -> None:
    way = RNG.normal(size=(3, 4))
    honest = [{**START, "fc.weight": (START["fc.weight"] + way * s).astype(np.float32)} for s in (0.9, 1.0, 1.1)]
    turned = [{**START, "fc.weight": (START["fc.weight"] - way * s).astype(np.float32)} for s in (1.0, 1.05)]
    mean = Noted(rule="median").averages({0: members(*turned, *honest)})[0]["fc.weight"]
    alone = Noted(rule="median", mixing="none").averages({0: members(*turned, *honest)})[0]["fc.weight"]
    assert np.allclose(mean, START["fc.weight"] + way, atol=1e-5)
    assert np.allclose(alone, START["fc.weight"] + 0.9 * way, atol=1e-5)


def test_krum_takes_the_model_nearest_to_the_others() -> None:
    models = [{"w": RNG.normal(size=6).astype(np.float32)} for _ in range(9)] + [{"w": np.full(6, 1e11, np.float32)}]
    for liars in (0, 2, 3):
        near = len(models) - liars - 2
        apart = [
            sum(sorted(float(np.sum((a["w"].astype(float) - b["w"]) ** 2)) for b in models if b is not a)[:near])
            for a in models
        ]
        assert krum(models, liars) == int(np.argmin(apart))
    together = [{"w": np.float32([x])} for x in (0.0, 0.1, 0.2, 50.0, 70.0)]
    assert krum(together, 1) in (0, 1, 2)


@pytest.mark.parametrize("rule", ["median", "trimmed", "krum"])
def test_two_of_five_can_t_move_a_number_beyond_what_the_others_say(rule: str) -> None:
    honest = [moved(1.0) for _ in range(3)]
    for places in combinations(range(5), 2):
        models = [*honest]
        for place in places:
            models.insert(place, moved(1e11))
        result = Noted(rule=rule).averages({0: members(*models)})[0]["fc.weight"]
        stack = np.stack([model["fc.weight"] for model in honest])
        assert np.all(result >= stack.min(axis=0))
        assert np.all(result <= stack.max(axis=0))


def test_weights_do_not_matter_to_rules_that_count_each_client_once() -> None:
    models = [moved(1.0) for _ in range(5)]
    for rule in ("median", "trimmed", "krum"):
        one, other = (
            Noted(rule=rule).averages({0: members(*models, weights=weights)})[0]
            for weights in ([1.0] * 5, [1e9, 1.0, 1.0, 1.0, 1.0])
        )
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_nothing_is_cut_beyond_rounding_where_the_share_is_all() -> None:
    model = moved(2.0)
    assert all(np.array_equal(v, model[name]) for name, v in shortened(model, START, 1.0, 1.0).items())

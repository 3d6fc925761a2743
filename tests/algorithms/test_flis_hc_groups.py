"""FLIS-HC: groups by a tree after a warm-up, and what the authors' released script does instead."""

import numpy as np
import pytest
from flis_world import UNEVEN, numbers, opened, play, same

import coterie
from coterie.algorithms.flis_hc import FLISHC
from coterie.federation.loop import rounds
from coterie.messages import weighted_mean
from coterie.testing import small_run


def test_hc_with_everything_merged_is_fedavg_bit_for_bit() -> None:
    hc = small_run("flis-hc", **UNEVEN, algorithm_options={"beta": 0.0})
    fedavg = small_run("fedavg", **UNEVEN)
    assert hc.groups == [0] * 10
    assert numbers(hc) == numbers(fedavg)
    assert [row["G"] for row in hc.history] == [row["G"] for row in fedavg.history]
    assert hc.per_client == fedavg.per_client


def test_hc_with_nothing_merged_every_client_goes_on_from_its_own_model() -> None:
    result = small_run("flis-hc", algorithm_options={"beta": 1.5})
    assert result.groups == list(range(6))
    assert result.per_client["L"] == result.per_client["C"]


def test_hc_starts_anew_after_a_warm_up_that_only_the_ledger_remembers() -> None:
    with opened("flis-hc") as run:
        run.algorithm.begin(run.fed)
        method, start = run.algorithm, run.fed.initial()
        assert all(same(model, start) for model in method.models)
        assert all(run.fed.engine._clients[c]._store.load(c, before=9) == {} for c in range(6))
        assert {described.shape for described in method.described.values()} == {(len(run.data.server),)}
        warm_up = run.fed.ledger.by_kind["warm-up"]
        assert warm_up["up"] > 6 * 4 * 1210
        assert warm_up["down"] < 6 * 1000  # every client can make θ⁰ itself
        assert method.transfers == 2


def test_hc_is_hierarchical_and_uses_its_threshold() -> None:
    """The released script thresholds rows, at 5: it joins who agrees on 0.96, whatever β is, and groups overlap."""
    a = np.zeros(10, np.int64)
    b, c, d = a.copy(), a.copy(), np.full(10, 5)
    b[:2], c[:2], c[2:4] = 1, 1, 2  # a and b agree on 0.8, b and c too, a and c on 0.6
    with opened("flis-hc") as run:
        for beta, labels in ((0.8, [0, 0, 1, 2]), (0.7, [0, 0, 0, 1]), (0.9, [0, 1, 2, 3])):
            method = FLISHC(beta=beta)
            formed = method.form(run.fed, method.distances([a, b, c, d]))
            assert (formed.labels.tolist(), formed.linkage, formed.rule) == (labels, "weighted", "degrees")
            assert formed.threshold == pytest.approx(1 - beta)
        assert formed.heights == pytest.approx([0.2, 0.3, 1.0])
        script = FLISHC(beta=0.8, hc_mode="row-threshold")
        script.described = {3: a, 4: b, 5: c, 6: d}
        assert script.neighbours() == {3: (3, 4), 4: (3, 4, 5), 5: (4, 5), 6: (6,)}
        for beta in (None, 1.5):
            script = FLISHC(beta=beta, hc_mode="row-threshold")
            script.described = {3: a, 4: b, 5: a, 6: d}
            assert script.neighbours() == {3: (3, 5), 4: (4,), 5: (3, 5), 6: (6,)}


def test_hc_clients_describe_themselves_from_the_common_start_whenever_they_do() -> None:
    settings = {"fraction": 1.0, "epochs": 5}
    with opened("flis-hc", **settings) as run, opened("flis-hc", **settings) as other:
        trained, fresh = play(run, 3), other.algorithm
        other.fed.start_round(3)
        assert np.array_equal(trained.describe(run.fed, [2])[2], fresh.describe(other.fed, [2])[2])


@pytest.mark.integration
@pytest.mark.parametrize("seed", [0, 1])
def test_hc_finds_the_true_groups_once_models_have_learnt_something(seed: int) -> None:
    settings = {"algorithm": "flis-hc", "seed": seed, "epochs": 10}
    permuted = coterie.cluster(dataset="digits-permuted", **settings)
    assert (permuted.ari, permuted.grouping.rule, permuted.grouping.unit) == (1.0, "silhouette", "disagreement")
    assert coterie.cluster(dataset="digits-permuted", groups=4, **settings).ari == 1
    soft = coterie.cluster(dataset="digits-rotated", lr=0.05, algorithm_options={"soft": True}, **settings)
    assert soft.ari == 1


def test_hc_newcomers_join_groups_that_stay_as_they_are() -> None:
    settings = {"dataset": "digits-permuted", "clients": 20, "epochs": 10, "model_options": {}, "newcomers": 0.25}
    result = small_run("flis-hc", **settings, newcomer_draw="last")
    assert result.ari == 1
    assert result.newcomers["clients"] == [15, 16, 17, 18, 19]
    assert result.newcomers["groups"] == [result.groups[c % 4] for c in range(15, 20)]
    assert result.newcomers["founded"] == []
    assert result.newcomers["accuracy"]["L"] > 0.6


@pytest.mark.integration
def test_hc_who_misses_the_warm_up_is_placed_when_it_takes_part() -> None:
    settings = {"dataset": "digits-permuted", "clients": 20, "epochs": 10, "model_options": {}, "rounds": 8}
    result = small_run("flis-hc", **settings, drop=0.3, fraction=1.0)
    assert None not in result.groups
    assert result.ari == 1
    dropped = sum(event["count"] for event in result.events if event["kind"] == "dropped")
    assert dropped > 20


def test_the_released_script_averages_the_last_models_of_neighbours() -> None:
    options = {"hc_mode": "row-threshold", "beta": 0.5}
    with opened("flis-hc", **UNEVEN, algorithm_options=options) as run:
        method, last = run.algorithm, {}
        for t, _ in rounds(run.fed, method, run.evaluator, every=0):
            last |= run.fed.training.returned
            if t == 3:
                break
        near, samples, start = method.neighbours(), run.fed.samples, run.fed.initial()
        assert {len(members) for members in near.values()} - {1, 10}
        assert 0 < len(last) < 10
        for client in range(10):
            models = [last.get(j, start) for j in near[client]]
            assert same(method.model_for(client), weighted_mean(models, [samples[j] for j in near[client]]))
        equal = {(i, j) for i in near for j in near if near[i] == near[j]}
        groups = method.groups()
        assert equal == {(i, j) for i in groups for j in groups if groups[i] == groups[j]}
        assert method.grouping.summary()["rule"] == "row-threshold"


@pytest.mark.integration
def test_the_released_script_with_everyone_in_every_round_and_beta_0_is_fedavg() -> None:
    settings = {**UNEVEN, "fraction": 1.0}
    script = small_run("flis-hc", **settings, algorithm_options={"hc_mode": "row-threshold", "beta": 0.0})
    fedavg = small_run("fedavg", **settings)
    assert numbers(script) == numbers(fedavg)
    assert script.groups == [0] * 10


def test_the_released_script_gives_newcomers_their_neighbours_mean() -> None:
    options = {"hc_mode": "row-threshold", "beta": 0.0}
    with opened("flis-hc", newcomers=0.34, join_at=2, algorithm_options=options) as run:
        method = play(run, 2)
        newcomer = min(run.fed.joined)
        old = next(client for client in range(6) if client not in run.fed.joined)
        assert method.model_for(newcomer) is method.model_for(old)
        assert not same(method.model_for(newcomer), method.start)

"""Every method that averages does so by the rule of [aggregation]: nothing changes without liars, much with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.engine import SimulatedFaults
from coterie.testing import goes_on_after_an_interruption, outcome, small_run

SETTINGS: dict[str, Any] = {"fraction": 1.0, "clients": 9, "rounds": 3, "epochs": 2, "dataset": "digits"}
AVERAGING = [name for name in ALGORITHMS if name not in ("solo", "mtl", "sub-fedavg-hy")]
"""Those that serve a model which nine clients of few samples train to something in three rounds."""


@pytest.mark.integration
@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_the_clipped_mean_is_the_mean_where_nobody_is_cut(method: str) -> None:
    plain, clipped = (
        small_run(method, aggregation=rule, drop=0.2, rounds=3, eval_every=0) for rule in ("mean", "clipped")
    )
    assert {event["kind"] for event in clipped.events} <= {"dropped"}
    assert outcome(plain) == outcome(clipped)


def honest_accuracy(result: coterie.Result, liars: frozenset[int]) -> float:
    scores = result.per_client["C"] if result.accuracy["C"] is not None else result.per_client["L"]
    return float(np.mean([score for client, score in enumerate(scores) if client not in liars and score is not None]))


OTHERWISE = ("fedavg", "scaffold", "fednova", "sub-fedavg-un", "fedsoft", "lg-fedavg")
"""A method of each way in which means are made: of models, controls, steps, owners of weights, shares, some layers."""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "rule"), [*((name, "clipped") for name in AVERAGING), *((name, "median") for name in OTHERWISE)]
)
def test_one_update_of_1e11_ends_no_model_by_any_rule_but_the_mean(method: str, rule: str) -> None:
    """Trimmed goes as the median does."""
    liars = SimulatedFaults(liars=1, clients=9).always
    settings, attack = {**SETTINGS, "eval_every": 0, "aggregation": rule}, {"liars": 1, "hostile_kind": "huge"}
    quiet, attacked = (honest_accuracy(small_run(method, **settings, **more), liars) for more in ({}, attack))
    assert attacked > quiet - 0.15


@pytest.mark.parametrize(
    ("method", "rule"),
    [*(("fedavg", rule) for rule in ("clipped", "median", "trimmed")), *((name, "krum") for name in OTHERWISE)],
)
def test_missing_replies_and_liars_together(method: str, rule: str) -> None:
    settings = {"drop": 0.3, "straggle": 0.1, "liars": 2, "hostile_kind": "flip10", "aggregation": rule}
    first, again = (outcome(small_run(method, **settings, rounds=3)) for _ in range(2))
    assert first == again
    assert {"dropped", "clipped", "outlier"} >= {event["kind"] for event in first["events"]} - {"late"}


@pytest.mark.integration
@pytest.mark.parametrize(("lie", "rule"), [("flip10", "median"), ("replace", "trimmed"), ("samples", "median")])
def test_four_of_twenty_hardly_move_the_median(lie: str, rule: str) -> None:
    settings: dict[str, Any] = {"algorithm": "fedavg", "dataset": "digits", "fraction": 1.0, "epochs": 3, "lr": 0.05}
    settings |= {"rounds": 6, "eval_every": 0}
    liars = SimulatedFaults(liars=4, clients=20).always
    attack = {"liars": 4, "hostile_kind": lie}
    mean, quiet, attacked = (
        honest_accuracy(coterie.run(**settings, **more), liars)
        for more in (attack, {"aggregation": rule}, {"aggregation": rule, **attack})
    )
    assert mean < 0.5
    assert attacked > quiet - 0.03


@pytest.mark.integration
@pytest.mark.parametrize("lie", ["flip", "flip10"])
def test_two_of_five_do_not_own_their_group(lie: str) -> None:
    """Clients 2 and 18 of the group 2, 6, 10, 14, 18 lie, and one each of two others."""
    settings: dict[str, Any] = {"algorithm": "pacfl", "dataset": "digits-rotated", "fraction": 1.0, "epochs": 3}
    settings |= {"rounds": 6, "eval_every": 0, "lr": 0.05, "aggregation": "median"}
    liars = SimulatedFaults(liars=4, clients=20).always
    assert {2, 18} < liars
    quiet, attacked = (coterie.run(**settings, **more) for more in ({}, {"liars": 4, "hostile_kind": lie}))
    assert honest_accuracy(attacked, liars) > honest_accuracy(quiet, liars) - 0.03
    assert honest_accuracy(attacked, frozenset(range(20)) - {6, 10, 14}) > 0.85


def test_a_billion_samples_count_for_ten_medians_where_that_is_set() -> None:
    settings = {**SETTINGS, "liars": 1, "hostile_kind": "samples"}
    owned, capped = (small_run("fedavg", **settings, **more) for more in ({}, {"max_weight": 2.0}))
    refused = small_run("fedavg", **settings, max_samples=1000)
    liars = SimulatedFaults(liars=1, clients=9).always
    assert honest_accuracy(owned, liars) < honest_accuracy(capped, liars) - 0.2
    assert [event["kind"] for event in capped.events] == ["weight cut"]
    assert [event["kind"] for event in refused.events] == ["too large"]
    assert honest_accuracy(refused, liars) > honest_accuracy(capped, liars) - 0.05


ALONE: dict[str, Any] = {**SETTINGS, "clients": 6, "fraction": 0.17, "rounds": 12, "seed": 1}
"""One client in each round."""


@pytest.mark.integration
@pytest.mark.parametrize("rule", ["clipped", "median", "krum"])
def test_a_liar_that_is_alone_in_its_round_ends_no_model(rule: str) -> None:
    liars = SimulatedFaults(liars=1, clients=6, seed=1).always
    lies = {"aggregation": rule, "liars": 1, "hostile_kind": "huge"}
    quiet, attacked = (small_run("fedavg", **ALONE, **more) for more in ({}, lies))
    event = next(event for event in attacked.events if event["kind"] == "clipped")
    assert {int(client) for client in event["clients"]} == liars
    assert event["first_round"] > 1
    assert honest_accuracy(attacked, liars) > honest_accuracy(quiet, liars) - 0.2


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_one_of_two_in_the_first_round_ends_no_model(method: str) -> None:
    """Nothing is known yet of how long updates are, nor controls."""
    settings = {**ALONE, "fraction": 0.34, "seed": 0, "rounds": 6, "eval_every": 1}
    result = small_run(method, **settings, aggregation="clipped", liars=1, hostile_kind="huge")
    assert result.events[0]["first_round"] == 1
    assert all(row["loss"] < 30 for row in result.history)
    assert all(row["discrepancy"] is None or row["discrepancy"] < 30 for row in result.history)


@pytest.mark.integration
def test_what_is_remembered_of_earlier_rounds_is_there_after_a_kill(tmp_path: Path) -> None:
    lies = {"aggregation": "clipped", "liars": 1, "hostile_kind": "huge", "eval_every": 0}
    goes_on_after_an_interruption("fedavg", tmp_path, **ALONE, **lies)
    event = next(e for e in coterie.Result.load(tmp_path / "broken").events if e["kind"] == "clipped")
    assert "the median of earlier rounds" in event["example"]


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "pacfl"])
def test_huge_lies_do_not_move_the_discrepancy(method: str) -> None:
    attack = {**SETTINGS, "liars": 1, "hostile_kind": "huge", "eval_every": 1}
    usual = max(row["discrepancy"] for row in small_run(method, **SETTINGS, eval_every=1).history)
    for rule in ("clipped", "median", "krum"):
        attacked = small_run(method, **attack, aggregation=rule)
        assert max(row["discrepancy"] for row in attacked.history) < 3 * usual
        marked = {client for e in attacked.events if e["kind"] in ("clipped", "outlier") for client in e["clients"]}
        assert {int(client) for client in marked} >= SimulatedFaults(liars=1, clients=9).always


@pytest.mark.integration
def test_a_huge_gradient_does_not_move_the_gradient_diversity() -> None:
    settings = {**SETTINGS, "rounds": 1, "aggregation": "clipped", "algorithm_options": {"diversity": 1}, "groups": 1}
    quiet, attacked = (
        small_run("pacfl", **settings, **more).details["gradient_diversity"]["1"]["0"]
        for more in ({}, {"liars": 1, "hostile_kind": "huge"})
    )
    assert quiet < attacked < 4 * quiet  # a huge one alone leads to 1/9

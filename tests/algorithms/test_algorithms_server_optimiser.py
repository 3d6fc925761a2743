"""Every method takes the server's steps of FedOpt in each of its groups, or says why it can't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedbabu import FedBABU
from coterie.errors import CoterieError
from coterie.federation import CandidateModels, SharedLayers
from coterie.federation.loop import rounds
from coterie.messages import Params
from coterie.messages.wire import digest
from coterie.run.settings import settings_to_config
from coterie.testing import (
    goes_on_after_an_interruption,
    outcome,
    small_federation,
    small_run,
    small_settings,
    takes_newcomers,
)

MEANLESS = {"solo", "mtl"}
"""Methods without a mean that a model of the server is replaced by."""


def stepping(method: str, **options: Any) -> dict[str, Any]:
    """Settings of a small run with options for the server's step."""
    return {"algorithm_options": {**small_settings(method).get("algorithm_options", {}), **options}}


def models_in(served: Any) -> list[Params]:
    match served:
        case CandidateModels(models):
            return [*models]
        case SharedLayers(layers):
            return [layers]
        case None:
            return []
    return [served]


def test_every_method_has_the_options() -> None:
    for method in ALGORITHMS:
        options = ALGORITHMS.options(method)
        assert options["server_optimiser"].default == "sgd"
        assert {"server_lr", "server_momentum", "server_beta2", "server_tau"} <= options.keys()


@pytest.mark.integration
@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_models_that_clients_receive_have_moments(method: str) -> None:
    settings = {**stepping(method, server_optimiser="adam"), "rounds": 2, "fraction": 1.0}
    if method in MEANLESS:
        with pytest.raises(CoterieError, match="leave out the server's optimiser"):
            settings_to_config(None, {"algorithm": method, **small_settings(method), **settings})
        return
    with small_federation(method, **settings) as (run, _):
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        kept = run.fed.aggregator.optimiser.save()["moments"]
        models = [model for client in run.fed.clients for model in models_in(run.algorithm.model_for(client))]
        if isinstance(run.algorithm, FedBABU):
            models = [run.algorithm.layers]  # clients receive them under a head that never learns
        received = {digest({name: model[name] for name in sorted(model)}) for model in models}
    assert received & kept.keys()  # not all: a group may have had nobody in the round
    assert len(kept) <= len(received) + 2  # and none are kept of models of earlier rounds


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "ifca"])
def test_sgd_with_rate_1_is_the_method_without(method: str) -> None:
    plain = outcome(small_run(method))
    assert outcome(small_run(method, **stepping(method, server_optimiser="sgd", server_lr=1.0))) == plain
    assert outcome(small_run(method, **stepping(method, server_momentum=0.9))) != plain


@pytest.mark.integration
@pytest.mark.parametrize(("method", "one_group"), [("ifca", {"groups": 1}), ("pacfl", {"groups": 1})])
def test_a_method_with_one_group_takes_fedavgs_steps(method: str, one_group: dict[str, Any]) -> None:
    fedavg = small_run("fedavg", **stepping("fedavg", server_optimiser="yogi"))
    grouped = small_run(method, **stepping(method, server_optimiser="yogi"), **one_group)
    assert [row["C"] for row in grouped.history] == [row["C"] for row in fedavg.history]
    assert [row["loss"] for row in grouped.history] == [row["loss"] for row in fedavg.history]


def test_a_round_of_fedavg_goes_the_asked_part_of_the_way() -> None:
    def after_one_round(**options: Any) -> Params:
        with small_federation("fedavg", **stepping("fedavg", **options), rounds=1) as (run, _):
            list(rounds(run.fed, run.algorithm, run.evaluator, every=0))
            return run.algorithm.model_for(0)  # type: ignore[return-value]

    with small_federation("fedavg") as (run, _):
        start = run.fed.initial()
    mean, part = after_one_round(), after_one_round(server_lr=0.25)
    adam = after_one_round(
        server_optimiser="adam", server_lr=0.1, server_momentum=0.5, server_beta2=0.9, server_tau=0.01
    )
    for name, x in start.items():
        delta = mean[name].astype(np.float64) - x
        assert np.allclose(part[name], x + 0.25 * delta, atol=1e-7)
        v = 0.9 * 0.01**2 + 0.1 * delta**2
        assert np.allclose(adam[name], x + 0.1 * 0.5 * delta / (np.sqrt(v) + 0.01), atol=1e-6)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "options", "check"),
    [
        ("fedavg", {"server_optimiser": "adam"}, goes_on_after_an_interruption),
        ("lg-fedavg", {"server_momentum": 0.9, "server_lr": 0.5}, goes_on_after_an_interruption),
        (
            "cfl",
            {"server_optimiser": "yogi", "min_round": 1, "eps1": 100.0, "eps2": 1e-6},
            goes_on_after_an_interruption,
        ),
        ("pacfl", {"server_optimiser": "adam", "assign": "recluster"}, takes_newcomers),
    ],
)
def test_runs_go_on_with_their_moments(
    method: str, options: dict[str, Any], check: Callable[..., None], tmp_path: Path
) -> None:
    """Also where groups are split, or formed anew."""
    check(method, tmp_path, **stepping(method, **options))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("solo:server_momentum=0.9", "it averages nothing"),
        ("mtl:server_optimiser=yogi", "it has no server model"),
        ("fedgroup:eta_g=0.1,server_lr=0.5", "eta_g is a server's step of its own"),
        ("pfedme:beta=0.5,server_momentum=0.9", "beta is a server's step of its own"),
        ("flis-hc:hc_mode=row-threshold,server_optimiser=adam", "goes on from no model"),
        ("fedavg:server_tau=0.1", "server_tau is of server_optimiser = adam or yogi"),
        ("fedavg:server_optimiser=adagrad", "should be 'sgd', 'adam' or 'yogi'"),
        ("fedavg:server_momentum=1", "should be less than 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(method: str, message: str) -> None:
    with pytest.raises(CoterieError) as told:
        settings_to_config(None, {"algorithm": method})
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_a_method_with_a_step_of_its_own_still_runs_without_the_servers() -> None:
    plain = ("fedgroup:eta_g=0.1", "pfedme:beta=0.5,server_lr=0.5", "flis-hc:hc_mode=row-threshold", "solo:server_lr=1")
    for method in (*plain, "mtl"):
        settings_to_config(None, {"algorithm": method})

"""Ditto and MR-MTL: models of clients' own, held near another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coterie.client import MemoryStore
from coterie.run.building import Session
from coterie.testing import small_federation, small_run

EVERYONE: dict[str, Any] = {"fraction": 1.0, "rounds": 2, "epochs": 2, "eval_every": 1, "momentum": 0.5}


def one_round(run: Session, t: int) -> None:
    run.fed.start_round(t)
    run.algorithm.round(run.fed, run.fed.cohort(t))


@pytest.mark.parametrize("method", ["ditto", "mr-mtl"])
def test_own_models_that_nothing_holds_are_solos(method: str) -> None:
    ours = small_run(method, **EVERYONE, algorithm_options={"lam": 0.0})
    solo = small_run("solo", **EVERYONE, algorithm_options={"epochs": 4})
    assert ours.per_client["L"] == solo.per_client["L"]
    assert [row["loss"] for row in ours.history] == [row["loss"] for row in solo.history]


def test_dittos_global_model_is_fedavgs_whatever_own_models_do() -> None:
    ditto, fedavg = (small_run(method, rounds=3) for method in ("ditto", "fedavg"))
    assert ditto.per_client["C"] == fedavg.per_client["C"]
    assert ditto.accuracy["G"] == fedavg.accuracy["G"]
    assert ditto.per_client["L"] != fedavg.per_client["L"]
    assert ditto.traffic["paper_megabits"] == fedavg.traffic["paper_megabits"]


@pytest.mark.parametrize("method", ["ditto", "mr-mtl"])
def test_a_step_has_the_gradient_and_the_pull_to_what_was_received(method: str) -> None:
    """v − η(∇f(v) + λ(v − w)): against the same step without the pull, from the same place."""
    one_step = {"fraction": 1.0, "batch_size": 4096, "lr": 0.1, "momentum": 0.0, "trainer": "torch"}
    after = {}
    for lam in (0.0, 0.7):
        store = MemoryStore()
        with small_federation(method, store, **one_step, algorithm_options={"lam": 0.0}) as (run, _):
            run.algorithm.begin(run.fed)
            one_round(run, 1)
            w, v = run.algorithm.model_for(2), store.load(2, before=2)["model"]
            run.algorithm.lam = lam
            one_round(run, 2)
            after[lam] = store.load(2, before=3)["model"]
    for name in v:
        assert after[0.7][name] == pytest.approx(after[0.0][name] - 0.1 * 0.7 * (v[name] - w[name]), abs=1e-6)
    assert not np.array_equal(v["fc1.weight"], w["fc1.weight"])


def test_the_mean_of_mr_mtl_counts_everyone_alike() -> None:
    store = MemoryStore()
    with small_federation("mr-mtl", store, dataset="digits", partition="dirichlet:alpha=0.5", fraction=1.0) as (run, _):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        own = [store.load(client, before=2)["model"]["fc2.bias"] for client in run.fed.clients]
        assert run.algorithm.model_for(0)["fc2.bias"] == pytest.approx(np.mean(own, axis=0), abs=1e-6)


def test_own_models_come_nearer_to_the_mean_the_stronger_they_are_held() -> None:
    apart = {}
    for lam in (0.0, 5.0):
        store = MemoryStore()
        with small_federation("mr-mtl", store, fraction=1.0, algorithm_options={"lam": lam}) as (run, _):
            run.algorithm.begin(run.fed)
            for t in (1, 2, 3):
                one_round(run, t)
            own = [store.load(client, before=4)["model"]["fc1.weight"] for client in run.fed.clients]
            apart[lam] = float(np.std(own, axis=0).mean())
    assert apart[5.0] < 0.8 * apart[0.0]


def test_dittos_own_models_may_train_longer() -> None:
    with small_federation("ditto", algorithm_options={"own_epochs": 7}) as (run, _):
        run.algorithm.begin(run.fed)
        assert run.algorithm.newcomer_plan(run.fed).epochs == 7

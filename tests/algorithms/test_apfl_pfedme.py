"""APFL and pFedMe against autograd, and what they come to at the ends of their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import coterie
from coterie.client import MemoryStore
from coterie.messages import Params, TrainReply
from coterie.models import build
from coterie.run.building import Session
from coterie.run.export import load_exported
from coterie.testing import RecordingEngine, small_federation, small_run

EVERYONE: dict[str, Any] = {
    "fraction": 1.0, "rounds": 2, "epochs": 2, "eval_every": 1, "momentum": 0.5, "weight_decay": 0.01,
    "trainer": "torch", "batch_size": 30,
}  # fmt: skip
ONE_STEP: dict[str, Any] = {"fraction": 1.0, "batch_size": 4096, "lr": 0.1, "momentum": 0.0, "trainer": "torch"}
"""One step on all samples, so that a round is a formula."""


def one_round(run: Session, t: int) -> None:
    run.fed.start_round(t)
    run.algorithm.round(run.fed, run.fed.cohort(t))


def gradient(run: Session, data: Any, client: int, params: Params) -> Params:
    """∇f on all training samples of a client, by autograd on a fresh network."""
    network = build(run.fed.spec)
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in params.items()})
    part = data.train_parts[client]
    x, y = torch.from_numpy(data.normalise(data.train.x[part])), torch.from_numpy(data.train.y[part])
    torch.nn.functional.cross_entropy(network(x), y).backward()
    return {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}  # type: ignore[union-attr]


def combined(a: float, left: Params, b: float, right: Params) -> Params:
    return {name: np.float32(a) * left[name] + np.float32(b) * right[name] for name in left}


def assert_close(actual: Params, wanted: Params) -> None:
    for name, value in actual.items():
        np.testing.assert_allclose(value, wanted[name], atol=2e-6, err_msg=name)


# APFL


@pytest.mark.integration
def test_apfl_with_only_its_own_part_is_solo() -> None:
    ours = small_run("apfl", **EVERYONE, algorithm_options={"alpha": 1.0, "adaptive": False})
    solo = small_run("solo", **EVERYONE, algorithm_options={"epochs": 4})
    assert ours.per_client["L"] == solo.per_client["L"]


@pytest.mark.integration
def test_apfl_without_its_own_part_is_fedavg_and_that_part_stays() -> None:
    store = MemoryStore()
    options = {"algorithm_options": {"alpha": 0.0, "adaptive": False}}
    ours, fedavg = small_run("apfl", **EVERYONE, **options), small_run("fedavg", **EVERYONE)
    assert ours.per_client == fedavg.per_client
    assert ours.accuracy["G"] == fedavg.accuracy["G"]
    with small_federation("apfl", store, **EVERYONE, **options) as (run, _):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        for client in run.fed.clients:
            state, theta = store.load(client, before=2), run.fed.initial()
            assert all(np.array_equal(state["part"][name], theta[name]) for name in theta)
            assert not np.array_equal(state["model"]["fc1.weight"], theta["fc1.weight"])


@pytest.mark.integration
def test_apfls_global_model_is_fedavgs_whatever_is_mixed() -> None:
    ours, fedavg = (small_run(method, rounds=2, trainer="torch", batch_size=30) for method in ("apfl", "fedavg"))
    assert ours.per_client["C"] == fedavg.per_client["C"]
    assert ours.per_client["L"] != fedavg.per_client["L"]


def test_a_step_of_the_own_part_and_of_its_share_is_the_papers() -> None:
    """v − ηα∇f(v̄), and α − η⟨∇f(v̄), v − w⟩, once in a training and for all that follow."""
    store = MemoryStore()
    with small_federation("apfl", store, **ONE_STEP, algorithm_options={"alpha": 0.3}) as (run, data):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        before, w = store.load(2, before=2), run.algorithm.model_for(2)
        assert before["mixture"]["alpha"] == 0.3  # v = w at first
        one_round(run, 2)
        after = store.load(2, before=3)
        v = before["part"]
        slope = gradient(run, data, 2, combined(0.3, v, 0.7, w))
        assert_close(after["part"], combined(1.0, v, -0.1 * 0.3, slope))
        apart = sum(float(np.vdot(slope[name], v[name] - w[name])) for name in v)
        alpha = float(after["mixture"]["alpha"])
        assert alpha == pytest.approx(0.3 - 0.1 * apart, abs=1e-6)
        assert alpha != 0.3
        sent = combined(1.0, w, -0.1, gradient(run, data, 2, w))
        assert_close(after["model"], combined(alpha, after["part"], 1 - alpha, sent))


@pytest.mark.integration
def test_the_mixture_is_what_a_client_exports_and_its_part_never_travels(tmp_path: Path) -> None:
    small_run("apfl", rounds=2, fraction=1.0, out=str(tmp_path / "run"))
    exported = load_exported(coterie.export(tmp_path / "run", client=1))[0].state_dict()
    store = MemoryStore()
    with small_federation("apfl", store, rounds=2, fraction=1.0) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        one_round(run, 2)
        state = store.load(1, before=3)
        sent = engine.replies[2, 1, "train"].answer(TrainReply).params
    assert_close(state["model"], {name: value.numpy() for name, value in exported.items()})
    assert not np.array_equal(sent["fc1.weight"], state["model"]["fc1.weight"])
    assert not np.array_equal(sent["fc1.weight"], state["part"]["fc1.weight"])


# pFedMe


@pytest.mark.integration
def test_pfedme_with_one_inner_step_is_sgd_at_the_product_of_the_rates() -> None:
    models = []
    for method, lr, options in (
        ("pfedme", 0.05, {"lam": 4.0, "inner_steps": 1, "inner_rate": 0.2}),
        ("fedavg", 0.05 * 4.0 * 0.2, {}),
    ):
        settings = {**EVERYONE, "momentum": 0.0, "weight_decay": 0.0, "lr": lr, "algorithm_options": options}
        with small_federation(method, **settings) as (run, _):
            run.algorithm.begin(run.fed)
            one_round(run, 1)
            one_round(run, 2)
            models.append(run.algorithm.model_for(0))
    assert_close(*models)


def test_a_client_keeps_what_its_inner_loop_found_and_sends_what_follows_it() -> None:
    store = MemoryStore()
    options = {"lam": 5.0, "inner_steps": 3, "inner_rate": 0.05}
    with small_federation("pfedme", store, **ONE_STEP, clients=1, dataset="digits", algorithm_options=options) as (
        run,
        data,
    ):
        run.algorithm.begin(run.fed)
        w = run.algorithm.model_for(0)
        theta = w
        for _ in range(3):
            slope = combined(1.0, gradient(run, data, 0, theta), 5.0, combined(1.0, theta, -1.0, w))
            theta = combined(1.0, theta, -0.05, slope)
        one_round(run, 1)
        assert_close(store.load(0, before=2)["model"], theta)
        assert_close(run.algorithm.model_for(0), combined(1 - 0.1 * 5.0, w, 0.1 * 5.0, theta))


def test_beta_is_how_far_the_server_goes() -> None:
    models = {}
    for beta in (1.0, 0.5, 2.0):
        with small_federation("pfedme", fraction=1.0, algorithm_options={"beta": beta}) as (run, _):
            run.algorithm.begin(run.fed)
            one_round(run, 1)
            models[beta], theta = run.algorithm.model_for(0), run.fed.initial()
    assert_close(models[0.5], combined(0.5, theta, 0.5, models[1.0]))
    assert_close(models[2.0], combined(-1.0, theta, 2.0, models[1.0]))


@pytest.mark.integration
@pytest.mark.parametrize("method", ["apfl", "pfedme"])
def test_networks_that_count_and_their_frozen_layers_are_taken(method: str) -> None:
    """BatchNorm counts each batch of an inner loop, which is no lie."""
    options = {"inner_steps": 6} if method == "pfedme" else {"alpha": 0.0, "adaptive": False}
    settings = {
        "model": "lenet5-bn",
        "model_options": {},
        "batch_size": 100,
        "rounds": 2,
        "fraction": 1.0,
        "clients": 3,
    }
    ours = small_run(method, **settings, algorithm_options=options)
    assert not ours.events
    if method == "apfl":
        assert ours.per_client == small_run("fedavg", **settings).per_client


def test_pytorch_trains_them_and_the_user_is_told() -> None:
    for method in ("apfl", "pfedme"):
        with small_federation(method, trainer="auto") as (run, _):
            assert "PyTorch" in run.algorithm.notes[0]

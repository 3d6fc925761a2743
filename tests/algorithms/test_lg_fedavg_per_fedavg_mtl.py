"""LG-FedAvg, Per-FedAvg and MTL against direct computations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coterie.algorithms.lg_fedavg import LGFedAvg
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.loop import rounds
from coterie.federation.served_model import SharedLayers
from coterie.messages import ModelSpec, Params
from coterie.models import build, initial
from coterie.run.building import Session, completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine, small_federation, small_run
from coterie.training import one_thread
from coterie.training.torch_trainer import TorchTrainer

BATCH = {"batch_size": 4096, "epochs": 1, "momentum": 0.0}
"""One step on all samples, so that a round is a formula."""


@contextmanager
def opened(method: str, **settings: Any) -> Iterator[tuple[Session, Any, MemoryStore]]:
    config = settings_to_config(None, {"algorithm": method, **SMALL, **settings})
    data = load_data(config)
    store = MemoryStore()
    with one_thread(), session(completed(config, data), data, store, TorchTrainer()) as run:
        yield run, data, store


def one_round(run: Session, t: int) -> None:
    run.fed.start_round(t)
    run.algorithm.round(run.fed, run.fed.cohort(t))


def gradient(run: Session, data: Any, client: int, params: Any) -> dict[str, np.ndarray]:
    """∇f on all training samples of a client, by autograd on a fresh network."""
    network = build(run.fed.spec)
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in params.items()})
    part = data.train_parts[client]
    x, y = torch.from_numpy(data.normalise(data.train.x[part])), torch.from_numpy(data.train.y[part])
    torch.nn.functional.cross_entropy(network(x), y).backward()
    return {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}


# LG-FedAvg


@pytest.mark.parametrize(
    ("name", "shape", "count", "first"),
    [
        ("lenet5", (3, 32, 32), None, "fc2.weight"),
        ("lenet5", (3, 32, 32), 1, "fc3.weight"),
        ("lenet5-bn", (3, 32, 32), 4, "conv2.weight"),
        ("resnet9", (3, 32, 32), None, "residual2.blocks.1.conv.weight"),
        ("mlp", (1, 8, 8), None, "fc2.weight"),
    ],
)
def test_layers_are_counted_by_modules_and_norms_belong_to_the_layer_before(
    name: str, shape: tuple[int, ...], count: int | None, first: str
) -> None:
    """The last two pairs of tensors of ResNet-9 are a norm and the classifier: a naive count takes these."""
    spec = ModelSpec(name, shape, 10)
    names = list(initial(spec, 0))
    assert LGFedAvg(shared=count).shared_names(spec) == names[names.index(first) :]


def test_sharing_all_layers_is_refused() -> None:
    with pytest.raises(CoterieError, match="shared = 2 leaves no local layer, as the network has 2"):
        small_run("lg-fedavg", algorithm_options={"shared": 2})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "mclr", "model_options": {}}, "this one has one: use fedavg"),
        ({"algorithm_options": {"shared": 9}}, "shared = 9 leaves no local layer"),
        (
            {"algorithm_options": {"broadcast_all": True}, "client_curriculum": "all_batches=true"},
            "leave out one of them",
        ),
    ],
)
def test_what_lg_fedavg_cannot_do_is_said_before_anything_is_written(
    settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(CoterieError, match=told):
        small_run("lg-fedavg", out=str(tmp_path / "run"), **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["solo", "mtl"])
def test_without_a_model_at_the_server_clients_have_no_order(method: str, tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="leave out client_curriculum="):
        small_run(method, out=str(tmp_path / "run"), client_curriculum="b=0.5")
    assert not (tmp_path / "run").exists()
    small_run(method, client_curriculum="b=0.5,order=random", rounds=1)


def test_who_did_not_answer_still_begins_with_fedavgs_model() -> None:
    with opened("lg-fedavg", algorithm_options={"pretrain": 1}, fraction=1.0, drop=0.5, seed=1) as (run, _, store):
        run.algorithm.begin(run.fed)
        for t in (1, 2):
            one_round(run, t)
        now, before = ({c: store.load(c, before=t).get("model") for c in run.fed.clients} for t in (3, 2))
        trained = {c for c in now if now[c] is not before[c]}
        assert 0 < len(trained) < len(run.fed.clients)
        assert run.algorithm.begun == trained
        for client in run.fed.clients:
            assert isinstance(run.algorithm.model_for(client), SharedLayers) == (client in trained)


def test_only_global_layers_travel_and_local_ones_stay() -> None:
    with opened("lg-fedavg", fraction=1.0) as (run, data, store):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        method, own = run.algorithm, {c: store.load(c, before=2)["model"] for c in run.fed.clients}
        sizes = [len(part) for part in data.train_parts]
        for name, value in method.layers.items():
            expected = np.average([own[c][name] for c in own], axis=0, weights=sizes)
            assert value == pytest.approx(expected, abs=1e-6)
        assert set(method.layers) == {"fc2.weight", "fc2.bias"}
        one_round(run, 2)
        assert all(not np.array_equal(own[0]["fc1.weight"], own[c]["fc1.weight"]) for c in (1, 2))
        up = run.fed.ledger.by_kind["train"]["up"]
        assert up < 2 * 6 * (4 * (16 * 10 + 10) + 1500)


def test_a_client_trains_its_own_layers_with_the_servers_on_top() -> None:
    with opened("lg-fedavg", fraction=1.0, lr=0.1, **BATCH) as (run, data, store):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        before = {**store.load(2, before=2)["model"], **run.algorithm.layers}
        one_round(run, 2)
        after = store.load(2, before=3)["model"]
        steps = gradient(run, data, 2, before)
        for name, value in after.items():
            assert value == pytest.approx(before[name] - 0.1 * steps[name], abs=1e-5)


def test_equal_weights() -> None:
    with opened("lg-fedavg", fraction=1.0, algorithm_options={"weights": "equal"}) as (run, _, store):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        models = [store.load(c, before=2)["model"]["fc2.bias"] for c in run.fed.clients]
        assert run.algorithm.layers["fc2.bias"] == pytest.approx(np.mean(models, axis=0), abs=1e-6)


def test_after_fedavg_everyone_begins_with_its_model() -> None:
    with opened("lg-fedavg", algorithm_options={"pretrain": 2}) as (run, _, _store):
        run.algorithm.begin(run.fed)
        for t in (1, 2):
            one_round(run, t)
        fedavg = run.algorithm.start
        assert all(np.array_equal(run.algorithm.model_for(c)["fc1.weight"], fedavg["fc1.weight"]) for c in range(6))
        one_round(run, 3)
        drawn = run.fed.cohort(3)
        assert all(isinstance(run.algorithm.model_for(c), SharedLayers) is (c in drawn) for c in range(6))


def test_two_rounds_of_fedavg_first_are_fedavgs() -> None:
    a = small_run("lg-fedavg", rounds=2, algorithm_options={"pretrain": 2}, eval_every=1)
    b = small_run("fedavg", rounds=2, eval_every=1)
    assert [row["loss"] for row in a.history] == [row["loss"] for row in b.history]
    assert a.per_client["L"] == b.per_client["L"]


def test_broadcasting_reaches_those_who_are_not_drawn() -> None:
    with opened("lg-fedavg", algorithm_options={"broadcast_all": True}) as (run, _, store):
        run.algorithm.begin(run.fed)
        for t in (1, 2, 3):
            one_round(run, t)
        absent = next(c for c in range(6) if c not in run.fed.cohort(3) and c not in run.fed.cohort(2))
        before = run.algorithm.layers
        one_round(run, 4)
        if absent not in run.fed.cohort(4):
            assert np.array_equal(store.load(absent, before=5)["model"]["fc2.bias"], before["fc2.bias"])
        assert run.fed.training.mean_loss is None or run.fed.training.mean_loss > 0.1


def test_papers_megabits_are_of_the_global_layers() -> None:
    share = (16 * 10 + 10) / (64 * 16 + 16 + 16 * 10 + 10)
    fedavg = small_run("fedavg").traffic["paper_megabits"]
    assert small_run("lg-fedavg").traffic["paper_megabits"] == pytest.approx(share * fedavg)


# Per-FedAvg


def test_a_meta_step_is_the_gradient_behind_an_inner_step() -> None:
    """One batch of all samples is used for both halves, where the authors' code does nothing."""
    settings = {**BATCH, "algorithm_options": {"alpha": 0.2, "beta": 0.3}, "fraction": 1.0, "clients": 1}
    with opened("per-fedavg", dataset="digits", **settings) as (run, data, _):
        run.algorithm.begin(run.fed)
        theta = run.algorithm.model
        one_round(run, 1)
        inner = gradient(run, data, 0, theta)
        there = {name: value - np.float32(0.2) * inner[name] for name, value in theta.items()}
        outer = gradient(run, data, 0, there)
        for name, value in run.algorithm.model.items():
            assert value == pytest.approx(theta[name] - 0.3 * outer[name], abs=1e-6)


def test_it_uses_plain_sgd_whatever_the_run_has() -> None:
    a, b = (small_run("per-fedavg", momentum=momentum) for momentum in (0.0, 0.9))
    assert [row["loss"] for row in a.history] == [row["loss"] for row in b.history]


def test_the_half_steps_may_share_one_momentum_as_in_the_authors_code() -> None:
    """v ← ρ v + g₁, w' ← w − α v; v ← ρ v + g₂, w ← w − β v: in a first step g₂ + ρ g₁ instead of g₂."""
    settings = {**BATCH, "algorithm_options": {"alpha": 0.2, "beta": 0.3, "momentum": 0.5}, "clients": 1}
    with opened("per-fedavg", dataset="digits", fraction=1.0, **settings) as (run, data, _):
        run.algorithm.begin(run.fed)
        theta = run.algorithm.model
        one_round(run, 1)
        inner = gradient(run, data, 0, theta)
        there = {name: value - np.float32(0.2) * inner[name] for name, value in theta.items()}
        outer = gradient(run, data, 0, there)
        for name, value in run.algorithm.model.items():
            assert value == pytest.approx(theta[name] - 0.3 * (outer[name] + 0.5 * inner[name]), abs=1e-6)


def test_the_outer_rate_is_that_of_the_run() -> None:
    by_run, by_option = small_run("per-fedavg", lr=0.1), small_run("per-fedavg", algorithm_options={"beta": 0.1})
    assert [row["loss"] for row in by_run.history] == [row["loss"] for row in by_option.history]


@pytest.mark.integration
def test_models_are_scored_after_a_step_on_training_samples() -> None:
    """L and C are of what a client uses; never adapted on test batches, as by a well-known code."""
    settings = {"fraction": 1.0, "rounds": 4, "epochs": 2, "algorithm_options": {"alpha": 0.5, "beta": 0.1}}
    result = small_run("per-fedavg", **settings)
    assert small_run("fedavg").unadapted is None
    with opened("per-fedavg", **settings) as (run, data, store):
        run.algorithm.begin(run.fed)
        for t in range(1, 5):
            one_round(run, t)

        def accuracy(client: int, model: Params, steps: int) -> float:
            for _ in range(steps):
                step = gradient(run, data, client, model)
                model = {name: value - np.float32(0.5) * step[name] for name, value in model.items()}
            part = data.test_parts[client]
            outputs = run.fed.logits([model], data.normalise(data.test.x[part]))[0]
            return float(np.mean(outputs.argmax(axis=1) == data.test.y[part]))

        received = [run.algorithm.model] * 6
        own = [store.load(client, before=5)["model"] for client in range(6)]
        for protocol, models in (("L", own), ("C", received)):
            for steps, measured in ((1, result.accuracy), (0, result.unadapted)):
                scores = [accuracy(client, model, steps) for client, model in enumerate(models)]
                assert measured[protocol] == pytest.approx(np.mean(scores), abs=0.02)
    assert result.accuracy["L"] != result.unadapted["L"]
    assert result.history[-1]["unadapted"] == result.unadapted


def test_newcomers_meta_train() -> None:
    late = {"newcomers": 0.4, "join_at": 2, "clients": 5, "algorithm_options": {"alpha": 0.5}}
    with small_federation("per-fedavg", **late) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        (plan,) = {v.plan for (_, _, kind), r in engine.requests.items() if kind == "newcomer" for v in r.verbs}
    assert plan == replace(run.algorithm.plan(run.fed), epochs=5)
    assert plan.meta_step is not None


# MTL


def test_the_penalty_is_of_norm_and_spread() -> None:
    """Autograd of λ(‖W‖² + tr(W Ω Wᵀ)), with one column free; Ω = (I − 11ᵀ/n)², not the authors' ones."""
    settings = {**BATCH, "fraction": 1.0, "clients": 3, "lr": 0.1, "algorithm_options": {"strength": 0.3}}
    with opened("mtl", **settings) as (run, data, store):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        W = [store.load(c, before=2)["model"] for c in range(3)]
        one_round(run, 2)
        after = store.load(1, before=3)["model"]
        loss = gradient(run, data, 1, W[1])
        flat = torch.stack([torch.cat([torch.from_numpy(v).double().ravel() for v in w.values()]) for w in W], dim=1)
        column = flat[:, 1].clone().requires_grad_()
        stacked = torch.stack([flat[:, 0], column, flat[:, 2]], dim=1)
        omega = (torch.eye(3) - torch.ones(3, 3) / 3).double()
        penalty = 0.3 * ((stacked**2).sum() + torch.trace(stacked @ omega @ omega @ stacked.T))
        (slope,) = torch.autograd.grad(penalty, column)
        at = 0
        for name, value in W[1].items():
            part = slope[at : at + value.size].reshape(value.shape).numpy()
            at += value.size
            assert after[name] == pytest.approx(value - 0.1 * (loss[name] + part), abs=1e-5)


def test_the_usual_strength_follows_the_size_of_the_model() -> None:
    """d = 62,006 gives e = 6."""
    with opened("mtl") as (run, _, _store):
        settings = replace(run.fed.settings, spec=ModelSpec("lenet5", (3, 32, 32), 10))
        assert run.algorithm.penalty(Federation(run.fed.engine, run.fed.trainer, settings)) == pytest.approx(1e-6)


def test_nothing_is_averaged_and_the_server_has_no_model() -> None:
    result = small_run("mtl")
    assert result.accuracy["C"] is None
    assert result.accuracy["L"] is not None
    alone = small_run("mtl", algorithm_options={"strength": 0.0}, clients=1, dataset="digits")
    solo = small_run("solo", clients=1, dataset="digits", algorithm_options={"epochs": 4})
    assert alone.per_client["L"] == solo.per_client["L"]


@pytest.mark.parametrize("method", ["lg-fedavg", "per-fedavg", "mtl"])
def test_drop_outs_in_every_round(method: str) -> None:
    result = small_run(method, drop=0.3, rounds=6)
    assert result.accuracy["L"] is not None
    assert result.accuracy["L"] > 0.1

"""FedProx, FedNova and SCAFFOLD: where they equal FedAvg, where not, and against small NumPy implementations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from softmax_regression import gradient

from coterie.algorithms.fednova import FedNova
from coterie.client import MemoryStore
from coterie.federation.aggregation import AggregationOptions, Aggregator
from coterie.federation.loop import rounds
from coterie.messages import Plan, Schedule, TrainReply, normaliser
from coterie.run.building import completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.streams import stream
from coterie.testing import SMALL, outcome, small_run
from coterie.training import steps
from coterie.training.torch_trainer import TorchTrainer

Weights = np.ndarray


@pytest.fixture
def equal_clients(tmp_path: Path) -> dict[str, Any]:
    """Six clients with 36 training samples each, so that all take the same number of steps."""
    rng = np.random.default_rng(0)
    y = np.arange(228) % 4
    x = (rng.normal(0, 1, (228, 12)) + np.eye(4, 12)[y] * 3).astype(np.float32)
    np.savez(tmp_path / "equal.npz", x_train=x, y_train=y, x_test=x[:40], y_test=y[:40])
    return {"dataset": str(tmp_path / "equal.npz"), "model": "mclr", "model_options": {}, "momentum": 0.5}


def accuracies_and_losses(method: str, **settings: Any) -> list[list[float]]:
    result = outcome(small_run(method, **settings))
    return [[row[key] for key in ("L", "C", "G", "loss", "discrepancy")] for row in result["history"]]


def test_fedprox_without_strength_is_fedavg() -> None:
    assert accuracies_and_losses("fedprox", algorithm_options={"mu": 0.0}) == accuracies_and_losses("fedavg")


@pytest.mark.integration
def test_fedprox_holds_clients_near_what_they_received() -> None:
    """The public codes anchor at the live parameters, so that their FedProx is FedAvg; ours is not."""
    drift = [
        small_run("fedprox", algorithm_options={"mu": mu}, epochs=5).history[-1]["discrepancy"]
        for mu in (0.0, 0.1, 1.0, 10.0)
    ]
    assert drift == sorted(drift, reverse=True)
    assert drift[-1] < 0.5 * drift[0]


def test_fednova_is_fedavg_where_all_clients_take_as_many_steps(equal_clients: dict[str, Any]) -> None:
    nova, avg = (np.array(accuracies_and_losses(m, **equal_clients)) for m in ("fednova", "fedavg"))
    assert np.allclose(nova, avg, rtol=1e-4)


def test_fednova_is_not_fedavg_where_they_do_not() -> None:
    unequal = {"dataset": "digits", "partition": "label-skew:rho=0.3", "batch_size": 3}
    nova, avg = (np.array(accuracies_and_losses(m, **unequal)) for m in ("fednova", "fedavg"))
    assert not np.allclose(nova[:, 3], avg[:, 3], rtol=1e-4)


@pytest.mark.parametrize("decay", [0.0, 0.05, 3.0])
@pytest.mark.parametrize(("count", "momentum"), [(1, 0.0), (7, 0.0), (1, 0.9), (13, 0.5), (40, 0.9)])
def test_the_normaliser_is_the_sum_of_the_weights_of_gradients(count: int, momentum: float, decay: float) -> None:
    """Run momentum SGD on a constant gradient of 1, its first rate 1: how far it gets is the sum of weights."""
    plan = Plan(Schedule(0.2, decay=decay), momentum=momentum)
    velocity = position = 0.0
    for step in range(count):
        velocity = momentum * velocity + 1.0
        position += velocity * plan.lr.at(step) / 0.2
    assert normaliser(count, plan) == pytest.approx(position)


@pytest.mark.parametrize("power", [0.75, 1.0])
def test_a_client_that_claims_a_billion_samples_does_not_hold_the_server_up(power: float) -> None:
    plan = Plan(Schedule(0.2, decay=1e-3, power=power), momentum=0.5)
    steps, s = 10**9, np.arange(3 * 10**6)
    tail = (1 + 1e-3 * 10**9) ** 0.25 / 0.25 if power < 1 else np.log(1 + 1e-3 * 10**9)
    start = (1 + 1e-3 * len(s)) ** 0.25 / 0.25 if power < 1 else np.log(1 + 1e-3 * len(s))
    expected = np.sum((1 + 1e-3 * s) ** -power) + (tail - start) / 1e-3
    assert plan.lr.path(steps) == pytest.approx(0.2 * expected, rel=1e-4)
    assert normaliser(steps, plan) == pytest.approx(2 * expected, rel=1e-4)


def test_fednova_averages_what_batchnorm_counts() -> None:
    """By its weights a client with few samples could count for less than nothing, and a variance become negative."""
    options = AggregationOptions()
    aggregator = Aggregator(options, dict, lambda client, kind, detail: None, lambda: 1)
    settings = SimpleNamespace(aggregation=options)
    fed = SimpleNamespace(plan=Plan(Schedule(0.1)), aggregator=aggregator, settings=settings)
    values = [(900, 90, 0.1), (50, 5, 2.0), (50, 5, 3.0)]
    replies = [
        TrainReply(n, steps, 0.0, {"w": np.float32([v]), "bn.running_var": np.float32([v])}) for n, steps, v in values
    ]
    method = FedNova()
    method.model = {"w": np.float32([1.0]), "bn.running_var": np.float32([1.0])}
    mean = method.aggregate(fed, dict(enumerate(replies)))  # type: ignore[arg-type]
    assert mean["bn.running_var"] == pytest.approx([0.9 * 0.1 + 0.05 * 2 + 0.05 * 3])
    p, a = np.array([0.9, 0.05, 0.05]), np.array([90, 5, 5])
    assert mean["w"] == pytest.approx([1 - (p @ a) * (p / a) @ (1 - np.array([0.1, 2.0, 3.0]))], rel=1e-5)


def test_the_first_round_of_scaffold_is_fedavg() -> None:
    options = {"rounds": 1, "eval_every": 1, "momentum": 0.0}
    assert accuracies_and_losses("scaffold", **options) == accuracies_and_losses("fedavg", **options)
    options["rounds"] = 3
    assert accuracies_and_losses("scaffold", **options)[-1] != accuracies_and_losses("fedavg", **options)[-1]


def test_scaffold_takes_the_runs_momentum_if_told_so() -> None:
    first = accuracies_and_losses("scaffold", momentum=0.9, algorithm_options={"momentum": None})
    assert first == accuracies_and_losses("scaffold", momentum=0.0, algorithm_options={"momentum": 0.9})
    assert first != accuracies_and_losses("scaffold", momentum=0.9)


# Independent implementations, on softmax regression with one matrix W of (features + 1, classes).


def local_sgd(
    w: Weights, x: np.ndarray, y: np.ndarray, batches: list, lr: float, rho: float, correction: Any
) -> Weights:
    v = np.zeros_like(w)
    for batch in batches:
        v = rho * v + gradient(w, x[batch], y[batch])
        w = w - lr * v - lr * correction
    return w


def play(settings: dict[str, Any], server: Callable) -> tuple[Weights, Weights]:
    """Run a method here and by `server`, on the same cohorts and batches; return both final models."""
    config = settings_to_config(None, {**SMALL, "model": "mclr", "model_options": {}, **settings})
    data = load_data(config)

    def matrix(params: Any) -> Weights:
        return np.vstack([params["fc.weight"].T, params["fc.bias"]]).astype(np.float64)

    with session(completed(config, data), data, MemoryStore(), TorchTrainer()) as run:
        fed = run.fed
        samples = []
        for part in data.train_parts:
            x = data.normalise(data.train.x[part]).reshape(len(part), -1).astype(np.float64)
            samples.append((np.hstack([x, np.ones((len(x), 1))]), data.train.y[part]))

        def batches(client: int, t: int) -> list:
            plan = run.algorithm.plan(fed)  # type: ignore[attr-defined]
            return [b for (b,) in steps(len(samples[client][1]), plan, stream(fed.seed, "train", client, t))]

        cohorts = [fed.cohort(t) for t in range(1, fed.settings.rounds + 1)]
        theirs = server(matrix(fed.initial()), samples, batches, cohorts)
        list(rounds(fed, run.algorithm, run.evaluator, every=0))
        return matrix(run.algorithm.model_for(0)), theirs


def test_fednova_against_numpy() -> None:
    lr, rho = 0.05, 0.7

    def server(w: Weights, samples: list, batches: Callable, cohorts: list) -> Weights:
        for t, cohort in enumerate(cohorts, start=1):
            n = np.array([len(samples[i][1]) for i in cohort])
            p, tau_eff, direction = n / n.sum(), 0.0, np.zeros_like(w)
            for i, share in zip(cohort, p, strict=True):
                mine = batches(i, t)
                a = sum((1 - rho ** (len(mine) - k)) / (1 - rho) for k in range(len(mine)))
                direction += share * (w - local_sgd(w, *samples[i], mine, lr, rho, 0.0)) / a
                tau_eff += share * a
            w = w - tau_eff * direction
        return w

    settings = {"algorithm": "fednova", "dataset": "digits", "partition": "label-skew:rho=0.4"}
    ours, theirs = play({**settings, "lr": lr, "momentum": rho, "batch_size": 7, "rounds": 5}, server)
    assert np.allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("divisor", ["all", "sampled"])
def test_scaffold_against_numpy(divisor: str) -> None:
    lr = 0.05

    def server(w: Weights, samples: list, batches: Callable, cohorts: list) -> Weights:
        c, own = np.zeros_like(w), [np.zeros_like(w) for _ in samples]
        for t, cohort in enumerate(cohorts, start=1):
            n = np.array([len(samples[i][1]) for i in cohort])
            models, change = [], np.zeros_like(w)
            for i in cohort:
                mine = batches(i, t)
                models.append(local_sgd(w, *samples[i], mine, lr, 0.0, c - own[i]))
                new = own[i] - c + (w - models[-1]) / (len(mine) * lr)
                change += new - own[i]
                own[i] = new
            w = sum(m * k for m, k in zip(models, n, strict=True)) / n.sum()
            c = c + change / (len(samples) if divisor == "all" else len(cohort))
        return w

    settings = {"algorithm": "scaffold", "algorithm_options": {"server_divisor": divisor}, "dataset": "digits"}
    ours, theirs = play({**settings, "lr": lr, "rounds": 6, "partition": "label-skew:rho=0.4"}, server)
    assert np.allclose(ours, theirs, atol=2e-5)

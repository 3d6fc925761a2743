"""Clients trained at once lead to what each would have led to alone."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from coterie.messages import Anchor, L1Penalty, MetaStep, ModelSpec, Params, Plan, Schedule
from coterie.models import initial
from coterie.native import available
from coterie.training import Diverged, Job, Outcome
from coterie.training import torch_together as together
from coterie.training.job import one_by_one
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

MLP = ModelSpec("mlp", (6,), 3)
LENET = ModelSpec("lenet5", (1, 28, 28), 3)
PLAN = Plan(Schedule(0.1, decay=0.01), epochs=2, batch_size=4, momentum=0.5, weight_decay=0.01)
SIZES = (9, 26, 4, 0, 13)


def jobs_of(spec: ModelSpec = MLP, plan: Plan = PLAN, sizes: tuple[int, ...] = SIZES, **arrays: Any) -> list[Job]:
    """Jobs of clients with different samples; `arrays` are functions of a client's number."""
    made = []
    for client, size in enumerate(sizes):
        rng = np.random.default_rng(client)
        x, y = rng.normal(size=(size, *spec.shape)).astype(np.float32), rng.integers(3, size=size)
        own = {name: value(client) for name, value in arrays.items()}
        made.append(Job(spec, plan, **{"start": initial(spec, 0), "x": x, "y": y, "rng": rng, **own}))
    return made


def similar(spec: ModelSpec, which: int, of: Callable[[np.ndarray], np.ndarray] = lambda a: a) -> Params:
    return {name: of(array) for name, array in initial(spec, 1, which).items()}


def assert_same(spec: ModelSpec = MLP, plan: Plan = PLAN, **arrays: Any) -> None:
    alone = one_by_one(TorchTrainer(), jobs_of(spec, plan, **arrays))
    at_once = TorchTrainer().train_together(jobs_of(spec, plan, **arrays))
    for one, other in zip(alone, at_once, strict=True):
        assert isinstance(one, Outcome)
        assert isinstance(other, Outcome)
        assert other.steps == one.steps
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.params.keys() == one.params.keys()
        for name, value in one.params.items():
            assert other.params[name].dtype == value.dtype
            np.testing.assert_allclose(other.params[name], value, atol=1e-5)


@pytest.fixture
def stacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many clients were trained at once, each time."""
    counts: list[int] = []
    train = together.StackedNetwork.train

    def noted(self: together.StackedNetwork, jobs: Any, place: Any) -> Any:
        counts.append(len(jobs))
        return train(self, jobs, place)

    monkeypatch.setattr(together.StackedNetwork, "train", noted)
    return counts


def test_clients_with_different_numbers_of_samples(stacked: list[int]) -> None:
    assert_same()
    assert stacked == [5]


@pytest.mark.integration
def test_a_network_with_convolutions(stacked: list[int]) -> None:
    assert_same(LENET, replace(PLAN, epochs=1), sizes=(5, 9))
    assert stacked == [2]


@pytest.mark.parametrize(
    ("plan", "arrays"),
    [
        (replace(PLAN, anchors=(Anchor("model", 0.3),)), {"anchors": lambda c: ((similar(MLP, c), 0.3),)}),
        (replace(PLAN, correction="c"), {"correction": lambda c: similar(MLP, c)}),
        (replace(PLAN, mask="own"), {"mask": lambda c: similar(MLP, c, lambda a: np.float32(a > 0))}),
        (replace(PLAN, label_offset="lacking"), {"label_offset": lambda c: np.float32([c, 0, -c])}),
        (replace(PLAN, train=("4",)), {"start": lambda c: similar(MLP, c)}),
        (replace(PLAN, steps=7), {"start": lambda c: similar(MLP, c)}),
    ],
    ids=["anchors", "correction", "mask", "offset", "frozen layers of their own", "steps"],
)
def test_what_each_client_has_for_itself(stacked: list[int], plan: Plan, arrays: dict[str, Any]) -> None:
    if plan.train is not None:
        plan = replace(plan, train=(list(initial(MLP, 0))[-1].rpartition(".")[0],))
    assert_same(plan=plan, **arrays)
    assert stacked == [5]


def test_who_diverges_says_at_which_step_and_the_others_go_on(stacked: list[int]) -> None:
    def poisoned() -> list[Job]:
        jobs = jobs_of()
        jobs[0].x[0], jobs[1].x[20] = np.nan, np.inf
        return jobs

    alone, at_once = one_by_one(TorchTrainer(), poisoned()), TorchTrainer().train_together(poisoned())
    assert [str(each) for each in at_once[:2]] == [str(each) for each in alone[:2]]
    assert all(isinstance(each, Diverged) for each in at_once[:2])
    for one, other in zip(alone[2:], at_once[2:], strict=True):
        assert isinstance(one, Outcome)
        assert isinstance(other, Outcome)
        assert all(np.allclose(other.params[name], value, atol=1e-5) for name, value in one.params.items())


def test_samples_that_are_no_numbers_say_nothing_about_the_network(stacked: list[int]) -> None:
    trainer, poisoned = TorchTrainer(), jobs_of()
    poisoned[1].x[:] = np.nan
    outcomes = trainer.train_together(poisoned)
    assert [isinstance(outcome, Diverged) for outcome in outcomes] == [False, True, False, False, False]
    assert stacked == []
    trainer.train_together(jobs_of())
    assert stacked == [5]


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, meta_step=MetaStep(0.1)),
        replace(PLAN, snapshots=(1,)),
        replace(PLAN, l1=L1Penalty(0.1, ("1.weight",))),
    ],
)
def test_plans_that_do_not_fit_are_executed_one_by_one(stacked: list[int], plan: Plan) -> None:
    plan = plan if plan.l1 is None else replace(plan, l1=L1Penalty(0.1, (next(iter(initial(MLP, 0))),)))
    assert_same(plan=plan)
    assert stacked == []


class Mixing(nn.Module):
    """Looks at other samples of the batch."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(x.flatten(1) - x.flatten(1).mean(dim=0))
        return out


class Tied(nn.Module):
    """Has a matrix twice, and a buffer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, classes)
        self.second.weight = self.first.weight
        self.register_buffer("scale", Tensor([2.0]))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.second(self.first(x * self.scale).tanh()).tanh())
        return out


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda f, c: nn.Sequential(nn.Linear(f, 4), nn.Dropout(0.5), nn.Linear(4, c)), "it draws at random"),
        (lambda f, c: nn.Sequential(nn.Linear(f, 4), nn.BatchNorm1d(4), nn.Linear(4, c)), "it changes its buffers"),
        (Mixing, "stacked, it has other gradients"),
    ],
    ids=["dropout", "batch-norm", "mixing"],
)
def test_networks_that_do_not_fit_train_one_by_one_and_the_log_says_why(
    network: Callable[..., ModelSpec], stacked: list[int], caplog: pytest.LogCaptureFixture, make: Any, reason: str
) -> None:
    spec = network(make, 6)
    with caplog.at_level(logging.WARNING, "coterie"):
        assert_same(spec, sizes=(8, 12, 6))
    assert stacked == []
    assert [reason in message for message in caplog.messages] == [True]


def test_layers_that_share_parameters(network: Callable[..., ModelSpec], stacked: list[int]) -> None:
    assert_same(network(Tied, 6))
    assert stacked == [5]


def test_only_equal_plans_are_executed_together(stacked: list[int]) -> None:
    jobs = [*jobs_of(), *jobs_of(plan=replace(PLAN, lr=Schedule(0.2)))]
    outcomes = TorchTrainer().train_together(jobs[::-1])
    assert sorted(stacked) == [5, 5]
    for job, outcome in zip(reversed(jobs_of()), outcomes[5:], strict=True):
        alone = TorchTrainer().train(job)
        assert isinstance(outcome, Outcome)
        assert outcome.loss == pytest.approx(alone.loss, rel=1e-5)


@pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")
def test_compiled_networks_train_one_by_one_to_the_last_bit(stacked: list[int]) -> None:
    trainer = NativeTrainer(TorchTrainer())
    for one, other in zip(one_by_one(trainer, jobs_of()), trainer.train_together(jobs_of()), strict=True):
        assert isinstance(one, Outcome)
        assert isinstance(other, Outcome)
        assert all(np.array_equal(other.params[name], value) for name, value in one.params.items())
    assert stacked == []

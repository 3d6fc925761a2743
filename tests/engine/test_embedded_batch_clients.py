"""Clients trained at once in the embedded engine: the run is that of clients one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.data import load
from coterie.engine import EmbeddedEngine, SimulatedFaults
from coterie.errors import CoterieError
from coterie.messages import (
    Evaluate,
    EvaluateReply,
    Failure,
    ModelSpec,
    Plan,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
)
from coterie.testing import SMALL, outcome, small_settings
from coterie.training import Diverged, Job, Outcome, Trainer
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mclr", (1, 8, 8), 10)
CLIENTS, PLAN = 7, Plan(Schedule(0.1))


class Counting(TorchTrainer):
    """Notes how many clients it is given at once, and how many samples each has."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[list[int]] = []

    def train_together(self, jobs: Any) -> list[Outcome | Diverged]:
        self.given += [[len(job.y) for job in jobs]] if jobs else []
        return super().train_together(jobs)

    def train(self, job: Job) -> Outcome:
        raise AssertionError("one by one")


def exchange(trainer: Trainer, batch_clients: int, plan: Plan = PLAN, **faults: float) -> dict[int, Reply | Failure]:
    data = load("digits", clients=CLIENTS, partition=("iid", {}))
    requests = {
        client: Request(1, 0, SPEC, (Train(plan, ("initial",)), Evaluate("trained")), kind="train")
        for client in range(CLIENTS)
    }
    played = SimulatedFaults(**faults)  # type: ignore[arg-type]
    with EmbeddedEngine(data, MemoryStore(), trainer, workers=2, faults=played, batch_clients=batch_clients) as engine:
        return {reply.client: reply for reply in engine.exchange(requests, None)}


def test_the_trainer_gets_as_many_clients_as_asked_those_with_most_samples_first() -> None:
    trainer = Counting()
    replies, alone = exchange(trainer, 4), exchange(TorchTrainer(), 1)
    trainer.given.sort(key=sum, reverse=True)
    assert [len(sizes) for sizes in trainer.given] == [4, 3]
    assert min(trainer.given[0]) >= max(trainer.given[1])
    for client in range(CLIENTS):
        one, at_once = alone[client], replies[client]
        assert isinstance(one, Reply)
        assert isinstance(at_once, Reply)
        found = at_once.answer(TrainReply).params
        assert all(np.allclose(found[name], value, atol=1e-5) for name, value in one.answer(TrainReply).params.items())
        assert at_once.answer(EvaluateReply).correct == one.answer(EvaluateReply).correct


@pytest.mark.parametrize("compiled", [False, True])
def test_what_can_not_be_stacked_is_a_task_for_each_client(compiled: bool) -> None:
    """Nothing is gained by one worker for all: smoothed labels train one by one, and so does all compiled code."""
    given: list[int] = []

    class Noting(NativeTrainer if compiled else TorchTrainer):  # type: ignore[misc]
        def train_together(self, jobs: Any) -> list[Outcome | Diverged]:
            given.append(len(jobs))
            return super().train_together(jobs)  # type: ignore[no-any-return]

    trainer = Noting(TorchTrainer()) if compiled else Noting()
    replies = exchange(trainer, 4, PLAN if compiled else replace(PLAN, smoothing=0.1))
    assert len(replies) == CLIENTS
    assert max(given, default=1) == 1


def test_who_is_dropped_is_the_same_and_does_not_train() -> None:
    trainer, faults = Counting(), {"drop": 0.3, "straggle": 0.3}
    at_once, alone = exchange(trainer, 4, **faults), exchange(TorchTrainer(), 1, **faults)
    missing = {client: reply for client, reply in alone.items() if isinstance(reply, Failure)}
    assert missing
    assert missing == {client: reply for client, reply in at_once.items() if isinstance(reply, Failure)}
    dropped = sum(reply.kind == "dropped" for reply in missing.values())
    assert sum(map(len, trainer.given)) == CLIENTS - dropped


def test_an_error_names_the_clients_that_were_trained() -> None:
    class Broken(TorchTrainer):
        def train_together(self, jobs: Any) -> list[Outcome | Diverged]:
            raise ValueError("no luck")

    with pytest.raises(RuntimeError, match=r"clients \d, \d, \d(, \d)?, round 1 \(train, evaluate\): no luck"):
        exchange(Broken(), 4)


@pytest.mark.integration
@pytest.mark.parametrize("method", ["scaffold", "pacfl", "per-fedavg"])
def test_a_run_comes_to_the_same_numbers_whatever_the_number(method: str) -> None:
    """Per-FedAvg's meta-steps are made one by one."""
    settings = {**small_settings(method), "trainer": "torch"}
    alone = coterie.run(algorithm=method, **settings)
    at_once = coterie.run(algorithm=method, **settings, batch_clients=2)
    assert at_once.accuracy == pytest.approx(alone.accuracy, abs=1e-5)
    a, b = outcome(alone), outcome(at_once)
    assert a["traffic"] == b["traffic"]
    assert a["groups"] == b["groups"]
    losses = [[row["loss"] for row in each["history"]] for each in (a, b)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_settings_that_do_not_go_together() -> None:
    for settings, said in [
        ({"engine": "flower", "batch_clients": 2}, "batch_clients is for the engine 'embedded'"),
        ({"gpu_share": 0.5}, "gpu_share is what Ray's processes ask for: set name = 'flower'"),
        ({"engine": "flower", "device": "cuda:1"}, "write device = 'cuda', without a number"),
        ({"engine": "flower", "device": "cuda", "gpu_share": 0.0}, "gpu_share = 0 gives no process a GPU"),
        ({"device": "gpu"}, r"engine.device = 'gpu' is not valid: should be auto, cpu, cuda, mps, or .* like cuda:1"),
        ({"device": "mps:1"}, "should be auto, cpu, cuda, mps"),
        ({"batch_clients": 0}, "engine.batch_clients = 0 is not valid"),
    ]:
        with pytest.raises(CoterieError, match=said):
            coterie.run(**SMALL, **settings)

"""The embedded engine: faults as configured, errors that say where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.client import client as answering
from coterie.data import load
from coterie.engine import EmbeddedEngine, SimulatedFaults, embedded
from coterie.engine.embedded import Attendance, SimulatedClients
from coterie.messages import (
    Evaluate,
    Failure,
    ModelSpec,
    Plan,
    Reply,
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
)
from coterie.models import MODELS, model
from coterie.testing import SMALL
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mclr", (1, 8, 8), 10)
CLIENTS = 40


def exchange(faults: SimulatedFaults, round: int = 1, store: MemoryStore | None = None, kind: str = "train") -> dict:
    data = load("digits", clients=CLIENTS)
    verb = Train(Plan(Schedule(0.1)), start=("initial",)) if kind == "train" else Evaluate("initial")
    request = Request(round, 0, SPEC, (verb,), kind=kind)
    with EmbeddedEngine(data, store or MemoryStore(), TorchTrainer(), workers=2, faults=faults) as engine:
        answers = list(engine.exchange(dict.fromkeys(range(CLIENTS), request), None))
    assert sorted(answer.client for answer in answers) == list(range(CLIENTS))
    return {answer.client: answer for answer in answers}


def test_without_faults_everyone_answers() -> None:
    assert all(isinstance(answer, Reply) for answer in exchange(SimulatedFaults()).values())


@pytest.mark.integration
def test_drop_and_straggle_are_seeded_and_of_about_the_wanted_share() -> None:
    kinds = []
    for round in range(6):
        answers = exchange(SimulatedFaults(drop=0.3, straggle=0.2), round)
        again = exchange(SimulatedFaults(drop=0.3, straggle=0.2), round)
        missing = {c: a.kind for c, a in answers.items() if isinstance(a, Failure)}
        assert missing == {c: a.kind for c, a in again.items() if isinstance(a, Failure)}
        kinds += list(missing.values())
    total = 6 * CLIENTS
    assert 0.2 < kinds.count("dropped") / total < 0.4
    assert 0.08 < kinds.count("late") / total < 0.22  # 0.7 · 0.2 of all


def test_a_late_client_has_trained_a_dropped_one_has_not() -> None:
    store = MemoryStore()
    answers = exchange(SimulatedFaults(drop=0.4, straggle=0.4), store=store)
    for client, answer in answers.items():
        kind = answer.kind if isinstance(answer, Failure) else "answered"
        assert bool(store.load(client, before=2)) == (kind in ("late", "answered"))


def test_clients_do_not_work_far_ahead_of_the_server() -> None:
    """Else their answers would pile up in memory before it has added them up."""
    store, data = MemoryStore(), load("digits", clients=CLIENTS)
    request = Request(1, 0, SPEC, (Train(Plan(Schedule(0.1)), start=("initial",)),))
    with EmbeddedEngine(data, store, TorchTrainer(), workers=1) as engine:
        coming = engine.exchange(dict.fromkeys(range(CLIENTS), request), None)
        assert next(coming).client == 0
        engine._workers.submit(int).result()  # when all that was handed out is done
        assert sum(bool(store.load(client, before=2)) for client in range(CLIENTS)) == 2
        assert [answer.client for answer in coming] == [*range(1, CLIENTS)]


def test_requests_that_measure_are_spared() -> None:
    answers = exchange(SimulatedFaults(drop=1.0, hostile=1.0), kind="evaluate")
    assert all(isinstance(answer, Reply) for answer in answers.values())


def test_hostile_replies_are_wrong_in_several_ways() -> None:
    replies = [a for a in exchange(SimulatedFaults(hostile=1.0)).values() if isinstance(a, Reply)]
    spoilt = [reply.answer(TrainReply) for reply in replies if isinstance(reply.answers[0], TrainReply)]
    shapes = {next(iter(t.params.values())).shape for t in spoilt}
    assert len(replies) == CLIENTS
    assert len(shapes) == 2
    assert any(np.isnan(next(iter(t.params.values()))).all() for t in spoilt)
    assert any(not isinstance(reply.answers[0], TrainReply) for reply in replies)


def test_an_error_in_a_client_names_client_round_and_verb() -> None:
    @model("breaks")
    def breaks(shape: tuple[int, ...], classes: int):  # type: ignore[no-untyped-def]
        """Fail in the forward pass."""
        import torch
        from torch import nn

        class Breaks(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))

            def forward(self, x):  # type: ignore[no-untyped-def]
                raise IndexError("no such thing")

        return Breaks()

    try:
        with pytest.raises(RuntimeError, match=r"client \d, round 1 \(train\): no such thing"):
            coterie.run(**SMALL | {"model": "breaks", "model_options": {}})
    finally:
        del MODELS._items["breaks"]


def described(values: np.ndarray | None = None) -> dict[int, SignatureReply]:
    """Ask 40 clients, of whom some train on 24 samples and others on 25, for sketches."""
    data = load("digits", clients=CLIENTS)
    if values is not None:
        data = replace(data, train=replace(data.train, x=values))
    request = Request(0, 5, SPEC, (Signature(3, halves=6, sketch=16),))
    with EmbeddedEngine(data, MemoryStore(), TorchTrainer(), workers=2) as engine:
        answers = list(engine.exchange(dict.fromkeys(range(CLIENTS), request), None))
    return {answer.client: answer.answer(SignatureReply) for answer in answers}


def test_clients_describe_themselves_together_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    together = answering.sketch_together
    monkeypatch.setattr(answering, "sketch_together", lambda asked: sizes.append(len(asked)) or together(asked))
    found = described()
    assert max(sizes) == CLIENTS
    monkeypatch.setattr(embedded, "AT_ONCE", 1)
    sizes.clear()
    alone = described()
    assert max(sizes) == 1
    assert found.keys() == alone.keys() == set(range(CLIENTS))
    for who, told in found.items():
        assert np.array_equal(told.vectors, alone[who].vectors)
        assert told.halves == alone[who].halves > 0


def test_who_cannot_be_described_is_named() -> None:
    data = load("digits", clients=CLIENTS)
    x = data.train.x.astype(np.float32)
    x[data.train_parts[17][0]] = np.nan
    with pytest.raises(RuntimeError, match=r"^client 17, round 0 \(signature\): the samples hold NaN or infinity"):
        described(x)


def test_a_diverging_client_is_counted_and_the_run_goes_on() -> None:
    result = coterie.run(**SMALL | {"lr": 1e6, "momentum": 0.9})
    diverged = next(event for event in result.events if event["kind"] == "diverged")
    assert diverged["count"] > 0
    assert "at step" in diverged["example"]
    assert result.accuracy["C"] is not None


def test_clients_with_nothing_to_train_on_are_reported(tmp_path: Path) -> None:
    from coterie.data import PARTITIONS, Partition, partition

    @partition("one-goes-empty")
    def one_goes_empty(data, clients, rng):  # type: ignore[no-untyped-def]
        """Give everything to all but the last client."""
        parts = np.array_split(rng.permutation(len(data.train)), clients - 1)
        return Partition([*parts, np.zeros(0, np.int64)])

    try:
        result = coterie.run(dataset="digits", partition="one-goes-empty", clients=4, rounds=3, epochs=1, fraction=1.0)
    finally:
        del PARTITIONS._items["one-goes-empty"]
    assert {event["kind"]: event["count"] for event in result.events} == {"empty": 1, "untested": 1}
    assert result.per_client["L"][3] is None


def test_clients_are_made_when_they_are_asked_and_those_who_come_later_follow() -> None:
    data, more = load("digits", clients=4), load("digits", clients=3, seed=1)
    clients = SimulatedClients(replace(data, later=[more]), MemoryStore(), TorchTrainer())
    assert len(clients) == 7
    assert [client.id for client in clients] == list(range(7))
    for id, part in enumerate([*data.train_parts, *more.train_parts]):
        np.testing.assert_array_equal(clients[id].data_at(0).train, part)
    with pytest.raises(IndexError):
        clients[7]


def test_the_same_mapping_says_that_nobody_came() -> None:
    attendance = Attendance({0: 5, 1: 6, 2: 7}, {1: 3, 2: 8})
    first = attendance.present(0)
    assert attendance.present(2) is first == {0: 5}
    assert attendance.present(3) is attendance.present(7) == {0: 5, 1: 6}
    assert attendance.present(9) == {0: 5, 1: 6, 2: 7}

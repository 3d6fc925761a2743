"""Clients that lie in well-formed replies: how, who, and that both simulations play them alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.data import load
from coterie.engine import EmbeddedEngine, SimulatedFaults
from coterie.engine.faults import CLAIMED, HUGE, lied
from coterie.federation.exchange import error_in_reply
from coterie.messages import (
    Limits,
    Losses,
    LossesReply,
    ModelSpec,
    Plan,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
)
from coterie.models import initial
from coterie.testing import SMALL, outcome
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mclr", (1, 8, 8), 10)
START = initial(SPEC, 0)
TRAINED = {name: value + np.float32(0.25) for name, value in START.items()}
PLAN = Plan(Schedule(0.1))


def lie(kind: str, verb: Train, answer: TrainReply, **models: dict[str, np.ndarray]) -> TrainReply:
    request = Request(1, 0, SPEC, (verb,), {"model": START, **models})
    faults = SimulatedFaults(kind=kind, liars=1, clients=20)  # type: ignore[arg-type]
    reply = lied(Reply(3, 1, (answer,)), request, faults, np.random.default_rng(0))
    assert error_in_reply(request, reply, Limits(START, CLAIMED)) is None  # no check finds it
    return reply.answer(TrainReply)


def test_what_each_kind_of_lie_says() -> None:
    honest, verb = TrainReply(50, 5, 0.5, TRAINED), Train(PLAN)
    for kind, away in (("flip", -0.25), ("flip10", -2.5), ("samples", -0.25)):
        for name, value in lie(kind, verb, honest).params.items():
            assert np.allclose(value - START[name], away, atol=1e-5)
    assert all((value == np.float32(HUGE)).all() for value in lie("huge", verb, honest).params.values())
    far = lie("replace", verb, honest).params
    assert np.linalg.norm(far["fc.weight"] - START["fc.weight"]) > 20 * np.linalg.norm(START["fc.weight"])
    claimed = lie("samples", verb, honest)
    assert (claimed.samples, claimed.steps) == (CLAIMED, CLAIMED // 10)


@pytest.mark.parametrize("kind", ["flip", "flip10", "replace", "huge", "samples"])
def test_the_control_of_a_lie_follows_from_it(kind: str) -> None:
    server = {name: np.zeros_like(value) for name, value in START.items()}
    control = {name: (START[name] - TRAINED[name]) / np.float32(0.5) for name in START}
    false = lie(kind, Train(replace(PLAN, correction="c")), TrainReply(50, 5, 0.5, TRAINED, control), c=server)
    assert not np.allclose(false.control["fc.bias"], control["fc.bias"])


def test_the_start_is_the_model_that_the_client_chose_and_pruned_models_keep_their_holes() -> None:
    other = {name: value + np.float32(1) for name, value in START.items()}
    request = Request(1, 0, SPEC, (Losses(("a", "b")), Train(PLAN, start=("best",))), {"a": START, "b": other})
    reply = Reply(3, 1, (LossesReply(50, (2.0, 1.0), (0, 50), (5, 9)), TrainReply(50, 5, 0.5, TRAINED)))
    faults = SimulatedFaults(kind="flip", liars=1, clients=20)
    false = lied(reply, request, faults, np.random.default_rng(0)).answer(TrainReply)
    assert np.allclose(false.params["fc.bias"], 2 * other["fc.bias"] - TRAINED["fc.bias"], atol=1e-5)
    mask = {"fc.weight": np.arange(640).reshape(10, 64) % 2 > 0}
    asked = Train(PLAN, send=False), Prune(("fc.weight",))
    answers = TrainReply(50, 5, 0.5), PruneReply.of(TRAINED, mask, TRAINED, "pruned", None)
    request = Request(1, 0, SPEC, asked, {"model": START})
    reply = lied(Reply(3, 1, answers), request, faults, np.random.default_rng(0))
    assert error_in_reply(request, reply, Limits(START, 50)) is None
    left = START["fc.weight"][mask["fc.weight"]]
    assert np.allclose(reply.answer(PruneReply).params["fc.weight"], left - 0.25, atol=1e-5)


def test_liars_are_always_the_same_and_declare_what_they_claim() -> None:
    faults = SimulatedFaults(kind="samples", liars=3, clients=10, seed=7)
    assert len(faults.always) == 3
    assert faults.always == SimulatedFaults(liars=3, clients=10, seed=7).always
    assert faults.always != SimulatedFaults(liars=3, clients=10, seed=8).always
    with EmbeddedEngine(load("digits", clients=10), MemoryStore(), TorchTrainer(), faults=faults, seed=7) as engine:
        boasted = {client for client, samples in engine.present(1).items() if samples == CLAIMED}
    assert boasted == faults.always


def test_a_probability_and_a_kind() -> None:
    result = coterie.run(**SMALL, hostile=0.5, hostile_kind="huge", aggregation="clipped", algorithm="fedavg")
    cut = next(event for event in result.events if event["kind"] == "clipped")
    assert 0 < cut["count"] < 12
    assert {event["kind"] for event in result.events} == {"clipped", "diverged"}  # half of them lie: nothing is learnt


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"hostile": 0.1, "liars": 2}, "set one"),
        ({"hostile": 0.1, "hostile_kind": "samples"}, "set liars"),
        ({"liars": 7}, "there are 6 clients"),
        ({"liars": 1, "hostile_kind": "flop"}, "'flip'"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(coterie.CoterieError, match=told):
        coterie.run(**SMALL, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flip10", "samples"])
def test_ray_plays_the_same_lies(kind: str) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")
    pytest.importorskip("ray")
    settings = {**SMALL, "algorithm": "scaffold", "liars": 2, "hostile_kind": kind, "aggregation": "clipped"}
    here, there = (coterie.run(**settings, engine=engine) for engine in ("embedded", "flower"))
    assert outcome(here)["per_client"] == outcome(there)["per_client"]
    assert outcome(here)["events"] == outcome(there)["events"]

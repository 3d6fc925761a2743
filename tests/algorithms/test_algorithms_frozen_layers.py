"""What a network freezes is the same in every message of every method, to the last bit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from coterie.algorithms import ALGORITHMS
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.messages import Params, Train, TrainReply, wire
from coterie.models import MODELS, initial, model
from coterie.models.learning import learning, with_frozen, without_frozen
from coterie.run.values import parse_choice
from coterie.testing import RecordingEngine, small_federation

NAME = "half-frozen"
CHANNELS = 4
SETTINGS: dict[str, Any] = {
    "model": NAME, "model_options": {}, "clients": 4, "fraction": 1.0, "rounds": 1, "eval_every": 1, "batch_size": 100,
}  # fmt: skip


def half_frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Convolutions with BatchNorm, which all methods take; three layers are frozen as they happen to start."""
    network = nn.Sequential(
        nn.Conv2d(shape[0], CHANNELS, 3), nn.BatchNorm2d(CHANNELS), nn.MaxPool2d(2),
        nn.Conv2d(CHANNELS, CHANNELS, 1), nn.BatchNorm2d(CHANNELS), nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 1), nn.BatchNorm2d(CHANNELS), nn.Flatten(),
        nn.Linear(CHANNELS * 9, 16), nn.ReLU(), nn.Linear(16, classes),
    )  # fmt: skip
    for layer in (network[3], network[4], network[11]):
        layer.requires_grad_(False)  # by the seed, of which methods that start several models have several
    return network


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    model(NAME)(half_frozen)
    yield
    del MODELS._items[NAME]


def in_messages(engine: RecordingEngine) -> Iterator[Mapping[str, Any]]:
    """Yield all models, and parts of them, that travelled."""
    for request in engine.requests.values():
        yield from (params for name, params in request.models.items() if name != "control")
    for reply in engine.replies.values():
        yield from (answer.params for answer in reply.answers if isinstance(answer, TrainReply))


@pytest.mark.integration
@pytest.mark.parametrize("method", [*sorted(ALGORITHMS), "fesem:init=random", "fedgroup:eta_g=0.5,normalise=false"])
def test_frozen_layers_stay_as_they_are(method: str) -> None:
    chosen = parse_choice(method)
    method, store = chosen.pop("name"), MemoryStore()
    options = {"algorithm_options": chosen} if chosen else {}
    with small_federation(method, store, **SETTINGS, **options, momentum=0.5, weight_decay=0.1) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, 1):
            pass
        start = initial(run.fed.spec, run.fed.seed)
        frozen = start.keys() - learning(run.fed.spec)
        assert {name.partition(".")[0] for name in frozen} == {"3", "4", "11"}
        states = [store.load(client, before=2) for client in run.fed.clients]
        kept = [state["model"] for state in states if "model" in state]  # FedSoft does not ask all
        assert kept
        for params in [*kept, *in_messages(engine), *served(run)]:
            for name in frozen & params.keys():
                np.testing.assert_array_equal(params[name], start[name], err_msg=name)
        assert all(
            frozen <= params.keys() and not np.array_equal(params["0.weight"], start["0.weight"]) for params in kept
        )


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "lg-fedavg", "pacfl"])
def test_what_a_network_freezes_does_not_travel(method: str) -> None:
    with small_federation(method, **SETTINGS) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, 1):
            pass
        start, learns = initial(run.fed.spec, run.fed.seed), learning(run.fed.spec)
        models = [*(m for r in engine.requests.values() for m in r.models.values()), *in_messages(engine)]
        assert models
        for params in models:
            assert params.keys() <= learns
        for model in served(run):
            assert model.keys() == start.keys()  # the server has whole models all the same
        trained = {c: r for c, r in engine.replies.items() if any(isinstance(a, TrainReply) for a in r.answers)}
        shared = sum(value.nbytes for name, value in start.items() if name in learns)
        controls = 2 if method == "scaffold" else 1
        for reply in trained.values():
            assert wire.size(reply) < controls * (shared + 3000)


def test_what_the_server_has_changed_all_the_same_is_sent() -> None:
    model, frozen = {"a": np.ones(2), "b": np.zeros(2), "c": np.zeros(2)}, {"b": np.zeros(2), "c": np.ones(2)}
    assert without_frozen(model, frozen).keys() == {"a", "c"}
    assert without_frozen(model, {}) is model
    sent = without_frozen(model, frozen)
    whole = with_frozen(sent, frozen)
    assert all(np.array_equal(whole[name], value) for name, value in model.items())
    assert with_frozen(sent, frozen) is whole  # as for all clients that received it
    assert with_frozen(dict(sent), frozen) is not whole


def served(run: Any) -> Iterator[Params]:
    """Yield what clients would receive at the end, where that is one model."""
    for client in run.fed.clients:
        if isinstance(params := run.algorithm.model_for(client), Mapping):
            yield params


@pytest.mark.integration
def test_what_the_server_has_changed_is_part_of_what_comes_back() -> None:
    """As FedGroup does, which scales models (eta_g, normalise=false)."""
    with small_federation("fedavg", model=NAME, model_options={}) as (run, _):
        fed, start = run.fed, run.fed.initial()
        client, scaled = fed.trainable[0], {**start, "3.weight": 2 * start["3.weight"]}
        fed.start_round(1)
        params = fed.ask({client: fed.request(Train(fed.plan), model=scaled)})[client].answer(TrainReply).params
        np.testing.assert_array_equal(params["3.weight"], scaled["3.weight"])
        np.testing.assert_array_equal(params["11.weight"], start["11.weight"])


@pytest.mark.integration
def test_a_method_that_names_what_a_network_does_not_have_is_told_the_names() -> None:
    with small_federation("fedavg") as (run, _):
        plan = replace(run.fed.plan, train=("fc9",))
        with pytest.raises(CoterieError, match=r"begins with 'fc9': there are fc1\.weight, fc1\.bias, fc2\.weight"):
            run.fed.request(Train(plan), model=run.fed.initial())


@pytest.mark.integration
def test_a_method_may_train_a_part_in_turn() -> None:
    """As FedRep does: the head, then the body."""
    with small_federation("fedavg") as (run, _):
        fed, start = run.fed, run.fed.initial()
        client = fed.trainable[0]
        for round, part in enumerate(("fc2", "fc1"), start=1):
            fed.start_round(round)
            request = fed.request(Train(replace(fed.plan, train=(part,))), model=start)
            params = fed.ask({client: request})[client].answer(TrainReply).params
            changed = {name for name in start if not np.array_equal(params[name], start[name])}
            assert changed == {f"{part}.weight", f"{part}.bias"}

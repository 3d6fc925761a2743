"""What someone who writes a method is told of a wrong request, a wrong model to serve or a wrong state to save."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.algorithms.fedavg import FedAvg
from coterie.errors import CoterieError
from coterie.federation import CandidateModels, Federation, SharedLayers, saved
from coterie.federation.checkpoint import WriteOnce, check_state, load_checkpoint, save_checkpoint
from coterie.federation.served_model import error_in_served_model
from coterie.messages import Anchor, ClassCounts, ClassCountsReply, Evaluate, Losses, Prune, Reply, Train, TrainReply
from coterie.run.building import Session
from coterie.testing import small_federation


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with small_federation("fedavg") as (run, _):
        yield run


@pytest.fixture
def fed(session: Session) -> Federation:
    return session.fed


# --- requests and replies


MISTAKES: dict[str, tuple[Callable[[Federation], Any], str]] = {
    "no model": (lambda fed: fed.request(Train(fed.plan)), "Train needs the model 'model'.*own, initial.*model=..."),
    "another name": (
        lambda fed: fed.request(Train(fed.plan, start=("mine",)), model=fed.initial()),
        "Train needs the model 'mine', which is not among own, initial, model: send it with models={'mine'",
    ),
    "an anchor": (
        lambda fed: fed.request(Train(replace(fed.plan, anchors=(Anchor("far", 0.1),)), start=("own",))),
        "Train needs the model 'far'",
    ),
    "a control": (
        lambda fed: fed.request(Train(replace(fed.plan, correction="control"), start=("own",))),
        "Train needs the model 'control'",
    ),
    "a mask": (
        lambda fed: fed.request(Train(replace(fed.plan, mask="holes"), start=("own",))),
        "Train needs the model 'holes'",
    ),
    "trained before": (lambda fed: fed.request(Evaluate("trained")), "put a Train before it"),
    "best before": (lambda fed: fed.request(Evaluate("best"), Losses(("own",))), "put a Losses before it"),
    "pruned before": (lambda fed: fed.request(Prune(())), "Prune needs the model 'trained'"),
    "a snapshot": (
        lambda fed: fed.request(Train(fed.plan, start=("own",)), Evaluate("epoch 2")),
        r"snapshots=\(2,\)",
    ),
    "a text for a tuple": (
        lambda fed: fed.request(Train(fed.plan, start="own")),  # type: ignore[arg-type]
        r"Train.start is a tuple of names: write \('own',\)",
    ),
    "a class for a verb": (
        lambda fed: fed.request(ClassCounts),  # type: ignore[arg-type]
        r"the class ClassCounts \(without brackets\), which is not a verb",
    ),
    "an answer for a model": (
        lambda fed: fed.request(Train(fed.plan), model=TrainReply(1, 1, 0.0)),  # type: ignore[arg-type]
        "the model 'model' of a request is a TrainReply, not arrays by name",
    ),
    "models by group": (
        lambda fed: fed.request(Train(fed.plan), model={0: fed.initial()}),  # type: ignore[dict-item]
        "is a dict with the keys 0 and values of type dict",
    ),
    "a verb for a request": (
        lambda fed: fed.ask({3: Train(fed.plan)}),  # type: ignore[dict-item]
        r"ask was given the verb Train for client 3: turn it into a request, fed.request\(Train\(...\)\)",
    ),
    "a number for a request": (lambda fed: fed.ask({3: 4}), "an int for client 3"),  # type: ignore[dict-item]
    "no clients": (lambda fed: fed.ask(fed.request(ClassCounts())), "give it {client: request}"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_asking_is_told_where_it_is_made(mistake: str, fed: Federation) -> None:
    ask, told = MISTAKES[mistake]
    before = fed.ledger.save()
    with pytest.raises((TypeError, ValueError), match=told):
        ask(fed)
    assert fed.ledger.save() == before


def test_what_can_be_asked_is_not_refused(fed: Federation) -> None:
    plan, model = replace(fed.plan, snapshots=(1,)), fed.initial()
    fed.request(Losses(("a", "own")), Train(plan, start=("best",)), Evaluate("epoch 1"), models={"a": model})
    fed.request(Losses(("initial",)), Train(plan, start=("own",)), Evaluate("best"), Evaluate(("own", "trained")))
    fed.request(Train(plan, start=("own",)), Train(plan, start=("trained",)), Prune(("fc.weight",)))
    fed.request(Train(replace(plan, mask="own", correction="c"), start=("own",)), models={"c": model})


def test_an_answer_that_is_not_there() -> None:
    reply = Reply(0, 1, (ClassCountsReply(np.zeros(3)), TrainReply(1, 1, 0.5)))
    assert reply.answer(TrainReply) is reply.answers[1]
    assert reply.answer(TrainReply, -1) is reply.answers[1]
    with pytest.raises(IndexError, match="this reply has no LossesReply; it has ClassCountsReply, TrainReply"):
        reply.answer(Losses.answer_type)
    with pytest.raises(IndexError, match=r"has 1 of TrainReply, so there is no \[1\]"):
        reply.answer(TrainReply, 1)
    with pytest.raises(IndexError, match="Train is what is asked; its answer is TrainReply"):
        reply.answer(Train)


# --- what model_for returns


def test_served_models_that_are_models(fed: Federation) -> None:
    model = fed.initial()
    name = next(iter(model))
    for served in (model, CandidateModels((model, fed.initial(1))), SharedLayers({name: model[name]})):
        assert error_in_served_model(served, model) is None


def test_served_models_that_are_none(fed: Federation) -> None:
    model = fed.initial()
    name = next(iter(model))
    rest = {key: value for key, value in model.items() if key != name}
    wrong: dict[str, Any] = {
        "a dict with the keys 0, 1 and values of type dict": {0: model, 1: model},
        "a list: where a client takes the best": [model],
        "a TrainReply: it should be a model": TrainReply(1, 1, 0.0),
        f"lacks '{name}'": rest,
        "has 'extra'": {**model, "extra": model[name]},
        "of shape (1,)": {**model, name: np.zeros(1)},
        "a dict with the keys 'a'": CandidateModels(({"a": model},)),  # type: ignore[dict-item]
        "has 'b'": SharedLayers({"b": model[name]}),
    }
    for told, served in wrong.items():
        found = error_in_served_model(served, model)
        assert found is not None
        assert told in found


# --- save


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"group": {3: 1, "3": 1}}, r"at \['group'\], keys that mix strings and numbers"),
        ({True: 1}, "at the top level, the key True, a bool"),
        ({"$ints": 1}, r"the key '\$ints': keys must not begin"),
        ({"a": [{"b": {None: 1}}]}, r"at \['a'\]\[0\]\['b'\], the key None"),
        ({"a": {(1, 2): 3}}, "the key \\(1, 2\\), a tuple"),
        ({"a": np.array([None])}, "an array of object"),
        ({"a": np.array(["text"])}, "an array of <U4"),
        ({"a": WriteOnce({"b": {None: 1}})}, r"at \['a'\]\['b'\], the key None"),
        ({"a": FedAvg()}, "a FedAvg"),
        ({"a": 1j}, "a complex"),
        ([1], "returned a list: it should return a dictionary"),
        (None, "returned a NoneType"),
    ],
)
def test_a_state_that_would_not_come_back_is_refused(state: Any, told: str) -> None:
    with pytest.raises(CoterieError, match=f"save.*{told}"):
        check_state(state, "save() of method 'mine'")


def test_a_state_that_is_accepted_comes_back(tmp_path: Path) -> None:
    state: Mapping[str, Any] = {
        "numbers": (1, 2.5, True, None, "text"),
        "arrays": {"a": np.arange(3), "b": np.float32([[1.5]]), "c": np.array([True]), "d": np.float16([2])},
        "group": {3: 1, 12: {"a": [1, (2, [3])]}},
        "sets": [{3, 1}, frozenset("ab"), set()],
        "numpy": np.int64(3),
        "verbs": (ClassCounts(),),
    }
    check_state(state, "save()")
    save_checkpoint(tmp_path / "checkpoint.safetensors", {**state, "once": WriteOnce({0: [1]})})
    back = load_checkpoint(tmp_path / "checkpoint.safetensors")
    assert back.pop("once").value == {0: [1]}
    np.testing.assert_equal(back, {**state, "numpy": 3})


@dataclass(frozen=True)
class Point:
    """A dataclass of a user."""

    x: float
    near: tuple[int, ...] = ()


@dataclass(kw_only=True)
class Remembering(FedAvg):
    """Has state of all kinds."""

    rate: float = 0.5
    last: dict[int, Point] = saved(default_factory=dict)
    seen: set[int] = saved(default_factory=set)
    pairs: list[tuple[int, str]] = saved(default_factory=list)
    where: Point | None = saved(default=None)
    sent: dict[int, np.ndarray] = saved(default_factory=dict, once=True)


def test_declared_state_comes_back_as_it_was(fed: Federation, tmp_path: Path) -> None:
    method, path = Remembering(rate=0.1), tmp_path / "state.safetensors"
    method.begin(fed)
    method.last, method.seen, method.pairs = {3: Point(0.1, (1, 2))}, {4, 2}, [(1, "a")]
    method.where, method.sent = Point(2.0), {0: np.arange(3)}
    save_checkpoint(path, method.save())
    other = Remembering()
    other.load(load_checkpoint(path))
    names = ("last", "seen", "pairs", "where")
    assert [getattr(other, name) for name in names] == [getattr(method, name) for name in names]
    assert isinstance(other.pairs, list)
    np.testing.assert_equal(other.sent, method.sent)
    np.testing.assert_equal(other.model, method.model)
    assert other.rate == 0.5, "options are not state"
    other.seen.add(9)
    assert method.seen == {2, 4}


def test_what_is_written_once_is_the_same_part_until_it_is_replaced(fed: Federation) -> None:
    method = Remembering()
    method.begin(fed)
    first = method.save()["sent"]
    assert method.save()["sent"] is first
    method.sent = {1: np.zeros(1)}
    assert method.save()["sent"] is not first

"""What someone who writes a method is told when something is wrong with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms import ALGORITHMS, REQUIRED
from coterie.algorithms.fedavg import FedAvg
from coterie.errors import CoterieError
from coterie.federation import Algorithm, CandidateModels, Federation, SharedLayers
from coterie.federation.checkpoint import WriteOnce, check_state, load_checkpoint, save_checkpoint
from coterie.federation.served_model import flaw
from coterie.messages import (
    VERBS,
    Anchor,
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    Losses,
    Prune,
    Reply,
    Train,
    TrainReply,
)
from coterie.models import MODELS
from coterie.run.building import Session
from coterie.testing import BATTERY, difference, goes_on_after_an_interruption, small_federation

PAGE = Path(__file__).parents[2] / "docs" / "own-method.md"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with small_federation("fedavg") as (run, _):
        yield run


@pytest.fixture
def fed(session: Session) -> Federation:
    return session.fed


@pytest.fixture
def methods_put_back() -> Iterator[None]:
    before = dict(ALGORITHMS._items) if list(ALGORITHMS) else {}
    yield
    ALGORITHMS._items.clear()
    ALGORITHMS._items.update(before)


# --- registration


def test_the_required_functions_are_those_of_the_protocol() -> None:
    declared = {
        name: tuple(inspect.signature(function).parameters)[1:]
        for name, function in vars(Algorithm).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }
    assert declared == REQUIRED


@pytest.mark.parametrize("name", REQUIRED)
def test_a_method_without_a_function_is_refused_when_it_is_registered(name: str) -> None:
    functions = {other: getattr(FedAvg, other) for other in REQUIRED if other != name}
    incomplete: Any = type("Incomplete", (), functions)
    with pytest.raises(CoterieError, match=f"'incomplete' of .*{Path(__file__).name}: it has no function {name};"):
        coterie.algorithm("incomplete")(incomplete)
    assert "incomplete" not in ALGORITHMS


def test_all_functions_that_are_missing_are_named() -> None:
    class Empty:
        """Nothing."""

    with pytest.raises(CoterieError, match=" and no ".join(REQUIRED)):
        coterie.algorithm("empty")(Empty)  # type: ignore[type-var]


def test_what_the_protocol_only_declares_is_missing() -> None:
    class Declared(Algorithm):
        """Inherits functions that do nothing."""

        def begin(self, fed: Federation) -> None:
            """Begin."""

    with pytest.raises(CoterieError, match="no function round and no admit"):
        coterie.algorithm("declared")(Declared)


def test_a_function_that_takes_something_else_is_refused() -> None:
    class Forgetful(FedAvg):
        """Forgets the cohort."""

        def round(self, fed: Federation) -> None:  # type: ignore[override]
            """Do something."""

    with pytest.raises(CoterieError, match=re.escape("should be round(self, fed, cohort)")):
        coterie.algorithm("forgetful")(Forgetful)


def test_a_function_is_no_method() -> None:
    with pytest.raises(CoterieError, match="a method is a class"):
        coterie.algorithm("function")(lambda: None)  # type: ignore[type-var, arg-type, return-value]


@pytest.mark.parametrize("name", ["my method", "", "a:b", "a,b", "a/b", "-a", "a=b", "ä", "a+b", "a\n"])
def test_a_name_that_could_not_be_used_is_refused(name: str) -> None:
    for register in (coterie.algorithm, coterie.model, coterie.partition, coterie.dataset):
        with pytest.raises(CoterieError, match=r"letters \(a-z, A-Z\), digits, '-', '_' and '\.'"):
            register(name)(FedAvg)  # type: ignore[type-var]


def test_names_that_can_be_used_are_not_refused(methods_put_back: None) -> None:
    for name in ("a", "A-1", "my_method.v2", "2nd"):
        assert coterie.algorithm(name)(FedAvg) is FedAvg


def test_a_decorator_without_a_name_is_refused() -> None:
    with pytest.raises(CoterieError, match="FedAvg is registered as a method without a name"):
        coterie.algorithm(FedAvg)  # type: ignore[arg-type]


def test_a_name_that_is_taken_tells_both_files() -> None:
    class Other(FedAvg):
        """Takes a name."""

    here, there = re.escape(__file__), re.escape(str(inspect.getsourcefile(FedAvg)))
    with pytest.raises(CoterieError, match=f"'fedavg' of {here} is registered already, by {there}: give yours another"):
        coterie.algorithm("fedavg")(Other)


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
        r"the class ClassCounts \(without brackets\), which is no verb",
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
        r"ask was given the verb Train for client 3: make a request of it, fed.request\(Train\(...\)\)",
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


def test_offers_that_are_models(fed: Federation) -> None:
    model = fed.initial()
    name = next(iter(model))
    for offer in (model, CandidateModels((model, fed.initial(1))), SharedLayers({name: model[name]})):
        assert flaw(offer, model) is None


def test_offers_that_are_none(fed: Federation) -> None:
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
    for told, offer in wrong.items():
        found = flaw(offer, model)
        assert found is not None
        assert told in found


def test_a_method_that_returns_all_its_models_is_named(methods_put_back: None) -> None:
    @coterie.algorithm("all-of-them")
    class AllOfThem(FedAvg):
        """Returns a dictionary of models."""

        def model_for(self, client: int) -> Any:
            """Return too much."""
            return {0: self.model}

    told = r"test_method_messages.py: .*AllOfThem.model_for\(\d\) returned a dict with the keys 0 and values"
    with pytest.raises(CoterieError, match=told):
        coterie.run(algorithm="all-of-them", dataset="digits", clients=2, rounds=1, epochs=1)


# --- save


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"group": {3: 1}}, r"at \['group'\] the key 3, an int"),
        ({3: 1}, "at the top the key 3, an int"),
        ({"a": [{"b": {None: 1}}]}, r"at \['a'\]\[0\]\['b'\] the key None"),
        ({"a": {(1, 2): 3}}, "the key \\(1, 2\\), a tuple"),
        ({"a": {1, 2}}, r"at \['a'\] a set"),
        ({"a": np.array([None])}, "an array of object"),
        ({"a": np.array(["text"])}, "an array of <U4"),
        ({"a": WriteOnce({"b": {0: 1}})}, r"at \['a'\]\['b'\] the key 0"),
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
        "group": {"3": 1},
        "numpy": np.int64(3),
        "verbs": (ClassCounts(),),
        "lasting": WriteOnce({"x": 1}),
    }
    check_state(state, "save()")
    save_checkpoint(tmp_path / "checkpoint.safetensors", state)
    back = load_checkpoint(tmp_path / "checkpoint.safetensors")
    np.testing.assert_equal(back, {**state, "numpy": 3, "lasting": {"x": 1}})


def test_the_battery_finds_a_state_with_numbers_as_keys(tmp_path: Path, methods_put_back: None) -> None:
    @coterie.algorithm("numbered")
    class Numbered(FedAvg):
        """Saves a dictionary by client."""

        def save(self) -> dict[str, Any]:
            """Save it as it is."""
            return {**super().save(), "last": {0: 1}}

    with pytest.raises(CoterieError, match=r"save\(\) of method 'numbered' returned at \['last'\] the key 0, an int"):
        goes_on_after_an_interruption("numbered", tmp_path)


# --- the battery


def test_a_check_that_fails_says_what_differs(tmp_path: Path, methods_put_back: None) -> None:
    @coterie.algorithm("unsteady")
    class Unsteady(FedAvg):
        """Tells another number each time."""

        made = 0

        def details(self) -> dict[str, int]:
            """Count how often it was asked."""
            Unsteady.made += 1
            return {"made": Unsteady.made}

    with pytest.raises(AssertionError, match=r"two runs with the same seed differ, first at \['details'\]\['made'\]: "):
        BATTERY[0]("unsteady", tmp_path)


def test_every_assertion_of_the_battery_explains_itself() -> None:
    """pytest explains bare ones in test files only."""
    import ast

    import coterie.testing

    tree = ast.parse(inspect.getsource(coterie.testing))
    bare = [node for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]
    assert [ast.unparse(node) for node in bare] == ["assert isinstance(engine, OnTheWire)"]


def test_the_first_difference_is_found() -> None:
    assert difference({"a": (1, {"b": 2})}, {"a": (1, {"b": 2})}) is None
    assert difference({"a": (1, {"b": 2})}, {"a": (1, {"b": 3})}) == "['a'][1]['b']: 2 and 3"
    assert difference({"a": 1}, {"b": 1}) == "all: {'a': 1} and {'b': 1}"
    assert difference([1], [1, 2]) == "all: [1] and [1, 2]"


# --- the page


def names(cell: str) -> list[str]:
    """The code in a cell of a table."""
    return re.findall(r"`(\w+)`", cell)


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    written = {verb: (names(given), answer, names(held)) for verb, given, answer, held in rows}
    assert written == {
        verb.__name__: ([f.name for f in fields(verb)], answer.__name__, [f.name for f in fields(answer)])
        for verb, answer in ((verb, verb.answer_type) for verb in VERBS)
    }


def test_the_table_of_functions_is_that_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\(([\w, ]*)\)` \|", page.partition("A small change")[0], re.MULTILINE)
    assert {name: tuple(filter(None, given.split(", "))) for name, given in rows} == REQUIRED


def test_the_characters_that_the_page_allows() -> None:
    from coterie.registry import NAME

    assert "letters (a-z, A-Z), digits, `-`, `_` and `.` only" in PAGE.read_text(encoding="utf-8")
    assert all(NAME.fullmatch(f"a{c}") for c in "zZ9-_.")
    assert all(NAME.fullmatch(name) for name in [*ALGORITHMS, *MODELS])

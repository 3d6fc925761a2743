"""What someone who writes a method is told when something is wrong with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedavg import FedAvg
from coterie.errors import CoterieError
from coterie.federation import Algorithm, CandidateModels, Federation, SharedLayers, Traits, saved
from coterie.federation.checkpoint import WriteOnce, check_state, load_checkpoint, save_checkpoint
from coterie.federation.served_model import error_in_served_model
from coterie.federation.state import Resumable
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


MUST = ("begin", "round", "model_for")
"""What a method must write."""


@pytest.mark.parametrize("name", MUST)
def test_a_method_without_a_function_is_refused_when_it_is_registered(name: str) -> None:
    functions = {other: getattr(FedAvg, other) for other in MUST if other != name}
    incomplete: Any = type("Incomplete", (Algorithm,), functions)
    with pytest.raises(CoterieError, match=f"'incomplete' of .*: it has no function {name}$"):
        coterie.algorithm("incomplete")(incomplete)
    assert "incomplete" not in ALGORITHMS


def test_all_functions_that_are_missing_are_named() -> None:
    class Empty(Algorithm):
        """Nothing."""

    with pytest.raises(CoterieError, match="no function begin and no model_for and no round"):
        coterie.algorithm("empty")(Empty)


def test_a_class_that_is_no_algorithm_is_told_what_to_write() -> None:
    class Plain:
        """Derives from nothing."""

    with pytest.raises(CoterieError, match=re.escape("write class Plain(coterie.Algorithm)")):
        coterie.algorithm("plain")(Plain)  # type: ignore[type-var]


def test_three_functions_are_enough(methods_put_back: None) -> None:
    @coterie.algorithm("smallest")
    class Smallest(coterie.Algorithm):
        """Does nothing, and has everything that a run asks for."""

        def begin(self, fed: Federation) -> None:
            """Begin."""

        def round(self, fed: Federation, cohort: Sequence[int]) -> None:
            """Do nothing."""

        def model_for(self, client: int) -> None:
            """There is none."""

    result = coterie.run(algorithm="smallest", dataset="digits", clients=2, rounds=1, epochs=1)
    assert (result.groups, result.details, result.memberships, result.grouping) == (None, None, None, None)


def test_a_function_that_takes_something_else_is_refused() -> None:
    class Forgetful(FedAvg):
        """Forgets the cohort."""

        def round(self, fed: Federation) -> None:  # type: ignore[override]
            """Do something."""

    with pytest.raises(CoterieError, match=re.escape("should be round(self, fed, cohort)")):
        coterie.algorithm("forgetful")(Forgetful)


def test_what_a_method_may_write_is_checked_too() -> None:
    class Unobserved(FedAvg):
        """Forgets since when."""

        def observed(self, scores: Any) -> dict[str, Any]:  # type: ignore[override]
            """Return something."""
            return {}

    with pytest.raises(CoterieError, match=re.escape("should be observed(self, scores, since)")):
        coterie.algorithm("unobserved")(Unobserved)


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


def test_a_method_that_returns_all_its_models_is_named(methods_put_back: None) -> None:
    @coterie.algorithm("all-of-them")
    class AllOfThem(FedAvg):
        """Returns a dictionary of models."""

        def model_for(self, client: int) -> Any:
            """Return too much."""
            return {0: self.model}

    told = r"test_algorithms_messages.py: .*AllOfThem.model_for\(\d\) returned a dict with the keys 0 and values"
    with pytest.raises(CoterieError, match=told):
        coterie.run(algorithm="all-of-them", dataset="digits", clients=2, rounds=1, epochs=1)


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


def test_state_that_is_not_declared_is_refused(methods_put_back: None, tmp_path: Path) -> None:
    @coterie.algorithm("undeclared")
    class Undeclared(FedAvg):
        """Keeps something that a resumed run would lack."""

        def round(self, fed: Federation, cohort: Sequence[int]) -> None:
            """Count."""
            super().round(fed, cohort)
            self.count = 1

    with pytest.raises(CoterieError, match=r"Undeclared.count is set but not declared.*'count: its type = saved\(\)'"):
        goes_on_after_an_interruption("undeclared", tmp_path)


@pytest.mark.integration
def test_a_method_that_writes_save_itself_may_have_numbers_as_keys(tmp_path: Path, methods_put_back: None) -> None:
    @coterie.algorithm("numbered")
    class Numbered(FedAvg):
        """Saves a dictionary by client."""

        def begin(self, fed: Federation) -> None:
            """Begin."""
            super().begin(fed)
            self.last = {0: 1}

        def save(self) -> dict[str, Any]:
            """Save it as it is."""
            return {**super().save(), "last": self.last}

        def load(self, state: Mapping[str, Any]) -> None:
            """Take it back."""
            super().load(state)
            self.last = state["last"]
            assert self.last == {0: 1}

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


def test_the_tables_of_the_contract_are_those_of_the_code() -> None:
    """All that `Algorithm` and `Traits` declare, with what functions are given."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `(\w+)(?:\(([\w, ]*)\))?` \|", page.partition("## What a client can be asked")[0], re.MULTILINE
    )
    declared = {
        name: ", ".join([*inspect.signature(item).parameters][1:]) if inspect.isfunction(item) else ""
        for name, item in {**vars(Resumable), **vars(Algorithm)}.items()
        if not name.startswith("_")
    }
    constants = {field.name: "" for field in fields(Traits)}
    assert dict(rows) == declared | constants


def test_the_characters_that_the_page_allows() -> None:
    from coterie.registry import NAME

    assert "letters (a-z, A-Z), digits, `-`, `_` and `.` only" in PAGE.read_text(encoding="utf-8")
    assert all(NAME.fullmatch(f"a{c}") for c in "zZ9-_.")
    assert all(NAME.fullmatch(name) for name in [*ALGORITHMS, *MODELS])

"""What someone who writes a method is told when it is registered, run or checked and something is wrong with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedavg import FedAvg
from coterie.errors import CoterieError
from coterie.federation import Algorithm, Federation
from coterie.testing import BATTERY, difference, goes_on_after_an_interruption


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


# --- runs


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

"""The method that docs/own-method.md begins with: 19 lines, and what the shared base does for them."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.testing import BATTERY

PAGE = Path(__file__).parents[2] / "docs" / "own-method.md"


def code() -> str:
    """What comes before the first run, without empty lines between examples."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    until = next(n for n, example in enumerate(examples) if example.source.startswith("partition ="))
    return "".join(example.source for example in examples[:until])


@pytest.fixture
def method(registries_put_back: None) -> str:
    """Its name."""
    exec(compile(code(), str(PAGE), "exec"), {"__name__": "__main__"})
    assert ALGORITHMS["by-labels"].__doc__
    return "by-labels"


def test_it_has_19_lines() -> None:
    assert len(code().splitlines()) == 19


PROMISED = ("learns", "goes_on_after_an_interruption", "bears_missing_clients", "takes_newcomers")
"""Of the battery, what the page says that the base does."""


@pytest.mark.integration
@pytest.mark.parametrize("check", [check for check in BATTERY if check.__name__ in PROMISED], ids=PROMISED)
def test_it_does_what_the_page_promises(check: Callable[[str, Path], None], method: str, tmp_path: Path) -> None:
    check(method, tmp_path)

"""The method that docs/own-method.md begins with: 19 lines, which pass the battery."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.testing import BATTERY, small_settings

PAGE = Path(__file__).parents[2] / "docs" / "own-method.md"


def code() -> str:
    """What comes before the first run, without empty lines between examples."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    until = next(n for n, example in enumerate(examples) if example.source.startswith("partition ="))
    return "".join(example.source for example in examples[:until])


@pytest.fixture(scope="module")
def method() -> str:
    """Its name."""
    exec(compile(code(), str(PAGE), "exec"), {"__name__": "__main__"})
    assert ALGORITHMS["by-labels"].__doc__
    return "by-labels"


def test_it_has_19_lines() -> None:
    assert len(code().splitlines()) == 19


@pytest.mark.integration
@pytest.mark.parametrize("check", BATTERY, ids=lambda check: check.__name__)
def test_it_passes_the_battery(check: object, method: str, tmp_path: Path) -> None:
    assert callable(check)
    assert small_settings(method)
    check(method, tmp_path)

"""The page on writing one's own method, whose tables are those of the code."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

from coterie.algorithms import ALGORITHMS
from coterie.federation import Algorithm, Traits
from coterie.federation.state import Resumable
from coterie.messages import VERBS
from coterie.models import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "own-method.md"


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

"""Books of one's own, and how published numbers are read."""

import re
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.reproduce.catalogue import Published, read_own


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version = ", "is not a TOML file"),
        ("source = 'x'", "version: field required"),
        ("version = 1\nsource = 'x'\nbase = 'pacfk'", "did you mean 'pacfl'"),
        ("version = 1\nsource = 'x'\n[entries.a]\ntitle = 'a'\nkind = 'accuracy'\ncovers = []\ncolour = 1", "colour"),
        (
            "version = 1\nsource = 'x'\n[entries.a]\ntitle = 'a'\nkind = 'costs'\ncovers = []\ncolumns = ['mars']",
            "unknown data 'mars'",
        ),
        (
            "version = 1\nsource = 'x'\n[entries.a]\ntitle = 'a'\nkind = 'costs'\ncovers = []\n"
            "columns = [{label = 'x'}]\nrows = {a = ['1', '2']}",
            "row a of a has 2 cells, not 1",
        ),
        (
            "version = 1\nsource = 'x'\n[entries.a]\ntitle = 'a'\nkind = 'costs'\ncovers = []\n"
            "columns = [{label = 'x'}]\nrows = {a = ['many']}",
            "'many' should be a number",
        ),
        (
            "version = 1\nsource = 'x'\n[entries.a]\ntitle = 'a'\nkind = 'costs'\ncovers = []\n"
            "rows = {a = {method = 'b'}}",
            "method 'b', which the book does not have",
        ),
    ],
)
def test_bad_books(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CoterieError, match=re.escape(told)):
        read_own(tmp_path / "own.toml")


def test_no_book(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="there is no catalogue"):
        read_own(tmp_path / "none.toml")


def test_published_numbers() -> None:
    assert Published.read("63.68 ± 1.64") == Published("63.68 ± 1.64", 63.68, 1.64)
    assert Published.read("6.13 (12.3)").value == 6.13
    assert Published.read("79.36 [200]").implied_rounds == 200
    assert Published.read("-- (82 elsewhere)").value is None
    with pytest.raises(ValueError, match="should be a number"):
        Published.read("about 5")

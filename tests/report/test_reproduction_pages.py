"""Pages of reproductions: the paper's numbers beside ours, whether it was shortened, and the charts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_page import sample_page
from typer.testing import CliRunner

from coterie.cli.main import app
from coterie.errors import CoterieError
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.report.reproduction import digits_of, number_text, reproduction_page
from coterie.results.charts import Bars, Chart, NumberCell, Series, Table, chart_of, charts_of, plain
from coterie.results.formats import TableOptions
from coterie.results.reproductions import NumberPair, Reproduction, read_reproduction
from coterie.results.statistics import Spread

CHART = Bars(
    title="Accuracy: Digits",
    x_label="",
    y_label="accuracy (%)",
    categories=("FedAvg", "Ours"),
    series=(Series(name="paper", y=(50.0, None)), Series(name="ours", y=(48.0, 71.0))),
)


def made(**changes: Any) -> Reproduction:
    lines = (
        NumberPair(
            "Digits", "FedAvg", "G", "50.0 ± 1.0", 50.0, 1.0, Spread(2, 48.0, 0.5), {"G": Spread(2, 48.0, 0.5)}, "C"
        ),
        NumberPair("Digits", "SOLO", "L", "60.0", 60.0, None, Spread(2, 61.5, 0.25), {"L": Spread(2, 61.5, 0.25)}),
        NumberPair("Digits", "Ours", "L", "--", None, None, Spread(2, 71.0, None), notes=("taken elsewhere",)),
        NumberPair("Letters", "FedAvg", "G", "9.0", 9.0, None, None, why="failed"),
    )
    fields: dict[str, Any] = {
        "name": "our-table1", "title": "Accuracy", "source": "A paper", "version": "3", "kind": "accuracy",
        "unit": "%", "seeds": (0, 1), "lines": lines, "charts": (CHART,), "command": "coterie reproduce our-table1",
    }  # fmt: skip
    return Reproduction(**fields | changes)


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str = "our-table1", **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "reproduction.json").write_text(json.dumps(made(name=name, **changes).to_json()))
        return folder

    return write


def words(folder: Path) -> str:
    page = make_page([folder])
    return " ".join([*page.summary, *(text for section in page.sections for text in section.text)])


def test_what_is_read_is_what_was_made(place: Callable[..., Path]) -> None:
    assert read_reproduction(place() / "reproduction.json") == made()


@pytest.mark.parametrize("chart", [chart for _, chart in charts_of(sample_page())], ids=lambda chart: chart.title[:20])
def test_every_kind_of_chart_comes_back_from_json(chart: Chart) -> None:
    if not isinstance(chart, Table):  # a table's NaN is None in JSON
        assert plain(chart_of(json.loads(json.dumps(plain(chart))))) == plain(chart)


def test_paper_ours_and_difference(place: Callable[..., Path]) -> None:
    page = make_page([place()])
    tables = {chart.title: chart for _, chart in charts_of(page) if isinstance(chart, Table)}
    digits: list[dict[str, Any]] = [
        dict(zip(tables["Digits"].columns, row, strict=True)) for row in tables["Digits"].rows
    ]
    assert [row["paper"] for row in digits] == [
        NumberCell("50.0 ± 1.0", 50.0),
        NumberCell("60.0", 60.0),
        NumberCell("--", None),
    ]
    assert [row["ours"].text for row in digits] == ["48.00 ± 0.50", "61.50 ± 0.25", "71.00"]
    assert [row["difference"] for row in digits] == [
        NumberCell("-2.00", -2.0),
        NumberCell("+1.50", 1.5),
        NumberCell("–", None),
    ]
    assert [row["grade"] for row in digits] == ["C", "A", "A"]
    assert [row["notes"] for row in digits] == ["", "", "1"]
    assert tables["Notes"].rows == ((1, "taken elsewhere"),)
    assert tables["Letters"].rows[0][3] == NumberCell("failed", None)
    assert "Of 4 published entries, 2 have a number of ours" in page.summary[1]
    assert "Of 1 that are targets (grade A), ours is higher in 1 and lower in 0" in page.summary[1]
    assert CHART in [chart for _, chart in charts_of(page)]
    assert "coterie reproduce our-table1" in render(page)


def test_shortened_says_so_and_counts_no_targets(place: Callable[..., Path]) -> None:
    told = words(place(shortened=("0.25 of the published rounds (--rounds-scale)",), skipped=("X: get it",)))
    assert "Shortened: 0.25 of the published rounds (--rounds-scale). Not comparable with the published" in told
    assert "grade A), ours is" not in told
    assert "Skipped: X: get it." in told


def test_a_wide_table_is_shown_as_printed_too(place: Callable[..., Path]) -> None:
    tables = [chart for _, chart in charts_of(make_page([place(wide=True)])) if isinstance(chart, Table)]
    assert tables[0].columns == ("method", "Digits", "Letters")
    assert tables[0].rows[0] == ("FedAvg", "48.00 ± 0.50 (50.0 ± 1.0)", "failed (9.0)")
    assert len(tables[1].rows) == 4


def test_a_number_that_is_none_is_left_out_and_told(place: Callable[..., Path]) -> None:
    bad = NumberPair("Digits", "SOLO", "L", "60.0", 60.0, None, Spread(2, float("nan"), None))
    folder = place(lines=(bad,))
    assert "No number was measured for Digits, SOLO: it is left out" in words(folder)
    assert read_reproduction(folder / "reproduction.json").lines[0].difference is None


def test_several_and_the_folder_of_all(place: Callable[..., Path]) -> None:
    one, other = place("one"), place("two", lines=(), charts=())
    headings = [section.heading for section in make_page([one, other]).sections]
    assert headings == [
        *("one: Paper and ours", "one: Figures", "one: How it was made", "two: Paper and ours", "two: How it was made"),
    ]
    assert make_page([one.parent]) == make_page([one, other])


def test_many_charts_have_a_control() -> None:
    page = reproduction_page([made(charts=(CHART,) * 6)])
    assert len([name for name, _ in charts_of(page) if name == "Digits"]) == 6


def drop(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content.pop(key)


@pytest.mark.parametrize(
    "damage",
    [
        drop("what"),
        drop("lines"),
        drop("charts"),
        lambda content: content["lines"][0].update(ours="many"),
        lambda content: content["lines"][0].pop("row"),
        lambda content: content["charts"][0].update(kind="cake"),
        lambda content: content["charts"][0]["series"][0].update(y=["much"]),
        lambda content: content.update(seeds="none"),
    ],
)
def test_damaged(place: Callable[..., Path], damage: Callable[[dict[str, Any]], Any]) -> None:
    file = place() / "reproduction.json"
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(CoterieError, match=r"is (damaged|not of a reproduction).*remove it"):
        make_page([file.parent])


@pytest.mark.parametrize("content", ["{", "[]", "3", "\udcff"])
def test_no_json(place: Callable[..., Path], content: str) -> None:
    file = place() / "reproduction.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CoterieError, match=r"is damaged|is not of a reproduction"):
        make_page([file.parent])


def test_by_the_command_with_figures(place: Callable[..., Path], tmp_path: Path) -> None:
    out, figures = tmp_path / "page.html", tmp_path / "figures"
    told = CliRunner().invoke(
        app, ["report", str(place()), "--out", str(out), "--figures", str(figures), "--formats", "svg"]
    )
    assert told.exit_code == 0, told.output
    assert [path.name for path in figures.iterdir()] == ["figures-bars.svg"]
    assert "61.50 ± 0.25" in out.read_text(encoding="utf-8")


def test_groups_of_one_seed_are_a_whole_number() -> None:
    one = {"L": Spread(1, 97.5, None), "groups": Spread(1, 4.0, None)}
    line = NumberPair("FMNIST", "PACFL", "L", "", None, None, None, beside=one)
    assert number_text(line.beside["groups"], digits_of(line, "groups")) == "4"
    assert number_text(line.beside["L"], digits_of(line, "L")) == "97.50"
    several = replace(line, beside={"groups": Spread(3, 4.5, 0.5)})
    assert number_text(several.beside["groups"], digits_of(several, "groups")) == "4.5 ± 0.5"


def test_on_a_narrow_terminal_our_other_protocols_are_left_out_and_it_is_said() -> None:
    whole = made().report("text", TableOptions(width=500))
    assert whole == made().report()
    text = made().report("text", TableOptions(width=75))
    heads = [line.split() for line in text.splitlines() if line.startswith(" method")]
    assert heads[0] == ["method", "measured", "paper", "ours", "difference", "grade", "notes"]
    assert max(len(line) for line in text.splitlines() if line.startswith(" ")) <= 75
    assert "the rest is in table.txt, or choose by --columns" in text

"""Figures in files: names that a paper can rely on, and one figure in a file of the user's choice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from comparison_folders import made
from sample_page import sample_page

from coterie.errors import CoterieError
from coterie.report.figures import accuracy_chart
from coterie.report.folders import make_page
from coterie.report.picture_files import check_picture
from coterie.report.static import figures, paint, save_one
from coterie.results.charts import Lines, Page, Section, Series, Switch

__all__ = ["made"]  # a fixture

DOCUMENTED = Path(__file__).parents[2] / "docs" / "comparing.md"
BEGINNINGS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


@pytest.mark.integration
def test_names_of_a_comparison_are_those_of_the_docs_and_stay(made: Path, tmp_path: Path) -> None:
    whole = figures(make_page([made]))
    text = DOCUMENTED.read_text(encoding="utf-8")
    assert {name for name in whole if f"`{name}`" not in text} == set()
    fewer = Path(shutil.copytree(made, tmp_path / "fewer"))
    for run in (fewer / "solo").iterdir():  # without SOLO sections are missing, and lines in others
        (run / "result.json").unlink(missing_ok=True)
    left = figures(make_page([fewer]))
    assert 5 < len(left) < len(whole)
    for name, chart in left.items():
        assert (type(chart), chart.title) == (type(whole[name]), whole[name].title)


def test_names_tell_charts_of_a_section_apart() -> None:
    chart = Lines(title="t", x_label="x", y_label="y", series=())
    variants = Switch(label="Protocol", variants=(("L", chart), ("+", chart)))
    page = Page(
        title="p", summary=(), sections=(Section(heading="Who gains?", blocks=(chart, variants, variants, chart)),)
    )
    assert [*figures(page)] == [
        "who-gains-lines", "who-gains-l", "who-gains-plus", "who-gains-l-lines", "who-gains-plus-lines",
        "who-gains-lines-2",
    ]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("kind", BEGINNINGS)
def test_one_figure_in_the_format_of_the_files_name(kind: str, tmp_path: Path) -> None:
    page, file = sample_page(9), tmp_path / "new" / f"figure.{kind.upper()}"
    assert save_one(page, check_picture(file)) == next(iter(figures(page)))
    assert file.read_bytes().startswith(BEGINNINGS[kind])
    first = file.read_bytes()
    save_one(page, file)
    assert kind == "svg" or file.read_bytes() == first  # SVG has random ids of its own


def test_legends_call_methods_as_papers_do() -> None:
    series = tuple(Series(name=name, x=(1.0, 2.0), y=(1.0, 2.0)) for name in ("pacfl:count=4", "solo", "mine: x"))
    figure = paint(Lines(title="t", x_label="x", y_label="y", series=series))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["PACFL, count = 4", "SOLO", "mine: x"]
    assert accuracy_chart({"pacfl": [{"round": 1, "L": 0.5}]}, "t").series[0].name == "PACFL (L)"


@pytest.mark.integration
@pytest.mark.parametrize("metric", ["Accuracy", "F1"])
def test_the_usual_figure_is_that_of_the_metric(metric: str, tmp_path: Path) -> None:
    chart = Lines(title="t", x_label="x", y_label="y", series=(Series(name="a", x=(1.0, 2.0), y=(1.0, 2.0)),))
    sections = tuple(Section(heading=heading, blocks=(chart,)) for heading in ("Before", f"{metric} over rounds"))
    page = Page(title="p", summary=(), sections=sections)
    assert save_one(page, tmp_path / "x.svg") == f"{metric.lower()}-over-rounds-lines"


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match=r"figure.gif' does not say how.*\.png, \.svg, \.pdf"):
        check_picture(tmp_path / "figure.gif")
    (tmp_path / "x.pdf").mkdir()
    with pytest.raises(CoterieError, match="is a folder"):
        check_picture(tmp_path / "x.pdf")
    with pytest.raises(CoterieError, match="there is no figure 'acuracy"):
        save_one(sample_page(9), tmp_path / "y.pdf", "acuracy")
    with pytest.raises(CoterieError, match="no chart to draw"):
        save_one(Page(title="p", summary=(), sections=()), tmp_path / "y.pdf")


def test_rounds_are_counted_in_whole_numbers() -> None:
    for points, whole in (((2.0, 3.0, 4.0), True), ((0.5, 1.0, 1.5), False)):
        series = Series(name="fedavg", x=points, y=(1.0, 2.0, 3.0))
        (axes,) = paint(Lines(title="Accuracy", x_label="round", y_label="C (%)", series=(series,))).axes
        assert all(float(tick).is_integer() for tick in axes.get_xticks()) == whole

"""Pages of comparisons that are unfinished, damaged, or not to be shown together."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparison_folders import LABELS, MAIN, SEEDS, folder, grid, made, titles, words

from coterie.errors import CoterieError
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.report.pages.comparison import comparison_page
from coterie.results.charts import Bars, Distribution, Lines, charts_of
from coterie.results.comparisons import read_comparison

__all__ = ["made"]  # a fixture


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A comparison to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "c"))


def change(file: Path, how: Callable[[Any], Any]) -> None:
    content = json.loads(file.read_text())
    file.write_text(json.dumps(how(content) or content))


def test_one_seed_has_no_interval_and_says_so(copy: Path) -> None:
    file = copy / "comparison.toml"
    file.write_text(file.read_text().replace("seeds = [0, 1]", "seeds = [0]"))
    page = make_page([copy])
    assert "One seed only (0): there is neither spread nor interval" in words(page)
    chart = titles(page)["L minus L of fedavg"]
    assert isinstance(chart, Bars)
    assert chart.series[0].low == chart.series[0].high == ()
    assert "There is no interval" in chart.note
    curve = titles(page)["Accuracy L over rounds"]
    assert isinstance(curve, Lines)
    assert all(series.low == () for series in curve.series)
    assert all("±" not in str(cell) for row in grid(page, "One seed") for cell in row.values())
    assert "are of other runs than those in the folder" in words(page)  # comparison.json has both seeds


def test_unfinished_shows_what_is_there_and_says_what_is_missing(copy: Path) -> None:
    (copy / folder("fedavg", 1) / "result.json").unlink()
    metrics = copy / folder("fedavg", 1) / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:2]))
    shutil.rmtree(copy / folder("solo", 0))
    shutil.rmtree(copy / folder("pacfl:count=4", 1))
    (copy / f"{folder('pacfl:count=4', 1)}.error.txt").write_text("Traceback\nMemoryError: no room\n")
    (copy / "comparison.json").unlink()
    page = make_page([copy])
    told = words(page)
    assert "3 of 6 runs are finished." in told
    assert "fedavg, seed 1: stopped after round 2 of 3; solo, seed 0: not begun" in told
    assert "pacfl:count=4, seed 1: failed: MemoryError: no room" in told
    assert f"`coterie resume {copy}`" in told
    states = {(row["method"], row["seed"]): row["state"] for row in grid(page, "All runs")}
    assert states["pacfl:count=4", 1] == "failed: MemoryError: no room"
    assert states["fedavg", 0] == "finished"
    own = {row["method"]: row["L (%)"] for row in grid(page, MAIN)}
    assert own["fedavg"] == f"{100 * stored_one(copy, 'fedavg', 0)['accuracy']['L']:.2f} (1 of 2)"
    assert "as the best" not in told  # nobody has all seeds
    assert "None has a number of every seed" in told


def stored_one(place: Path, label: str, seed: int) -> Any:
    return json.loads((place / folder(label, seed) / "result.json").read_text())


def test_nothing_finished(copy: Path) -> None:
    for label in LABELS:
        shutil.rmtree(copy / folder(label, 0).partition("/")[0])
    page = make_page([copy])
    assert "0 of 6 runs are finished." in words(page)
    assert "No accuracy was measured." in words(page)
    assert not [chart for _, chart in charts_of(page) if isinstance(chart, Lines | Bars | Distribution)]
    render(page)


@pytest.mark.parametrize("content", ["{", "[]", '{"cells": [{"label": "fedavg"}]}'])
def test_a_damaged_comparison_json_is_told_and_changes_no_number(made: Path, copy: Path, content: str) -> None:
    (copy / "comparison.json").write_text(content)
    page = make_page([copy])
    assert "comparison.json is damaged" in words(page)
    assert grid(page, MAIN) == grid(make_page([made]), MAIN)


def test_a_comparison_json_of_other_runs_is_told(made: Path, copy: Path) -> None:
    change(copy / "comparison.json", lambda all: all["cells"][0]["runs"][0]["accuracy"].update(L=0.999))
    page = make_page([copy])
    assert "are of other runs than those in the folder" in words(page)
    assert grid(page, MAIN) == grid(make_page([made]), MAIN)
    assert "are of other runs" not in words(make_page([made]))


def test_what_is_no_number_is_in_no_mean(copy: Path) -> None:
    change(copy / folder("fedavg", 1) / "result.json", lambda result: result["accuracy"].update(L=float("nan")))
    page = make_page([copy])
    assert "fedavg: L of seed 1 is not a number; means leave it out." in words(page)
    own = {row["method"]: row["L (%)"] for row in grid(page, MAIN)}
    assert own["fedavg"].endswith("(1 of 2)")
    assert "nan" not in render(page).lower().split("charts", 1)[0]


def test_a_round_that_one_seed_lacks_is_a_gap(copy: Path) -> None:
    metrics = copy / folder("fedavg", 1) / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows[1]["L"] = float("nan")
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = make_page([copy])
    chart = titles(page)["Accuracy L over rounds"]
    assert isinstance(chart, Lines)
    assert [y is None for y in chart.series[0].y] == [False, True, False]
    assert "fedavg, seed 1: Accuracy L is no number in round 2" in words(page)


def test_no_common_protocol(copy: Path) -> None:
    for seed in SEEDS:
        for label in ("fedavg", "pacfl:count=4"):
            change(copy / folder(label, seed) / "result.json", lambda result: result["accuracy"].update(L=None))
    page = make_page([copy])
    assert "No protocol has numbers of all of them" in words(page)
    assert "L: solo: " in words(page)
    assert "Under L, G there are no differences" in words(page)
    assert "L minus L of fedavg" not in titles(page)


def cut(place: Path) -> None:
    file = place / folder("solo", 0) / "metrics.jsonl"
    file.write_bytes(file.read_bytes()[:-40])


def other_settings(place: Path) -> None:
    file = place / folder("solo", 0) / "config.toml"
    file.write_text(file.read_text().replace("lr = 0.05", "lr = 0.5"))


def without_numbers(place: Path) -> None:
    change(place / folder("solo", 0) / "result.json", lambda result: result.update(accuracy={}))


def not_a_result(place: Path) -> None:
    change(place / folder("solo", 0) / "result.json", lambda result: result.update(per_client=[1]))


def no_design(place: Path) -> None:
    (place / "comparison.toml").unlink()


def broken_design(place: Path) -> None:
    (place / "comparison.toml").write_text("[comparison]\nkind = 'compare'\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "is damaged"),
        (other_settings, "another configuration"),
        (without_numbers, "is damaged"),
        (not_a_result, "has no 'per_client'"),
        (no_design, "it has no comparison.toml"),
        (broken_design, "is damaged"),
    ],
)
def test_what_can_not_be_right_is_an_error_and_no_table(copy: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(copy)
    with pytest.raises(CoterieError, match=said):
        make_page([copy])


def test_one_comparison_per_page(made: Path, copy: Path) -> None:
    with pytest.raises(CoterieError, match="a page shows one comparison or sweep"):
        make_page([made, copy])
    with pytest.raises(CoterieError, match="folders of one kind"):
        make_page([made, made / folder("solo", 0)])
    page = make_page([made / folder("solo", 0)])
    assert page.title == "solo on digits-rotated"


def test_solo_on_other_parts_is_no_measure(made: Path) -> None:
    compared = replace(read_comparison(made), alone={})
    assert "if `solo` with the same data and parts is among the methods" in words(comparison_page(compared))
    assert read_comparison(made).alone == {"fedavg": "solo", "pacfl:count=4": "solo"}

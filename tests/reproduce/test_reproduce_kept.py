"""The runs in the folder `reproductions` are those of the catalogue, and docs/results.md says what they say."""

import shutil
from pathlib import Path

import pytest

from coterie.cli.reproduce import plan
from coterie.errors import CoterieError
from coterie.reproduce import reproduce
from coterie.reproduce.catalogue import Cell, catalogue
from coterie.reproduce.findings import over_seeds
from coterie.reproduce.request import ReproductionRequest
from coterie.reproduce.trained import KINDS
from coterie.results.reproductions import run_path
from coterie.run.result import Result

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reproductions"
FILES = {"config.toml", "metrics.jsonl", "result.json"}
RUNS = sorted(KEPT.glob("runs/*/*"))
WHOLE = [("pacfl-table3", "mix-4"), ("pacfl-table2", "fashion_mnist"), ("pacfl-table2", "cifar10")]
"""The tables of which the runs of all seeds are kept, and of which data set."""


def kept_runs(name: str) -> list[tuple[Cell, list[Result]]]:
    """Read the runs of a table, by cell; the name of a folder stands for the settings in the catalogue."""
    rows = []
    for cell in catalogue()[name].cells():
        paths = [run_path(KEPT, cell.settings, seed) for seed in catalogue()[name].entry.seeds]
        rows.append((cell, [Result.load(path) for path in paths if path in RUNS]))
    return rows


def test_nothing_else_is_kept_and_no_path_of_a_machine() -> None:
    assert RUNS
    for run in RUNS:
        assert {file.name for file in run.iterdir()} - {"lock"} == FILES
        place = run.relative_to(ROOT).as_posix()
        assert f'out = "{place}"' in (run / "config.toml").read_text(encoding="utf-8")


@pytest.mark.integration
def test_every_run_belongs_to_a_table() -> None:
    known = {
        run_path(KEPT, cell.settings, seed)
        for item in catalogue().values()
        if item.entry.kind in KINDS
        for cell in item.cells()
        for seed in item.entry.seeds
    }
    assert [run for run in RUNS if run not in known] == []


@pytest.mark.integration
@pytest.mark.parametrize(("name", "data"), WHOLE)
def test_the_numbers_in_the_docs_are_those_of_the_runs(name: str, data: str) -> None:
    item, lines = catalogue()[name], (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    checked = [(cell, runs) for cell, runs in kept_runs(name) if runs and cell.settings["data"]["name"] == data]
    assert len(checked) >= 6
    for cell, runs in checked:
        assert len(runs) == len(item.entry.seeds), cell.row
        ours = over_seeds(runs, cell.quantity, cell.options)
        assert ours is not None
        start, number = f"| {cell.label} | {cell.quantity} |", f"| {ours.mean:.2f} ± {ours.std:.2f} |"
        assert any(line.startswith(start) and number in line for line in lines), f"{start} … {number}"


@pytest.mark.integration
def test_kept_runs_are_shown_without_their_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of their own, as they are a part of the table; seeds that are not there need the data."""
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "none"))
    kept = next(KEPT.glob("runs/pacfl-mix-4-*"))
    for seed in (0, 1):
        shutil.copytree(kept / f"seed-{seed}", tmp_path / "runs" / kept.name / f"seed-{seed}")
    made = reproduce("pacfl-table3", algorithms="pacfl", seeds=[0, 1], out=tmp_path)
    assert [line.ours is not None for line in made.lines] == [True]
    assert made.skipped == ()
    assert made.lines[0].beside["L best"] is None  # only the end was evaluated
    assert "L best" not in made.report()
    assert [folder.name for folder in tmp_path.glob("pacfl-*")] == ["pacfl-table3-part-pacfl-seeds-0-1"]
    with pytest.raises(CoterieError, match="none of the data of pacfl-table3 are here"):
        reproduce("pacfl-table3", algorithms="pacfl", out=tmp_path)
    item = catalogue()["pacfl-table3"]
    text = plan(item, ReproductionRequest(seeds=(0, 1), algorithms=("pacfl",)), tmp_path)
    assert "1 number of 2 runs (2 of them finished)" in text
    assert "time: none: all runs are finished" in text
    assert "left out" not in text


def test_a_data_set_that_is_part_of_the_tables_says_what_that_is_called() -> None:
    item = catalogue()["pacfl-table3"]
    with pytest.raises(
        CoterieError, match=r"no data set 'cifar10': its 'mix4' is made of usps, cifar10, .* write mix4"
    ):
        ReproductionRequest(datasets=("cifar10",)).checked(item)
    assert ReproductionRequest(datasets=("MIX-4",)).checked(item).datasets == ("mix-4",)

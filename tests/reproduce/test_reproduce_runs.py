"""Reproducing a small table of our own, on digits: numbers, what is said beside them, and what is never done twice."""

import csv
import io
import json
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.reproduce import reproduce
from coterie.reproduce.findings import measure
from coterie.results.reproductions import Reproduction
from coterie.run.result import Result

BOOK = Path(__file__).parent / "digits.toml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduced")


@pytest.fixture(scope="module", autouse=True)
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> object:
    """No data set of the user is seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTERIE_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def table(place: Path) -> Reproduction:
    return reproduce("digits-table", book=BOOK, out=place, jobs=1)


def runs(place: Path) -> dict[str, int]:
    """When each run was finished."""
    return {str(f): f.stat().st_mtime_ns for f in place.glob("runs/*/seed-*/result.json")}


@pytest.mark.integration
def test_ours_are_the_means_of_the_runs(table: Reproduction, place: Path) -> None:
    assert len(runs(place)) == 6  # three methods, two seeds
    line = next(line for line in table.lines if line.row == "PACFL")
    found = [Result.load(f.parent) for f in place.glob("runs/pacfl-*/seed-*/result.json")]
    assert sorted(run.seed for run in found) == [0, 1]
    own = [100 * float(run.accuracy["L"] or 0) for run in found]
    assert line.ours is not None
    assert line.ours.mean == pytest.approx(sum(own) / 2)
    assert line.ours.std == pytest.approx(abs(own[0] - own[1]) / 2**0.5)
    assert line.difference == pytest.approx(sum(own) / 2 - 70)
    assert line.beside["C"] is not None


@pytest.mark.integration
def test_a_global_method_stands_under_its_own_protocol_with_all_others_beside(table: Reproduction) -> None:
    line = next(line for line in table.lines if line.row == "FedAvg")
    assert line.quantity == "G"
    assert line.ours == line.beside["G"]
    assert {name for name, found in line.beside.items() if found} == {"L", "C", "G", "+", "L best"}
    assert line.grade == "C"  # the cell is of another study
    assert "NIID-Bench" in line.notes[0]
    assert next(line for line in table.lines if line.row == "SOLO").beside["G"] is None


def test_missing_data_are_skipped_with_the_command_that_gets_them(table: Reproduction) -> None:
    assert [line.column for line in table.lines] == ["Digits"] * 3
    assert "STL-10: 'stl10' is not here: 'coterie data get stl10' downloads it" in table.skipped[0]
    assert "coterie data get stl10" in table.report()


def test_it_is_complete_if_nothing_was_shortened(table: Reproduction) -> None:
    assert table.shortened == ()
    assert "SHORTENED" not in table.report()


@pytest.mark.integration
def test_files(table: Reproduction, place: Path) -> None:
    folder = place / "digits-table"
    content = json.loads((folder / "reproduction.json").read_text(encoding="utf-8"))
    assert content["what"] == "reproduction"
    assert content["version"] == "7"
    assert content["lines"][0]["published"] == "50.0 ± 1.0"
    assert content["charts"][0]["kind"] == "bars"
    assert "coterie reproduce digits-table" in content["command"]
    assert list(folder.glob("*.png"))
    assert list(folder.glob("*.svg"))
    rows = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text(encoding="utf-8"))))
    assert [row["row"] for row in rows] == ["FedAvg", "SOLO", "PACFL"]
    for row in rows:
        assert float(row["difference"]) == pytest.approx(float(row["ours"]) - float(row["paper"]))
    markdown = (folder / "table.md").read_text(encoding="utf-8")
    assert "| method | measured | paper | ours | difference | L | C | G | + |" in markdown
    assert markdown.count("\n|") >= 4
    assert r"\begin{tabular}" in (folder / "table.tex").read_text(encoding="utf-8")


@pytest.mark.integration
def test_finished_runs_are_never_repeated_and_are_shared(table: Reproduction, place: Path) -> None:
    before = runs(place)
    again = reproduce("our-table", book=BOOK, out=place, jobs=1)
    assert runs(place) == before
    assert again.lines == table.lines
    reproduce("digits-targets", book=BOOK, out=place, jobs=1)  # FedAvg's runs, looked at otherwise
    reproduce("digits-copy", book=BOOK, out=place, seeds=[1], jobs=1)
    assert runs(place) == before


@pytest.mark.integration
def test_what_was_killed_goes_on(table: Reproduction, place: Path) -> None:
    lost = next(iter(place.glob("runs/pacfl-*/seed-1/result.json")))
    before = runs(place)
    lost.unlink()
    again = reproduce("digits-table", book=BOOK, out=place, jobs=1)
    assert again.lines == table.lines
    assert {name for name, when in runs(place).items() if when != before[name]} == {str(lost)}


@pytest.mark.integration
def test_shortened_runs_say_so(place: Path) -> None:
    short = reproduce(
        "digits-table", book=BOOK, out=place, rounds_scale=0.5, seeds=[0], algorithms=["solo", "pacfl"], jobs=1
    )
    assert short.shortened == (
        "0.5 of the published rounds (--rounds-scale)",
        "1 seed instead of 2 (--seeds)",
    )
    for text in (short.report(), short.report("markdown"), short.report("latex")):
        assert "SHORTENED: 0.5 of the published rounds" in text
    assert "0.5 of the published rounds" in short.report("csv")
    assert [line.row for line in short.lines] == ["SOLO", "PACFL"]
    assert "--rounds-scale 0.5 --seeds 0 --algorithms solo,pacfl" in short.command
    found = {run.algorithm: run for run in (Result.load(path) for path in short.runs)}
    assert found["pacfl"].rounds == 2
    assert all(line.ours is not None and line.ours.std is None for line in short.lines)
    solo = (Path(short.runs[0]) / "config.toml").read_text(encoding="utf-8")
    assert "epochs = 25" in solo  # of 50


@pytest.mark.integration
def test_targets(place: Path) -> None:
    found = {line.column: line for line in reproduce("digits-targets", book=BOOK, out=place, jobs=1).lines}
    reached, missed = found["1 %"], found["100 %"]
    assert reached.ours is not None
    assert reached.ours.mean == 1
    assert reached.difference == 0
    assert (missed.ours, missed.reached, missed.tried) == (None, 0, 2)
    text = reproduce("digits-targets", book=BOOK, out=place, jobs=1).report()
    assert "--" in text.split("100 %")[1]


@pytest.mark.integration
def test_sweep_of_the_threshold(place: Path) -> None:
    swept = reproduce("digits-sweep", book=BOOK, out=place, jobs=1)
    groups = [line.beside["groups"] for line in swept.lines]
    assert [found.mean for found in groups if found] == [6, 1]  # each alone, and all together
    chart = swept.to_json()["charts"][0]
    assert chart["series"][0]["y"] == [6, 1]
    assert chart["categories"] == ["0.0", "90.0"]
    assert chart["line"]["y"] == [line.ours.mean for line in swept.lines if line.ours]


@pytest.mark.integration
def test_curves_end_where_the_figure_does(table: Reproduction, place: Path) -> None:
    before = runs(place)
    drawn = reproduce("digits-curves", book=BOOK, out=place, jobs=1)
    assert runs(place) == before  # the first rounds of runs that were made already
    for series in drawn.to_json()["charts"][0]["series"]:
        assert series["x"] == [1, 2]


@pytest.mark.integration
def test_newcomers(place: Path) -> None:
    found = {line.row: line for line in reproduce("digits-newcomers", book=BOOK, out=place, jobs=1).lines}
    run = Result.load(next(place.glob("runs/*/seed-0/result.json"), place).parent)
    assert measure(run, "newcomers L", {}) is None or run.newcomers
    assert found["FedAvg"].quantity == "newcomers G"
    assert found["PACFL"].quantity == "newcomers L"
    assert found["PACFL"].ours == found["PACFL"].beside["newcomers L"]
    assert found["FedAvg"].ours == found["FedAvg"].beside["newcomers C"]


@pytest.mark.integration
def test_a_failing_run_is_told_and_the_others_count(place: Path) -> None:
    made = reproduce("digits-broken", book=BOOK, out=place, jobs=1)
    fine, broken = made.lines
    assert fine.ours is not None
    assert broken.ours is None
    assert broken.why == "failed"
    assert any("SCAFFOLD" in text for text in made.failed)
    assert "Failed: " in made.report()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"name": "digits-tabel"}, "did you mean 'digits-table'?"),
        ({"name": "zzz"}, "'coterie reproduce' lists them"),
        ({"name": "digits-sketch"}, "cannot be reproduced: it has no numbers"),
        ({"name": "digits-absent"}, "none of the data of digits-absent are here: 'stl10' is not here"),
        (
            {"name": "digits-table", "datasets": ["digit"]},
            "digits-table has no data set 'digit': did you mean 'digits'",
        ),
        ({"name": "digits-table", "datasets": ["stl10"]}, "none of the data"),
        ({"name": "digits-table", "algorithms": ["ifca"]}, "digits-table has no method 'ifca'"),
        ({"name": "digits-table", "rounds_scale": 0}, "rounds scale 0 is not valid"),
        ({"name": "digits-table", "rounds_scale": 1.5}, "above 0, up to 1"),
        ({"name": "digits-table", "rounds_scale": float("nan")}, "rounds scale nan is not valid"),
        ({"name": "digits-table", "seeds": [0, 0]}, "different whole numbers"),
        ({"name": "digits-table", "seeds": []}, "different whole numbers"),
        ({"name": "digits-table", "seeds": [-1]}, "whole numbers from 0"),
        ({"name": "digits-table", "jobs": 0}, "at least one run"),
    ],
)
def test_bad_wishes(asked: dict[str, object], told: str, tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="(?s)" + __import__("re").escape(told)):
        reproduce(**asked, book=BOOK, out=tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_place_that_holds_something_else(tmp_path: Path, place: Path, table: Reproduction) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CoterieError, match="is a file: choose another out="):
        reproduce("digits-curves", book=BOOK, out=tmp_path / "file")
    with pytest.raises(CoterieError, match="holds a run"):
        reproduce("digits-curves", book=BOOK, out=next(place.glob("runs/*/seed-0")))

"""Trackers are told the rows of metrics.jsonl, once each, whatever happens to the run or to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.compare.design import Design
from coterie.compare.make_design import comparison_design
from coterie.errors import CoterieError
from coterie.results.run_folder import RunFolder
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.run.tracked import trackers_of
from coterie.testing import small_run
from coterie.tracking import Row, TrackedRun, make_tracker


class Noting(coterie.Tracker):
    """Notes all that it is told."""

    def __init__(self) -> None:
        self.runs: list[TrackedRun] = []
        self.before: list[Row] = []
        self.rows: list[Row] = []
        self.ends: list[Mapping[str, Any] | None] = []

    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        self.runs.append(run)
        self.before += rows

    def row(self, row: Row) -> None:
        self.rows.append(row)

    def end(self, result: Mapping[str, Any] | None) -> None:
        self.ends.append(result)


class Says(Progress):
    """Notes what is said, and may end a run."""

    def __init__(self, last: int | None = None) -> None:
        self.said: list[str] = []
        self.last = last

    def phase(self, text: str) -> None:
        self.said.append(text)

    def round(self, round: int, row: object) -> None:
        if round == self.last:
            raise KeyboardInterrupt


def test_a_tracker_is_told_the_rows_of_the_file_the_settings_and_the_result(tmp_path: Path) -> None:
    tracker = Noting()
    result = small_run("fedavg", out=str(tmp_path / "mine"), track=tracker)
    rows, _ = RunFolder(tmp_path / "mine").read_metrics()
    assert tracker.rows == rows == result.history
    assert tracker.ends == [result.to_json()]
    (run,) = tracker.runs
    assert (run.name, run.folder, run.settings["training.lr"]) == ("mine", tmp_path / "mine", 0.05)
    assert "partition.f_ord" not in run.settings  # what is not set
    assert not tracker.before


def test_a_function_is_told_the_rows_and_a_run_needs_no_folder() -> None:
    rows: list[Row] = []
    assert small_run("fedavg", track=rows.append).history == rows
    assert [row["round"] for row in rows] == [2, 4]


def test_a_run_that_goes_on_tells_each_row_once(tmp_path: Path) -> None:
    first, second = Noting(), Noting()
    with pytest.raises(KeyboardInterrupt):
        small_run("fedavg", out=str(tmp_path / "run"), track=first, progress=Says(last=3))
    assert first.ends == [None]
    result = coterie.resume(tmp_path / "run", track=[second])
    assert [*first.rows, *second.rows] == result.history
    assert second.before == first.rows
    assert second.ends == [result.to_json()]
    assert abs(second.runs[0].began - first.runs[0].began) < 60


def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    class Fails(coterie.Tracker):
        def row(self, row: Row) -> None:
            raise OSError("no space\nleft")

    progress, sound = Says(), Noting()
    result = small_run("fedavg", out=str(tmp_path / "run"), track=[Fails(), sound], progress=progress)
    assert sound.rows == result.history
    warnings = [text for text in progress.said if "Fails" in text]
    assert warnings == ["warning: Fails failed and is told nothing more, the run goes on (OSError: no space left)"]


@pytest.mark.parametrize(
    ("track", "message"),
    [
        ("tensorbord", "there is no tracker 'tensorbord': did you mean 'tensorboard'?"),
        ("mlflow:uri=http://x", "is no option of a tracker: write mlflow:folder=DIR"),
        ("mlflow:folder=3", "is no option of a tracker"),
    ],
)
def test_names_that_are_wrong_are_refused(track: str, message: str) -> None:
    with pytest.raises(CoterieError) as told:
        settings_to_config(None, {"track": track})
    assert message in str(told.value)


def test_what_is_no_tracker_is_refused() -> None:
    with pytest.raises(CoterieError, match="give a name, a function that takes a row, or an object"):
        small_run("fedavg", track=[3])
    with pytest.raises(CoterieError, match="track can't be 5: give a name"):
        small_run("fedavg", track=5)
    with pytest.raises(CoterieError, match="needs a run folder: add out=, or write wandb:folder=DIR"):
        small_run("fedavg", track="wandb")
    with pytest.raises(CoterieError, match="track takes names here"):
        coterie.compare(algorithms="fedavg,solo", track=[Noting()], dataset="digits")


def test_a_package_that_is_missing_is_told_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(CoterieError, match=r"pip install 'coterie\[wandb\]'"):
        coterie.run(dataset="digits", track="wandb", out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(CoterieError, match=r"coterie\[wandb\]"):
        make_tracker("wandb")


def test_tracking_changes_no_numbers(tmp_path: Path) -> None:
    small_run("fedavg", out=str(tmp_path / "run"))
    text = (config := tmp_path / "run" / "config.toml").read_text()
    assert "track = []" in text
    config.write_text(text.replace("track = []", 'track = ["tensorboard"]'))
    coterie.resume(tmp_path / "run")  # finished: nothing to do, and not refused


def test_runs_of_a_comparison_share_a_folder_wherever_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    design: Design = comparison_design({"run": {"track": ["mlflow:folder='a store'"]}}, "fedavg,solo", [0])
    tracks = {label: design.config(label, 0, Path("/x")).run.track for label in design.cells}
    assert tracks == {label: [f'mlflow:folder="{tmp_path / "a store"}"'] for label in ("fedavg", "solo")}
    assert design.base["run"]["track"] == tracks["solo"]


def test_a_tracker_that_is_named_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    monkeypatch.chdir(tmp_path)
    config, folder = settings_to_config(None, {"track": f"tensorboard:folder={tmp_path / 'a'}"}), RunFolder(tmp_path)
    mine = Noting()
    again = trackers_of(config, folder, ["tensorboard:folder=a", "tensorboard", mine])
    assert [type(tracker).__name__ for tracker in again] == ["TensorBoardTracker", "TensorBoardTracker", "Noting"]
    with pytest.raises(CoterieError, match="is no option of a tracker"):
        trackers_of(config, folder, ["mlflow:folder=3"])

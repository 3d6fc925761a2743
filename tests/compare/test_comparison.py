"""Comparisons and sweeps from Python: folders, tuning, failures, going on."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedavg import FedAvg
from coterie.compare import batch
from coterie.compare.batch import run_design
from coterie.compare.jobs import BatchProgress, RunJob
from coterie.compare.make_design import comparison_design
from coterie.errors import CoterieError
from coterie.results.comparisons import read_comparison
from coterie.results.display_names import display_name
from coterie.testing import outcome

SMALL: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 6, "fraction": 0.5, "rounds": 4, "epochs": 1, "eval_every": 2,
    "model": "mlp:hidden=16", "lr": 0.05,
}  # fmt: skip


class Counting(BatchProgress):
    """Remembers what happened to which run."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.bad: list[str] = []
        self.said: list[str] = []
        self.begun: tuple[int, int] = (0, 0)

    def begin(self, title: str, runs: int, finished: int) -> None:
        self.begun = runs, finished

    def note(self, text: str) -> None:
        self.said.append(text)

    def finished(self, job: RunJob, accuracy: Any) -> None:
        self.done.append(str(job))

    def failed(self, job: RunJob, why: str) -> None:
        self.bad.append(f"{job}: {why}")


def small(**settings: Any) -> coterie.Comparison:
    return coterie.compare(**{"algorithms": "fedavg,solo", "seeds": [0, 1], "jobs": 1} | SMALL | settings)


def files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("result.json")}


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> coterie.Comparison:
    return small(out=tmp_path_factory.mktemp("serial") / "c")


def without_times(comparison: coterie.Comparison) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != "seconds"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(json.loads(json.dumps(comparison.to_json())))


@pytest.mark.integration
def test_a_comparison_is_its_runs(serial: coterie.Comparison) -> None:
    """Each result is that of the same run by itself, and the table is made of these."""
    for label in ("fedavg", "solo"):
        for seed in (0, 1):
            alone = coterie.run(algorithm=label, seed=seed, **SMALL)
            assert outcome(serial.results[label][seed]) == outcome(alone)
    found = serial.table()["fedavg"].accuracy["L"]
    values = [serial.results["fedavg"][seed].accuracy["L"] for seed in (0, 1)]
    assert found is not None
    assert found.mean == pytest.approx(sum(v for v in values if v is not None) / 2)
    assert serial.folder is not None
    assert {path.name for path in serial.folder.iterdir()} == {
        *("comparison.toml", "comparison.json", "lock", "fedavg", "solo"),
        *("table.csv", "table.md", "table.tex", "table.txt"),
    }
    assert (serial.folder / "table.txt").read_text(encoding="utf-8") == serial.report()
    written = json.loads((serial.folder / "comparison.json").read_text())
    assert written == json.loads(json.dumps(serial.to_json())) | {"format": 1}


@pytest.mark.slow
def test_in_parallel_the_numbers_are_the_same(serial: coterie.Comparison, tmp_path: Path) -> None:
    progress = Counting()
    parallel = small(out=tmp_path / "c", jobs=2, progress=progress)
    assert without_times(parallel) == without_times(serial)
    assert sorted(progress.done) == ["fedavg, seed 0", "fedavg, seed 1", "solo, seed 0", "solo, seed 1"]
    assert progress.begun == (4, 0)


@pytest.mark.integration
def test_finished_runs_are_not_run_again_and_more_can_be_asked(serial: coterie.Comparison, tmp_path: Path) -> None:
    assert serial.folder is not None
    folder = tmp_path / "c"
    shutil.copytree(serial.folder, folder)
    before, progress = files(folder), Counting()
    again = small(out=folder, progress=progress)
    assert (progress.done, progress.begun, files(folder)) == ([], (4, 4), before)
    assert without_times(again) == without_times(serial)
    more = small(algorithms="ifca:groups=2,solo", seeds=[1, 2], out=folder, progress=progress, target="0.2")
    assert sorted(progress.done) == [f"{m}, seed {s}" for m, s in
        (("fedavg", 2), ("ifca:groups=2", 0), ("ifca:groups=2", 1), ("ifca:groups=2", 2), ("solo", 2))]  # fmt: skip
    assert list(more.results) == ["fedavg", "solo", "ifca:groups=2"]
    assert {name: stamp for name, stamp in files(folder).items() if name in before} == before
    assert more.results["fedavg"][0].targets[0]["value"] == 0.2  # from its metrics: it was run without a target
    assert without_times(coterie.Comparison.load(folder)) == without_times(more)


def test_without_a_folder_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = small(seeds=[0])
    assert found.folder is None
    assert found.results["solo"][0].history
    assert list(tmp_path.iterdir()) == []


def test_a_method_of_this_session_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS._items, "mine", type("Mine", (FedAvg,), {"__module__": "__main__"}))
    progress = Counting()
    found = small(algorithms="fedavg,mine", seeds=[0], jobs=None, progress=progress)
    assert found.results["mine"][0].accuracy == found.results["fedavg"][0].accuracy
    assert progress.said == ["method 'mine' is defined in this session: runs are made one after the other"]
    with pytest.raises(CoterieError, match="put it into a file"):
        small(algorithms="fedavg,mine", jobs=2)


@pytest.mark.integration
def test_one_failure_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = [True]

    class Broken(FedAvg):
        """Raises with seed 1."""

        def round(self, fed: Any, cohort: Any) -> None:
            if fed.seed == 1 and fed.round == 3 and broken[0]:
                raise RuntimeError("no more\nthan this")
            super().round(fed, cohort)

    monkeypatch.setitem(ALGORITHMS._items, "broken", Broken)
    progress = Counting()
    found = small(algorithms="fedavg,broken,solo", out=tmp_path / "c", progress=progress)
    assert found.failed == {("broken", 1): "RuntimeError: no more"}
    assert progress.bad == ["broken, seed 1: RuntimeError: no more"]
    assert {label: sorted(runs) for label, runs in found.results.items()} == {
        "fedavg": [0, 1], "broken": [0], "solo": [0, 1],
    }  # fmt: skip
    assert "broken, seed 1, failed: RuntimeError: no more" in found.report()
    trace = tmp_path / "c" / "broken" / "seed-1.error.txt"
    assert "in round" in trace.read_text()
    broken[0] = False  # mended: the run goes on where it was
    progress = Counting()
    mended = small(algorithms="fedavg,broken,solo", out=tmp_path / "c", progress=progress)
    assert (mended.failed, progress.done) == ({}, ["broken, seed 1"])
    assert mended.results["broken"][1].accuracy == mended.results["fedavg"][1].accuracy
    assert not trace.exists()


@pytest.mark.integration
def test_settings_are_chosen_on_validation_samples(tmp_path: Path) -> None:
    progress = Counting()
    tuned = small(
        algorithms="fedavg,solo:lr=0.02",
        seeds=[1],
        out=tmp_path / "c",
        tune={"lr": [0.0001, 0.05, 0.001]},
        progress=progress,
    )
    choice = tuned.tuned["fedavg"]
    assert choice.chosen == {"training.lr": 0.05}
    for tried, score in choice.scores:
        alone = coterie.run(**SMALL | {"lr": tried["training.lr"], "seed": 1, "validation": 0.2})
        assert score == alone.accuracy["L"]
    assert outcome(tuned.results["fedavg"][1]) == outcome(coterie.run(**SMALL | {"lr": 0.05, "seed": 1}))
    assert "solo:lr=0.02" not in tuned.tuned
    text = " ".join(tuned.report().split())
    assert "fedavg: training.lr = 0.05, chosen by L on 20% of each client's training samples, seed 1" in text
    assert "edge" in text
    assert "solo:lr=0.02: training.lr as set, not chosen." in text
    assert any(said.startswith("fedavg: training.lr = 0.05, chosen") for said in progress.said)
    assert len(progress.done) == 5
    progress = Counting()
    again = small(
        algorithms="fedavg,solo:lr=0.02",
        seeds=[1],
        out=tmp_path / "c",
        tune={"lr": [0.0001, 0.05, 0.001]},
        progress=progress,
    )
    assert progress.done == []
    assert without_times(again) == without_times(tuned) == without_times(coterie.Comparison.load(tmp_path / "c"))


@pytest.mark.integration
def test_what_has_no_score_can_not_be_chosen_by_it() -> None:
    found = small(algorithms="fedavg,solo", seeds=[0], protocol="C", tune={"lr": [0.05, 0.1]})
    assert found.failed == {("solo", 0): "no value of training.lr gave a C on validation samples"}
    assert list(found.results["fedavg"]) == [0]


@pytest.mark.integration
def test_a_sweep_is_its_runs() -> None:
    found = coterie.sweep(
        algorithm="pacfl", vary={"grouping.threshold": [1, 60], "training.lr": [0.05]}, seeds=[0], jobs=1,
        **{key: value for key, value in SMALL.items() if key != "lr"},
    )  # fmt: skip
    assert list(found.results) == ["threshold=1, lr=0.05", "threshold=60, lr=0.05"]
    groups = [row.groups.mean for row in found.table().rows if row.groups]
    assert groups == [6, 1]
    assert outcome(found.results["threshold=60, lr=0.05"][0]) == outcome(
        coterie.run(algorithm="pacfl", threshold=60, **SMALL)
    )
    assert found.report().splitlines()[2].split()[0] == "setting"


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_runs_go_on(serial: coterie.Comparison, tmp_path: Path, jobs: int) -> None:
    """A folder as kills leave it: one run finished, one without its result, one that had only begun, one empty."""
    assert serial.folder is not None
    folder = tmp_path / "c"
    shutil.copytree(serial.folder, folder)
    (folder / "fedavg" / "seed-1" / "result.json").unlink()
    shutil.rmtree(folder / "solo")
    (folder / "solo" / "seed-0").mkdir(parents=True)
    (folder / "solo" / "seed-0" / "lock").touch()
    (folder / "solo" / "seed-0" / "config.toml.part").write_text("[da")
    (folder / "solo" / "seed-1").mkdir()
    (folder / "comparison.json").unlink()
    before, progress = files(folder), Counting()
    assert without_times(small(out=folder, jobs=jobs, progress=progress)) == without_times(serial)
    assert sorted(progress.done) == ["fedavg, seed 1", "solo, seed 0", "solo, seed 1"]
    assert {name: stamp for name, stamp in files(folder).items() if name in before} == before


@pytest.mark.slow
def test_a_worker_that_dies_is_a_failed_run(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(
        "import os, coterie\nfrom coterie.algorithms.fedavg import FedAvg\n\n"
        '@coterie.algorithm("dying")\nclass Dying(FedAvg):\n    """Dies."""\n'
        "    def round(self, fed, cohort):\n        print('nobody reads this')\n        os.kill(os.getpid(), 9)\n"
    )
    found = small(algorithms="dying,fedavg", seeds=[0], jobs=2, out=tmp_path / "c", plugin=[str(tmp_path / "dying.py")])
    assert found.failed == {
        ("dying", 0): "its process was ended by SIGKILL: perhaps memory was short (nobody reads this)"
    }
    assert list(found.results["fedavg"]) == [0]
    ALGORITHMS._items.pop("dying")


def test_two_processes_do_not_share_a_folder(serial: coterie.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(batch, "PATIENCE", 0.2)
    assert serial.folder is not None
    with (serial.folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CoterieError, match="another process is working on"):
            small(out=serial.folder)


def test_a_design_of_ones_own(tmp_path: Path) -> None:
    """What `coterie reproduce` and others build on: any cells, one of them only if so wished."""
    from dataclasses import replace

    design = comparison_design(
        {"data": {"name": "digits", "clients": 5}, "training": {"rounds": 1, "epochs": 1}}, "fedavg,solo", [0]
    )
    design = replace(design, cells={"FedAvg, big steps": {"algorithm.name": "fedavg", "training.lr": 0.5}})
    found = run_design(design, tmp_path / "c", jobs=1)
    assert list(found.results) == ["FedAvg, big steps"]
    assert found.report()
    assert os.path.exists(tmp_path / "c" / "FedAvg-big-steps" / "seed-0" / "result.json")
    assert time.time() - (tmp_path / "c" / "comparison.json").stat().st_mtime < 600


@pytest.mark.integration
def test_load_and_pages_read_a_folder_alike(serial: coterie.Comparison, tmp_path: Path) -> None:
    """The same results, the same reasons of failures, and the same refusal of a run with another configuration."""
    assert serial.folder is not None
    folder = tmp_path / "c"
    shutil.copytree(serial.folder, folder)
    (folder / "solo" / "seed-1").rename(tmp_path / "elsewhere")
    (folder / "solo" / "seed-1.error.txt").write_text("Traceback\nMemoryError: too large\n")
    loaded, stored = coterie.Comparison.load(folder), read_comparison(folder)
    assert loaded.failed == stored.failed == {("solo", 1): "MemoryError: too large"}
    assert {label: [*runs] for label, runs in loaded.results.items()} == {"fedavg": [0, 1], "solo": [0]}
    assert loaded.table() == stored.table
    config = folder / "solo" / "seed-0" / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.05", "lr = 0.5"))
    for read in (coterie.Comparison.load, read_comparison):
        with pytest.raises(CoterieError, match=r"seed-0' holds a run with another configuration \(training.lr was 0.5"):
            read(folder)


@pytest.mark.integration
def test_a_notebook_shows_the_table_the_curves_and_the_runs(serial: coterie.Comparison) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    page, table = serial._repr_html_(), serial.table()
    for row in table.rows:
        spread = row.accuracy["L"]
        assert spread is not None
        assert row.label in page
        assert f"{100 * spread.mean:.2f}" in page
        assert f"{row.label} {100 * spread.mean:.1f} %" in repr(serial)
    axes = serial.plot()
    drawn = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
    last = {label: np.mean([run.history[-1]["L"] for run in runs.values()]) for label, runs in serial.results.items()}
    assert drawn == {display_name(label): pytest.approx(100 * mean) for label, mean in last.items()}
    pyplot.close("all")
    pytest.importorskip("pandas")
    frame = serial.to_frame()
    assert frame.index.tolist() == [(label, seed) for label, runs in serial.results.items() for seed in runs]
    assert frame["L"].tolist() == [run.accuracy["L"] for runs in serial.results.values() for run in runs.values()]

"""What trackers write is read back by the packages' own readers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from typer.main import get_command

import coterie
from coterie.cli.main import app
from coterie.results.run_folder import RunFolder
from coterie.testing import small_run
from coterie.tracking import TrackedRun, make_tracker, scalars

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


def cli(*args: str) -> str:
    done = CliRunner().invoke(get_command(app), list(args))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody tracked."""
    folder = tmp_path_factory.mktemp("runs") / "solo run"
    small_run("fedavg", out=str(folder))
    return folder


def expected(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """All numbers of the rows, by name: round and value."""
    series: dict[str, list[tuple[int, float]]] = {}
    for row in RunFolder(folder).read_metrics()[0]:
        for name, value in scalars(row).items():
            if name != "round":
                series.setdefault(name, []).append((row["round"], value))
    return series


# --------------------------------------------------------------------------------------------------- TensorBoard


def from_tensorboard(place: Path) -> tuple[dict[str, list[tuple[int, float]]], Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(place), size_guidance={"scalars": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in tags}, reader


def check_tensorboard(place: Path, folder: Path) -> None:
    read, reader = from_tensorboard(place)
    rows = {name: values for name, values in read.items() if not name.startswith("result/")}
    assert rows.keys() == expected(folder).keys()
    for name, values in expected(folder).items():
        assert [step for step, _ in rows[name]] == [step for step, _ in values]
        assert [value for _, value in rows[name]] == pytest.approx([value for _, value in values], rel=1e-6)
    accuracy = coterie.load(folder).accuracy  # type: ignore[union-attr]
    assert read["result/L"][0][1] == pytest.approx(accuracy["L"])
    settings = reader.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "training.lr = 0.05" in settings
    assert any("hparams" in name for name in reader.summary_metadata)


def test_tensorboard_reads_a_run_that_was_interrupted_and_one_that_is_over(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    folder = tmp_path / "run"

    class Ends(coterie.Progress):
        def round(self, round: int, row: object) -> None:
            if round == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_run("fedavg", out=str(folder), track="tensorboard", progress=Ends())
    assert [step for step, _ in from_tensorboard(folder / "tensorboard")[0]["L"]] == [2]
    coterie.resume(folder)
    check_tensorboard(folder / "tensorboard", folder)
    copied = shutil.copytree(finished, tmp_path / "copy")
    for _ in range(2):  # the second replaces the first
        assert "Tracked by tensorboard: copy" in cli("track", str(copied), "--to", "tensorboard")
        check_tensorboard(copied / "tensorboard", copied)
    other = shutil.copytree(finished, tmp_path / "elsewhere" / "copy")
    for _ in range(2):
        cli("track", str(copied), str(other), "--to", "tensorboard", "--folder", str(tmp_path / "both"))
    assert sorted(place.name for place in (tmp_path / "both").iterdir()) == ["copy", "copy-2"]  # two runs of one name
    check_tensorboard(tmp_path / "both" / "copy-2", other)
    small_run("fedavg", out=str(folder), overwrite=True)
    assert not (folder / "tensorboard").exists()


def test_runs_without_a_folder_do_not_replace_each_other(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    for round in (1, 2):
        tracker = make_tracker("tensorboard", tmp_path)
        tracker.begin(TrackedRun("fedavg-digits-seed0", {}, 0.0), [])
        tracker.row({"round": round, "seconds": 1.0, "L": 0.5})
        tracker.end(None)
    assert from_tensorboard(tmp_path / "fedavg-digits-seed0")[0]["L"] == [(1, 0.5)]
    assert from_tensorboard(tmp_path / "fedavg-digits-seed0-2")[0]["L"] == [(2, 0.5)]


# -------------------------------------------------------------------------------------------------------- MLflow


def mlflow_runs(place: Path) -> tuple[Any, list[Any]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{place / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("coterie")
    return client, sorted(client.search_runs([experiment.experiment_id]), key=lambda run: run.info.run_name)


def test_mlflow_reads_the_runs_of_a_comparison_from_one_store(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra 'mlflow' is not installed")
    out, store = tmp_path / "compared", tmp_path / "store"
    settings = {"dataset": "digits", "clients": 4, "rounds": 2, "epochs": 1, "eval_every": 1, "out": str(out)}
    coterie.compare(algorithms="fedavg,solo", seeds=[0], jobs=1, track=f"mlflow:folder={store}", **settings)  # type: ignore[arg-type]
    for again in (False, True):
        if again:  # in place of what is there
            cli("track", str(out), "--to", "mlflow", "--folder", str(store))
        client, runs = mlflow_runs(store)
        assert [run.info.run_name for run in runs] == ["fedavg/seed-0", "solo/seed-0"]
        for run in runs:
            assert run.info.status == "FINISHED"
            assert run.data.params["training.rounds"] == "2"
            folder = out / run.info.run_name
            for name, values in expected(folder).items():
                history = client.get_metric_history(run.info.run_id, name)
                assert sorted((metric.step, metric.value) for metric in history) == values
            assert run.data.metrics["result/L"] == coterie.load(folder).accuracy["L"]  # type: ignore[union-attr]


def test_mlflow_keeps_all_runs_that_have_no_folder(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra 'mlflow' is not installed")
    for folder in (None, None, tmp_path / "run", tmp_path / "run"):  # of those with one the second replaces the first
        tracker = make_tracker("mlflow", tmp_path)
        tracker.begin(TrackedRun("mine", {"training.lr": 0.1}, 0.0, folder), [])
        tracker.end(None)
    assert len(mlflow_runs(tmp_path)[1]) == 3


# ----------------------------------------------------------------------------------------------------------- W&B


def test_wandb_writes_an_offline_run(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="the extra 'wandb' is not installed")
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    for _ in range(2):  # the second replaces the first
        cli("track", str(finished), "--to", "wandb", "--folder", str(tmp_path))
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    store, rows, config, summary = DataStore(), [], set(), dict[str, str]()
    store.open_for_scan(str(file))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        match record.WhichOneof("record_type"):
            case "history":
                rows.append({item.nested_key[0]: json.loads(item.value_json) for item in record.history.item})
            case "run":
                config |= {item.key for item in record.run.config.update}
                assert record.run.display_name == "solo run"
            case "summary":
                summary |= {item.key: item.value_json for item in record.summary.update}
    store.close()
    told = [scalars(row) for row in RunFolder(finished).read_metrics()[0]]
    assert [{name: row[name] for name in expected} for row, expected in zip(rows, told, strict=True)] == told
    assert [row["_step"] for row in rows] == [2, 4]
    assert "training.lr" in config
    assert float(summary["result/L"]) == coterie.load(finished).accuracy["L"]  # type: ignore[union-attr]

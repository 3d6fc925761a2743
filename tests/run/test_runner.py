"""Runs from Python: folders, results, going on."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.native import available
from coterie.results.run_folder import RunFolder
from coterie.run.dry_run import estimate
from coterie.run.export import predict
from coterie.run.runner import start
from coterie.run.validation import make_config
from coterie.testing import SMALL, outcome, small_run

CONTRACT = [
    "algorithm", "data", "partition", "model", "seed", "rounds", "accuracy", "per_client", "groups", "true_groups",
    "ari", "grouping", "details", "memberships", "newcomers", "traffic", "targets", "seconds", "events", "trainer",
    "engine", "versions", "validation", "unadapted", "accuracy_by_true_group", "accuracy_group_mean",
    "measured", "measured_by_true_group", "privacy", "client_names", "class_names", "metric", "format",
]  # fmt: skip


def test_the_run_folder_holds_what_is_promised(tmp_path: Path) -> None:
    result = small_run("fedavg", out=str(tmp_path / "run"), target=["L=0.1"])
    content = json.loads((tmp_path / "run" / "result.json").read_text())
    assert list(content) == CONTRACT
    assert set(content["accuracy"]) == {"L", "C", "G", "plus", "W_max", "L_max", "L_best", "C_own", "C_lacking"}
    assert set(content["traffic"]) == {"up_bytes", "down_bytes", "by_kind", "by_client", "paper_megabits"}
    assert content["true_groups"] == [0, 1, 2, 3, 0, 1]
    assert (content["trainer"], content["engine"]) == ("native" if available() else "torch", "embedded")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [2, 4]
    assert {"L", "C", "G", "loss", "discrepancy", "groups", "up_bytes", "down_bytes"} <= set(rows[0])
    assert rows[-1]["L"] == result.accuracy["L"] == pytest.approx(np.mean(result.per_client["L"]))
    assert coterie.Result.load(tmp_path / "run").to_json() | {"format": 1} == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_named_by_the_file_that_did_not_fit(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics_file.symlink_to("/dev/full")
    with pytest.raises(OSError, match=re.escape(str(folder.metrics_file))):
        folder.append_metrics({"round": 1})


def test_the_folders_configuration_reruns_the_run(tmp_path: Path) -> None:
    first = small_run("fedavg", out=str(tmp_path / "run"))
    tables = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert outcome(start(make_config(tables), write=False)) == outcome(first)


def test_papers_megabits_follow_the_formula() -> None:
    parameters = 64 * 16 + 16 + 16 * 10 + 10
    assert small_run("fedavg").traffic["paper_megabits"] == pytest.approx(4 * 0.5 * 2 * 32 * parameters / 1e6)
    assert small_run("solo").traffic["paper_megabits"] == 0


@pytest.mark.integration
def test_solo_trains_for_the_stated_number_of_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.training.torch_trainer import TorchTrainer

    spent: list[int] = []
    plain = TorchTrainer.train
    monkeypatch.setattr(TorchTrainer, "train", lambda self, job: spent.append(job.plan.epochs) or plain(self, job))
    for settings, total in (
        ({"rounds": 4, "fraction": 0.5, "epochs": 3}, 6),
        ({"rounds": 4, "fraction": 0.1, "epochs": 3}, 3),  # round(1.2) is less than epochs
        ({"rounds": 7, "fraction": 0.5, "epochs": 1}, 4),  # round(3.5)
        ({"rounds": 4, "algorithm_options": {"epochs": 13}}, 13),
        ({"rounds": 4, "algorithm_options": {"epochs": 1}}, 1),
    ):
        spent.clear()
        small_run("solo", workers=1, trainer="torch", **settings)
        assert sum(spent) == 6 * total


@pytest.mark.integration
def test_solo_is_training_alone_from_the_common_start() -> None:
    """One epoch per round, each with fresh momentum: the same as the trainer called by hand."""
    from coterie.client import MemoryStore
    from coterie.federation.loop import rounds
    from coterie.models import initial
    from coterie.run.building import completed, load_data, make_plan, session
    from coterie.run.settings import settings_to_config
    from coterie.streams import stream
    from coterie.training import Job
    from coterie.training.torch_trainer import TorchTrainer

    config = settings_to_config(None, {**SMALL, "algorithm": "solo", "algorithm_options": {"epochs": 4}})
    data, store, trainer = load_data(config), MemoryStore(), TorchTrainer()
    with session(completed(config, data), data, store, trainer) as run:
        list(rounds(run.fed, run.algorithm, run.evaluator, every=0))
        spec = run.fed.spec
    part = data.train[data.train_parts[2]]
    params = initial(spec, 0)
    for t in range(1, 5):
        job = Job(spec, make_plan(config), params, data.normalise(part.x), part.y, stream(0, "train", 2, t))
        params = trainer.train(job).params
    kept = store.load(2, before=99)["model"]
    assert all(np.array_equal(params[name], kept[name]) for name in params)


@pytest.mark.integration
def test_estimates_count_steps_and_bytes_exactly() -> None:
    from coterie.run.settings import settings_to_config

    for method in ("fedavg", "solo"):
        guess = estimate(settings_to_config(None, {**SMALL, "algorithm": method}))
        real = small_run(method)
        assert guess.down_bytes == real.traffic["down_bytes"]
        # a reply holds the mean loss as text, so its length varies by a few bytes
        assert abs(guess.up_bytes - real.traffic["up_bytes"]) < 20 * 6 * 4
        assert guess.seconds > 0


@pytest.mark.integration
def test_predictions_use_the_clients_own_model_or_the_shared_one(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(tmp_path / "images.npz", x=digits.images[:50].astype(np.uint8), y=digits.target[:50])
    small_run("fedavg", dataset="digits", rounds=10, fraction=1.0, epochs=5, out=str(tmp_path / "run"))
    shared = predict(tmp_path / "run", tmp_path / "images.npz").labels
    made = predict(tmp_path / "run", tmp_path / "images.npz", client=2, out=tmp_path / "labels.npz")
    own, said = made.labels, made.summary
    assert (shared == digits.target[:50]).mean() > 0.7
    assert "client 2's own model" in said
    assert np.array_equal(np.load(tmp_path / "labels.npz")["y"], own)
    with pytest.raises(coterie.CoterieError, match="clients 0 to 5"):
        predict(tmp_path / "run", tmp_path / "images.npz", client=6)
    small_run("solo", dataset="digits", out=str(tmp_path / "alone"))
    with pytest.raises(coterie.CoterieError, match="name a client"):
        predict(tmp_path / "alone", tmp_path / "images.npz")
    assert len(predict(tmp_path / "alone", tmp_path / "images.npz", client=0).labels) == 50


@pytest.mark.integration
def test_the_report_has_a_table_and_a_picture(tmp_path: Path) -> None:
    result = small_run("fedavg", out=str(tmp_path / "run"))
    text = result.report()
    assert f"{100 * result.accuracy['L']:.2f}" in text
    assert (tmp_path / "run" / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    result = small_run("solo")
    assert "Picture" not in result.report()
    result.report(tmp_path / "solo.png")
    assert (tmp_path / "solo.png").exists()


def test_a_changed_configuration_is_not_resumed(tmp_path: Path) -> None:
    small_run("fedavg", out=str(tmp_path / "run"))
    (tmp_path / "run" / "result.json").unlink()
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.05", "lr = 0.06"))
    with pytest.raises(coterie.CoterieError, match=r"training.lr was 0.05, is 0.06"):
        coterie.resume(tmp_path / "run")

"""The layer study: alignments and angles of what clients' models make of the same inputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client import DiskStore
from coterie.errors import CoterieError
from coterie.similarity import linear_cka, principal_angles, signature
from coterie.streams import stream
from coterie.studies.layers import LayerStudy, study

QUICK: dict[str, Any] = {"dataset": "digits", "clients": 4, "rounds": 2, "epochs": 1, "fraction": 1.0, "lr": 0.05}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small runs: skewed labels, and iid ones."""
    folder = tmp_path_factory.mktemp("runs")
    for partition in ("iid", "label-skew:rho=0.3"):
        coterie.run(partition=partition, out=str(folder / partition[:3]), model="mlp:hidden=12", **QUICK)
    return {"iid": folder / "iid", "skew": folder / "lab"}


@pytest.fixture(scope="module")
def found(runs: dict[str, Path]) -> LayerStudy:
    return study([runs["iid"], runs["skew"]], inputs=40)


@pytest.mark.integration
def test_layers_are_what_the_networks_compute(runs: dict[str, Path], found: LayerStudy) -> None:
    """Here with NumPy alone, from the states on disk."""
    from coterie.results.run_folder import RunFolder
    from coterie.run.building import load_data
    from coterie.run.validation import read_run_config

    data = load_data(read_run_config(RunFolder.open(runs["skew"])))
    chosen = np.sort(stream(0, "layer inputs").permutation(len(data.test.y))[:40])
    x = data.normalise(data.test.x[chosen]).reshape(40, -1).astype(np.float64)
    hidden, outputs = [], []
    for client in range(4):
        model = DiskStore(runs["skew"] / "clients").load(client, before=99)["model"]
        hidden.append(x @ np.asarray(model["fc1.weight"]).T + model["fc1.bias"])
        outputs.append(np.maximum(hidden[-1], 0) @ np.asarray(model["fc2.weight"]).T + model["fc2.bias"])
    run = found.runs[1]
    assert run.layers == ["fc1", "fc2"]
    for k, made in enumerate((hidden, outputs)):
        direct = np.array([[linear_cka(a, b) for b in made] for a in made])
        assert run.matrices["cka"][k] == pytest.approx(direct, abs=1e-4)
        spans = [signature(each, 3) for each in made]
        assert run.matrices["theta1"][k] == pytest.approx(principal_angles(spans), abs=0.05)
        assert run.matrices["trace"][k] == pytest.approx(principal_angles(spans, measure="trace"), abs=0.3)
        assert run.matrices["sum_angles"][k] == pytest.approx(principal_angles(spans, measure="sum_angles"), abs=0.3)
        above = np.triu_indices(4, 1)
        assert run.means("cka")[k] == pytest.approx(direct[above].mean(), abs=1e-4)


@pytest.mark.integration
def test_skewed_labels_lead_models_apart(found: LayerStudy) -> None:
    iid, skew = found.runs
    assert skew.means("cka")[1] < iid.means("cka")[1]
    assert skew.means("sum_angles")[1] > iid.means("sum_angles")[1]
    assert iid.to_server is not None
    assert all(0 < alike <= 1 for alike in iid.to_server)
    told = json.loads((Path(iid.name) / "result.json").read_text(encoding="utf-8"))
    assert iid.accuracy is not None
    assert iid.accuracy["L"] == told["accuracy"]["L"]


@pytest.mark.integration
def test_files_and_table(found: LayerStudy, tmp_path: Path) -> None:
    written = {path.name for path in found.save(tmp_path)}
    assert written == {
        "layers.json",
        "means-cka.png",
        "means-theta1.png",
        "means-trace.png",
        "means-sum-angles.png",
        "cka.png",
    }
    assert f"{found.runs[0].means('cka')[0]:.3f}" in found.report()


def test_some_layers_may_be_named(runs: dict[str, Path]) -> None:
    found = study([runs["iid"]], layers="relu, fc1", inputs=10)
    assert found.runs[0].layers == ["relu", "fc1"]
    assert found.runs[0].inputs == 10


def test_clients_that_train_alone_have_no_model_at_the_server(tmp_path: Path) -> None:
    coterie.run(algorithm="solo", out=str(tmp_path / "solo"), **QUICK)
    assert study([tmp_path / "solo"], inputs=10).runs[0].to_server is None


def test_refusals_say_what_to_do(runs: dict[str, Path], tmp_path: Path) -> None:
    coterie.run(out=str(tmp_path / "one"), **(QUICK | {"clients": 1}))
    for arguments, options, message in (
        ([tmp_path], {}, "is not a run folder"),
        ([], {}, "name a run folder"),
        ([runs["iid"]], {"layers": "fc7"}, "the network has no layer 'fc7': did you mean 'fc"),
        ([runs["iid"]], {"layers": ","}, "--layers names none: write some of fc1, fc2"),
        ([runs["iid"]], {"inputs": 1}, "--inputs 1 should be at least 2"),
        ([tmp_path / "one"], {}, "one client has a model of its own: two at least must have trained"),
    ):
        with pytest.raises(CoterieError) as refused:
            study(arguments, **options)  # type: ignore[arg-type]
        assert message in str(refused.value)

"""What a client uses is exported whole: with its label offset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_export import logits

from coterie.errors import CoterieError
from coterie.run.export import export, load_exported, predict
from coterie.run.trained_models import find_model
from coterie.testing import small_run
from coterie.training import choose_trainer

PLUGIN = """
import torch
import coterie

class Scaled(torch.nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.fc = torch.nn.Linear(inputs, classes)

    def forward(self, x):
        return 2 * self.fc(x.flatten(1))

@coterie.model("scaled")
def scaled(shape, classes):
    inputs = 1
    for side in shape:
        inputs *= side
    return Scaled(inputs, classes)
"""


def labels(which: str) -> dict[str, Any]:
    """Settings of clients that lack labels."""
    return {"dataset": "digits", "partition": "label-skew:rho=0.3", "algorithm_options": {"labels": which}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    small_run("fedavg", **labels("served"), fraction=0.34, rounds=1, out=str(folder / "run"))
    np.savez(folder / "images.npz", x=np.random.default_rng(0).integers(0, 17, (50, 8, 8), dtype=np.uint8))
    return folder


def served(run: Path, images: Path, client: int) -> np.ndarray:
    """The logits that the run's own trainer gives, and the client's offset."""
    found = find_model(run, client)
    assert found.run.normalisation is not None
    x = found.run.normalisation(np.load(images)["x"].reshape(-1, 1, 8, 8))
    assert found.label_offset is not None
    outputs = choose_trainer("torch", found.run.spec).logits(found.run.spec, found.params, x)
    return np.asarray(outputs + found.label_offset)


def test_an_exported_model_is_the_served_one(place: Path) -> None:
    run, images = place / "run", place / "images.npz"
    whose = set()
    for client in range(6):
        path, told = export(run, place / f"client-{client}.safetensors", client=client)
        _, about = load_exported(path)
        whose.add(about["whose"].partition(str(client))[2])
        assert "(with its label offset)" in told
        wanted = served(run, images, client)
        assert logits(path, images) == pytest.approx(wanted, abs=1e-6 * float(np.abs(wanted).max()))
        made = predict(run, images, client=client)
        said, sentence = made.labels, made.summary
        assert np.array_equal(said, wanted.argmax(axis=1))
        assert "with its label offset" in sentence
        counts = find_model(run, client).run.label_counts(client)
        assert counts is not None
        assert [offset == 0 for offset in about["label_offset"]] == [count > 0 for count in counts]
    assert whose == {"'s own model (with its label offset)", " would receive (with its label offset)"}


def test_the_model_of_all_has_none(place: Path) -> None:
    path, told = export(place / "run", place / "all.safetensors")
    assert load_exported(path)[1]["label_offset"] is None
    assert "offset" not in told
    assert find_model(place / "run").label_offset is None


@pytest.mark.integration
def test_compact_and_onnx_have_it_too(place: Path) -> None:
    run, images = place / "run", place / "images.npz"
    path, _ = export(run, place / "compact.safetensors", client=0, smaller=True)
    wanted = served(run, images, 0)
    assert logits(path, images) == pytest.approx(wanted, abs=1e-5)
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    path, _ = export(run, place / "client.onnx", client=0, format="onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"x": np.load(images)["x"].astype(np.float32).reshape(-1, 1, 8, 8)})
    assert outputs == pytest.approx(wanted, abs=1e-4)
    said = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(said["label_offset"]) == find_model(run, 0).label_offset.tolist()  # type: ignore[union-attr]


@pytest.mark.integration
def test_a_network_that_does_not_end_in_a_bias_is_wrapped_or_refused(place: Path) -> None:
    plugin = place / "scaled_network.py"
    plugin.write_text(PLUGIN)
    run = place / "scaled"
    small_run("fedavg", **labels("served"), model="scaled", model_options={}, plugin=[str(plugin)], out=str(run))
    with pytest.raises(CoterieError, match=r"'scaled' does not end in a linear layer with a bias.*use --format onnx"):
        export(run, place / "x.safetensors", client=0, trust=True)
    export(run, place / "scaled.safetensors", trust=True)
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path, _ = export(run, place / "scaled.onnx", client=0, format="onnx", trust=True)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"x": np.load(place / "images.npz")["x"].astype(np.float32).reshape(-1, 1, 8, 8)})
    assert np.array_equal(outputs.argmax(axis=1), predict(run, place / "images.npz", client=0, trust=True).labels)
    assert torch.is_tensor(load_exported(place / "scaled.safetensors")[0].fc.bias)  # type: ignore[union-attr]


def test_without_the_labels_of_a_client_its_model_is_refused(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small_run("fedavg", **labels("both"), rounds=1, out=str(run))
    (run / "views.safetensors").unlink()
    with pytest.raises(CoterieError, match="offset for the labels that it has, but these are not known"):
        export(run, tmp_path / "x.safetensors", client=0)


def test_of_a_deployed_run_the_site_adds_it_itself(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small_run("fedavg", **labels("both"), rounds=1, out=str(run))
    (run / "sites.json").write_text('{"sites": {}}')  # as the server of a federation writes it
    found = find_model(run, 0)
    assert found.label_offset is None
    assert found.whose.endswith("(without the label offset, which the site adds itself)")

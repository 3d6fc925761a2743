"""Exported models predict what the run's do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

import coterie
from coterie.client import DiskStore
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.federation.journal import Journal
from coterie.messages import ModelSpec
from coterie.run.export import export, load_exported, predict
from coterie.run.trained_models import TrainedRun, find_model
from coterie.testing import small_run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two methods, and some images."""
    folder = tmp_path_factory.mktemp("exports")
    small_run("fedavg", out=str(folder / "fedavg"))
    small_run("pacfl", out=str(folder / "pacfl"), groups=2, clients=8)
    np.savez(folder / "images.npz", x=np.random.default_rng(0).integers(0, 17, (50, 8, 8), dtype=np.uint8))
    return folder


def logits(path: Path, images: Path) -> np.ndarray:
    """What a .safetensors file makes of raw images."""
    network, about = load_exported(path)
    x = np.load(images)["x"].astype(np.float32).reshape(-1, 1, 8, 8)
    known = about["normalise"]
    x = (x / known["scale"] - np.float32(known["mean"])) / np.float32(known["std"])
    with torch.inference_mode():
        return network(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize(
    ("run", "whose"), [("fedavg", {}), ("fedavg", {"client": 0}), ("pacfl", {"group": 1}), ("pacfl", {"client": 3})]
)
def test_safetensors_hold_the_model_and_say_what_it_is(place: Path, run: str, whose: dict[str, int]) -> None:
    path, told = export(place / run, place / "model.safetensors", overwrite=True, **whose)
    found = find_model(place / run, **whose)
    _, about = load_exported(path)
    assert about["whose"] == found.whose
    assert found.whose in told
    assert about["run"] == {"folder": run, "algorithm": run, "data": "digits-rotated", "seed": 0}
    if "group" not in whose:
        said = predict(place / run, place / "images.npz", client=whose.get("client")).labels
        assert np.array_equal(logits(path, place / "images.npz").argmax(axis=1), said)


@pytest.mark.integration
def test_onnx_takes_raw_images_any_number_of_them(place: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path, _ = export(place / "fedavg", format="onnx")
    assert path == place / "fedavg" / "model.onnx"
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    raw = np.load(place / "images.npz")["x"].astype(np.float32).reshape(-1, 1, 8, 8)
    (whole,) = session.run(None, {"x": raw})
    (one,) = session.run(None, {"x": raw[:1]})
    assert whole[:1] == pytest.approx(one, abs=1e-5)
    export(place / "fedavg", place / "same.safetensors")
    assert whole == pytest.approx(logits(place / "same.safetensors", place / "images.npz"), abs=1e-4)
    assert np.array_equal(whole.argmax(axis=1), predict(place / "fedavg", place / "images.npz").labels)


def test_compact_exports_are_smaller_and_say_the_same(place: Path) -> None:
    """Nothing is pruned here but one unit that we kill: the file holds a network of another width."""
    run = place / "pruned"
    small_run("fedavg", out=str(run))
    state = load_checkpoint(run / "checkpoint.safetensors")
    model = {name: value.copy() for name, value in state["algorithm"]["model"].items()}
    model["fc1.weight"][:10] = 0
    save_checkpoint(run / "checkpoint.safetensors", {**state, "algorithm": {"model": model}})
    plain, _ = export(run, place / "plain.safetensors")
    path, told = export(run, place / "compact.safetensors", smaller=True)
    assert "234 of" not in told
    assert "(widths 6 10)" in told
    assert path.stat().st_size < plain.stat().st_size
    assert logits(path, place / "images.npz") == pytest.approx(logits(plain, place / "images.npz"), abs=1e-5)


def test_refusals(place: Path, tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="several models: name a client, for instance --client 0"):
        export(place / "pacfl")
    with pytest.raises(CoterieError, match="no model of a group 9: it has groups 0, 1"):
        export(place / "pacfl", group=9)
    with pytest.raises(CoterieError, match="no model of a group 0: it has none"):
        export(place / "fedavg", group=0)
    with pytest.raises(CoterieError, match="exclude each other"):
        export(place / "pacfl", group=0, client=0)
    with pytest.raises(CoterieError, match="no client 77"):
        export(place / "pacfl", client=77)
    (tmp_path / "x.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CoterieError, match="can't be read as safetensors"):
        load_exported(tmp_path / "x.safetensors")


def test_a_flipped_bit_in_an_exported_model_is_refused(place: Path, tmp_path: Path) -> None:
    path, _ = export(place / "fedavg", tmp_path / "model.safetensors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(CoterieError, match=r"model\.safetensors.*not those that were written.*export it again"):
        load_exported(path)


@pytest.mark.parametrize("about", [
    "7", "[]", "{}", "[" * 10**5, '{"architecture": 7}', '{"architecture": [["0"]]}',
    '{"architecture": [[1, "Linear"]]}',
    '{"architecture": [["0", "Linear", 1000000000, 1000000000, true]]}', '{"architecture": null}',
    '{"architecture": null, "model": {"name": ["mlp"]}}',
    '{"architecture": null, "model": {"name": "mlp", "shape": 8, "classes": 10, "options": {}}}',
    '{"architecture": null, "model": {"name": "mlp", "shape": [8], "classes": 10, "options": {"hidden": "x"}}}',
    '{"architecture": null, "model": {"name": "mlp", "shape": [8], "classes": 10, "options": {"hidden": 2000000000}}}',
    '{"architecture": null, "model": {"name": "mlp", "shape": [8], "classes": 10, "options": {"no": 4}}}',
])  # fmt: skip
def test_a_file_that_describes_no_network_is_refused(about: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"w": torch.zeros(2)}, metadata={"coterie": about}))
    with pytest.raises(CoterieError, match=r"is damaged|can't be read|option") as error:
        load_exported(path)
    assert "\n" not in str(error.value)


def damage_state(change: Callable[[dict[str, Any]], Any], source: Path, folder: Path) -> None:
    """Copy a run in which no client has a state, and change what is in its checkpoint, with digests that are right."""
    shutil.copytree(source, folder)
    state = load_checkpoint(folder / "checkpoint.safetensors")
    state["journal"] = Journal(folder / "journal.jsonl").mark
    change(state)
    save_checkpoint(folder / "checkpoint.safetensors", state)


def of_another_network(state: dict[str, Any]) -> None:
    name, value = next(iter(state["algorithm"]["model"].items()))
    state["algorithm"]["model"] = {**state["algorithm"]["model"], name: np.zeros((*value.shape, 2), np.float32)}


@pytest.mark.parametrize(
    ("run", "change"),
    [
        ("fedavg", of_another_network),
        ("fedavg", lambda state: state["algorithm"]["model"].popitem()),
        ("fedavg", lambda state: state["algorithm"].update(model="none")),
        ("fedavg", lambda state: state.update(normalise={"scale": 1.0})),
        ("fedavg", lambda state: state.update(journal={})),
        ("fedavg", lambda state: state.update(spec=ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 2**40}))),
        ("fedavg", lambda state: state.update(spec=ModelSpec("mlp", (1, -8, 8), 10))),
        ("pacfl", lambda state: state["algorithm"].update(member=dict.fromkeys(range(9), 99))),
    ],
)
def test_a_checkpoint_that_somebody_made_up_is_refused_in_a_sentence(
    run: str, change: Callable[[dict[str, Any]], Any], place: Path, tmp_path: Path
) -> None:
    damage_state(change, place / run, tmp_path / "run")
    with pytest.raises(CoterieError, match=r"checkpoint .*(is damaged|can't be restored)"):
        find_model(tmp_path / "run", client=0)


def test_a_state_of_another_network_is_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "fedavg", tmp_path / "run")
    trained = TrainedRun.open(tmp_path / "run")
    client, (round, _) = next(iter(trained.journal.states.items()))
    DiskStore(tmp_path / "run" / "clients").save(client, round, {"model": {"w": np.zeros(3, np.float32)}})
    store = DiskStore(tmp_path / "run" / "clients")
    trained.journal.states[client] = round, store._read(client, round)[1]
    with pytest.raises(CoterieError, match=rf"the state of client {client} in .* is not that of the network"):
        trained.own_model(client)


def test_the_format_is_that_of_the_name(tmp_path: Path) -> None:
    result = small_run("fedavg")
    assert coterie.export(result, tmp_path / "m.onnx").read_bytes()[:1] == b"\x08"  # a field of protobuf
    with pytest.raises(CoterieError, match=r"m\.onnx' is called onnx, but asked for as safetensors"):
        coterie.export(result, tmp_path / "m.onnx", format="safetensors", overwrite=True)
    with pytest.raises(CoterieError, match=r"can't be written as 'onx': choose one of safetensors, onnx"):
        coterie.export(result, tmp_path / "m.bin", format="onx")  # type: ignore[arg-type]


def test_a_page_does_not_take_the_place_of_another_file(tmp_path: Path) -> None:
    small_run("fedavg", rounds=1, out=str(tmp_path / "run"))
    (tmp_path / "thesis.html").write_text("mine")
    with pytest.raises(CoterieError, match="is there already"):
        coterie.report(tmp_path / "run", out=tmp_path / "thesis.html")
    assert (tmp_path / "thesis.html").read_text() == "mine"
    assert coterie.report(tmp_path / "run", out=tmp_path / "thesis.html", overwrite=True).stat().st_size > 1000

"""`coterie predict`: what it answers, and what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, cli, refusal
from PIL import Image
from sklearn.datasets import load_digits

from coterie.run import recorder as journal


@pytest.fixture(autouse=True)
def images(place: Path) -> Path:
    digits = load_digits()
    np.savez(place / "images.npz", x=digits.images[:20].astype(np.uint8), y=digits.target[:20])
    return place / "images.npz"


@pytest.fixture
def solo(place: Path, finished_runs: dict[str, Path]) -> Path:
    return Path(shutil.copytree(finished_runs["solo"], place / "solo"))


def test_labels_go_to_standard_output_and_a_sentence_to_the_other(finished: Path, images: Path) -> None:
    answer = cli("predict", "run", "images.npz")
    assert answer.code == 0
    labels = [int(line) for line in answer.out.splitlines()]
    assert len(labels) == 20
    agree = 100 * np.mean(np.array(labels) == np.load(images)["y"])
    assert answer.err == (
        f"20 predictions by the model of all clients, after round 4; {agree:.2f} % agree with the labels in the file\n"
    )


def test_a_client_uses_its_own_model(finished: Path, solo: Path) -> None:
    assert "client 3's own model" in cli("predict", "run", "images.npz", "--client", "3").err
    assert "client 0's own model" in cli("predict", "solo", "images.npz", "--client", "0").err


@pytest.mark.parametrize("name", ["labels.npz", "labels"])
def test_predictions_are_written_where_it_says(name: str, finished: Path, place: Path) -> None:
    shown = cli("predict", "run", "images.npz").out
    answer = cli("predict", "run", "images.npz", "--out", name)
    assert (answer.code, answer.out) == (0, "")
    written = Path(answer.err.rpartition("written to ")[2].strip())
    assert written.is_file()
    assert [str(label) for label in np.load(written)["y"]] == shown.split()


@pytest.mark.integration
def test_a_group_uses_its_model() -> None:
    """By the word that export has for it, too, and by its old one."""
    cli("run", *SMALL, "--algorithm", "pacfl:count=2", "--out", "pacfl", "--quiet")
    assert "the model of group 0" in cli("predict", "pacfl", "images.npz", "--group", 0).err
    assert "the model of group 1" in cli("export", "pacfl", "--group", 1).out
    assert "the model of group 1" in cli("export", "pacfl", "--cluster", 1, "--overwrite").out


def test_images_of_another_size_are_resized_on_request(place: Path, finished: Path) -> None:
    photos = place / "photos"
    photos.mkdir()
    for name, size in (("a", (8, 8)), ("b", (20, 12))):
        Image.new("L", size, 100).save(photos / f"{name}.png")
    assert "b.png is 20 x 12, but a.png is 8 x 8: add --resize" in refusal(cli("predict", "run", "photos"))
    assert "(1, 12, 20), but the network was trained on (1, 8, 8): add --resize" in refusal(
        cli("predict", "run", "photos/b.png")
    )
    one, other = (line.split()[1] for line in cli("predict", "run", "photos", "--resize").out.splitlines())
    assert one == other  # both are of one shade


@pytest.mark.parametrize("client", [-1, 6, 1000])
def test_a_client_that_is_not_there(client: int, finished: Path) -> None:
    message = refusal(cli("predict", "run", "images.npz", "--client", client))
    assert f"no client {client}" in message
    assert "0 to 5" in message


def test_no_client_where_every_client_has_its_own(solo: Path) -> None:
    assert "--client" in refusal(cli("predict", "solo", "images.npz"))


WRONG = {
    "another shape": ({"x": np.zeros((3, 9, 9), np.uint8)}, ["(1, 9, 9)", "(1, 8, 8)"]),
    "vectors": ({"x": np.zeros((3, 64), np.uint8)}, ["(64,)", "(1, 8, 8)"]),
    "no inputs": ({"z": np.zeros((3, 8, 8), np.uint8)}, ["'x'", "z"]),
    "NaN": ({"x": np.full((3, 8, 8), np.nan)}, ["x", "NaN"]),
    "more labels than inputs": ({"x": np.zeros((3, 8, 8), np.uint8), "y": np.zeros(4, int)}, ["3 inputs", "(4,)"]),
    "Python objects": ({"x": np.array([None] * 3)}, ["'x'", "objects"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs(case: str, finished: Path, place: Path) -> None:
    arrays, named = WRONG[case]
    np.savez(place / "wrong.npz", **arrays)
    message = refusal(cli("predict", "run", "wrong.npz", "--out", "labels.npz"))
    assert [name for name in [*named, "wrong.npz"] if name not in message] == []
    assert not (place / "labels.npz").exists()


def test_files_that_are_missing_or_damaged(finished: Path, place: Path, images: Path) -> None:
    (place / "cut.npz").write_bytes(images.read_bytes()[:500])
    assert "'missing.npz'" in refusal(cli("predict", "run", "missing.npz"))
    assert "cut.npz" in refusal(cli("predict", "run", "cut.npz"))
    assert "nowhere/labels.npz" in refusal(cli("predict", "run", "images.npz", "--out", "nowhere/labels.npz"))


def test_of_what_is_not_a_run(place: Path) -> None:
    assert "'nowhere' is not a run folder: it does not exist" in refusal(cli("predict", "nowhere", "images.npz"))
    Path("now-here").mkdir()
    assert "it does not exist; did you mean 'now-here'?" in refusal(cli("predict", "nowhere", "images.npz"))
    assert "'.' is not a run folder" in refusal(cli("predict", ".", "images.npz"))


def test_of_a_run_without_checkpoint(unfinished: Path) -> None:
    (unfinished / "checkpoint.safetensors").unlink()
    message = refusal(cli("predict", "run", "images.npz"))
    assert "no checkpoint" in message
    assert "coterie resume run" in message


def test_of_a_damaged_checkpoint_or_state(finished: Path, solo: Path) -> None:
    (finished / "checkpoint.safetensors").write_bytes(b"junk")
    assert "checkpoint" in refusal(cli("predict", "run", "images.npz"))
    for state in (solo / "clients").glob("*/*"):
        state.write_bytes(b"junk")
    assert "state of client 0" in refusal(cli("predict", "solo", "images.npz", "--client", "0"))


def test_what_was_trained_counts_not_what_config_toml_says_since(finished: Path) -> None:
    before = cli("predict", "run", "images.npz")
    file = finished / "config.toml"
    text = file.read_text(encoding="utf-8").replace("clients = 6", "clients = 9").replace('"fedavg"', '"solo"')
    file.write_text(text, encoding="utf-8")
    assert cli("predict", "run", "images.npz") == before
    assert "0 to 5" in refusal(cli("predict", "run", "images.npz", "--client", "8"))


def test_of_a_run_that_was_killed_in_a_round_use_the_one_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients trained in the lost attempt is not yet part of the run."""
    save = journal.save_checkpoint
    monkeypatch.setattr(
        journal, "save_checkpoint", lambda path, state, *more: state["round"] < 4 and save(path, state, *more)
    )
    assert cli("run", *SMALL, "--fraction", "1", "--out", "run", "--quiet").code == 0
    (place / "run" / "result.json").unlink()
    np.savez(place / "all.npz", x=load_digits().images.astype(np.uint8))
    killed = cli("predict", "run", "all.npz", "--client", "0")
    assert "after round 3" in killed.err
    (place / "run" / "clients" / "0" / "4.safetensors").unlink()
    assert cli("predict", "run", "all.npz", "--client", "0") == killed


def test_predictions_as_a_table(finished: Path) -> None:
    printed = cli("predict", "run", "images.npz").out.split()
    assert cli("predict", "run", "images.npz", "--out", "labels.csv").code == 0
    assert Path("labels.csv").read_text().split() == ["prediction", *printed]
    assert "written as .npz or .csv: 'labels.txt'" in refusal(
        cli("predict", "run", "images.npz", "--out", "labels.txt")
    )

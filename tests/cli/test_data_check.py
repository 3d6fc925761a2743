"""`coterie data check`: what it says of data, and that what it suggests works."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import cli, refusal
from PIL import Image

FEW = ["--rounds", "1", "--epochs", "1", "--quiet"]


@pytest.fixture
def photos(place: Path) -> Path:
    """Images of two sizes, of a cat above and of a dog below, in a folder whose name has a space."""
    rng = np.random.default_rng(0)
    for number in range(40):
        side, animal = (8, 10)[number % 2], ("cat", "dog")[number // 2 % 2]
        image = rng.integers(0, 60, (side, side), dtype=np.uint8)
        image[slice(None, side // 2) if animal == "cat" else slice(side // 2, None)] += 150
        (place / "my photos" / animal).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / "my photos" / animal / f"{number:02}.png")
    return place / "my photos"


def test_classes_are_counted_by_name(place: Path, arrays: dict[str, Any], save: Callable[..., Path]) -> None:
    names = np.array(["rye", "wheat", "oat"])
    save(y_train=names[arrays["y_train"]], y_test=names[arrays["y_test"]])
    answer = cli("data", "check", "own.npz")
    assert (answer.code, answer.err) == (0, "")
    assert "training samples by class: oat: 20, rye: 20, wheat: 20" in answer.out
    save(y_train=arrays["y_train"] * 2, y_test=arrays["y_test"] * 2)
    gaps = cli("data", "check", "own.npz")
    assert "0: 20, 1: 0, 2: 20, 3: 0, 4: 20" in gaps.out
    assert gaps.err.startswith("coterie: no training sample is of class 1, 3: number the classes without gaps")


@pytest.mark.integration
def test_what_it_suggests_works(photos: Path, arrays: dict[str, Any], save: Callable[..., Path]) -> None:
    """A path with a space, an option, users, and less data than the usual number of clients needs."""
    save("few.npz")
    save("users.npz", user_train=np.arange(60) % 3)
    for checked, clients in (("my photos:size=8", 2), ("few.npz", 2), ("users.npz", 3)):
        command = cli("data", "check", checked).out.rpartition("It fits: coterie ")[2]
        answer = cli(*shlex.split(command), *FEW, "--print-config")
        assert answer.code == 0, answer.err
        estimate = cli(*shlex.split(command), "--dry-run")
        assert f"{clients} clients" in estimate.out


def test_images_of_several_sizes(photos: Path) -> None:
    for arguments in (["data", "check", "my photos"], ["run", "--dataset", "my photos"]):
        answer = cli(*arguments)
        assert answer.code == 2
        assert "give the option size to bring all to one size, as in FOLDER:size=32" in answer.err.splitlines()[-1]
    assert "inputs of 1 x 8 x 8" in cli("data", "check", "my photos:size=8").out


@pytest.mark.integration
def test_a_model_predicts_names_for_a_folder_of_images(photos: Path, place: Path) -> None:
    ran = cli("run", "--dataset", "my photos:size=8", "--rounds", "6", "--epochs", "3", "--lr", "0.1", "--out", "run")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("my photos, 2 clients")  # by name: where it lies is nobody's business
    assert str(place) not in ran.out.replace(str(place / "run"), "") + ran.err
    answer = cli("predict", "run", "my photos")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert [file for file, _ in rows] == sorted(str(p.relative_to(photos)) for p in photos.rglob("*.png"))
    right = np.mean([Path(file).parent.name == label for file, label in rows])
    assert right > 0.9
    assert f"{100 * right:.2f} % agree with the folders that they are in" in answer.err
    assert cli("predict", "run", photos / "dog" / "02.png").out == "02.png\tdog\n"
    assert cli("predict", "run", "my photos", "--out", "labels.npz").code == 0
    written = np.load("labels.npz")
    assert [written["class_names"][label] for label in written["y"]] == [label for _, label in rows]
    (place / "empty").mkdir()
    assert "there are no images below 'empty'" in refusal(cli("predict", "run", "empty"))

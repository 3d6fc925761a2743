"""Data that are wrong: refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SMALL, cli, refusal, tree

SHORT = ["--clients", "4", "--rounds", "2", "--epochs", "1", "--eval-every", "1"]

Arrays = dict[str, Any]


def _nan(arrays: Arrays) -> Arrays:
    pixels = arrays["x_train"].astype(np.float32)
    pixels[5, 0, 0] = np.nan
    return {"x_train": pixels, "x_test": arrays["x_test"].astype(np.float32)}


# How the arrays differ from correct ones, and what the message must name.
WRONG: dict[str, tuple[Callable[[Arrays], Arrays], list[str]]] = {
    "labels from 1": (
        lambda a: {"y_train": a["y_train"] + 1, "y_test": a["y_test"] + 1},
        ["y_train", "start at 1", "must start at 0", "subtract 1"],
    ),
    "labels below 0": (lambda a: {"y_train": a["y_train"] - 1}, ["y_train", "-1", "start at 0"]),
    "NaN pixels": (_nan, ["x_train", "1 of 60", "NaN", "sample 5"]),
    "fewer labels than images": (lambda a: {"y_train": a["y_train"][:50]}, ["x_train", "60", "y_train", "50"]),
    "smaller test images": (lambda a: {"x_test": a["x_test"][:, :7]}, ["(8, 8)", "(7, 8)", "x_train", "x_test"]),
    "images of five dimensions": (lambda a: {"x_train": np.zeros((60, 1, 1, 8, 8))}, ["x_train", "(60, 1, 1, 8, 8)"]),
    "an unknown class in the test part": (lambda a: {"y_test": a["y_test"] + 7}, ["y_test", "9", "0 to 2"]),
    "Python objects": (lambda a: {"y_train": np.array([None] * 60)}, ["'y_train'", "objects", "numbers"]),
    "no samples": (lambda a: {"x_train": a["x_train"][:0], "y_train": a["y_train"][:0]}, ["x_train", "empty"]),
}  # fmt: skip


def test_numbers_with_fractions_are_not_taken_for_labels(arrays: Arrays, save: Callable[..., Path]) -> None:
    save(y_train=arrays["y_train"] / 2)
    message = refusal(cli("run", "--dataset", "own.npz", *SHORT))
    assert [said for said in ("data set 'own'", "--metric mae", "whole numbers") if said not in message] == []


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arrays_are_refused(case: str, place: Path, arrays: Arrays, save: Callable[..., Path]) -> None:
    change, named = WRONG[case]
    save(**change(arrays))
    before = tree(place)
    message = refusal(cli("run", "--dataset", "own.npz", *SHORT, "--out", "x"))
    assert [name for name in [*named, "own.npz"] if name not in message] == []
    assert tree(place) == before


@pytest.mark.parametrize("damage", ["cut short", "garbled", "another format", "empty", "other arrays"])
def test_a_damaged_file_is_refused(damage: str, place: Path, save: Callable[..., Path]) -> None:
    path = save()
    content = path.read_bytes()
    match damage:
        case "cut short":
            path.write_bytes(content[: len(content) // 2])
        case "garbled":
            path.write_bytes(content[:300] + b"\xff" * 40 + content[340:])
        case "another format":
            path.write_text("1,2,3\n")
        case "empty":
            path.write_bytes(b"")
        case "other arrays":
            np.savez(path, images=np.zeros((3, 8, 8)))
    before = tree(place)
    message = refusal(cli("run", "--dataset", "own.npz", *SHORT, "--out", "x"))
    assert "own.npz" in message
    assert ("x_train" if damage == "other arrays" else "damaged") in message
    assert tree(place) == before


@pytest.mark.parametrize("dataset", ["digits", "digits-rotated", "own.npz"])
def test_more_clients_than_samples_are_refused(dataset: str, place: Path, save: Callable[..., Path]) -> None:
    save()
    before = tree(place)
    message = refusal(cli("run", "--dataset", dataset, "--clients", "1800", "--out", "x"))
    samples = "57" if dataset == "own.npz" else "1707"
    assert [name for name in ("1800", Path(dataset).stem, samples) if name not in message] == []
    assert tree(place) == before


def test_a_partition_that_leaves_a_label_out_is_refused(place: Path) -> None:
    message = refusal(cli("run", "--partition", "label-skew:rho=0.1", "--clients", "3", "--out", "x"))
    assert [name for name in ("label-skew", "rho = 0.1", "3 clients", "at least 10") if name not in message] == []
    assert tree(place) == {}


class TestAModelThatDoesNotFitTheData:
    """LeNet-5 wants images; that the inputs are vectors is known once they are read, before anything is written."""

    @pytest.fixture
    def flags(self, save: Callable[..., Path]) -> list[str]:
        save(x_train=np.zeros((60, 5), np.float32), x_test=np.zeros((12, 5), np.float32))
        return ["run", "--dataset", "own.npz", "--model", "lenet5", *SHORT]

    def test_is_refused_and_leaves_no_folder(self, flags: list[str], place: Path) -> None:
        before = tree(place)
        message = refusal(cli(*flags, "--out", "x"))
        assert [name for name in ("'lenet5'", "(5,)", "'mlp'") if name not in message] == []
        assert tree(place) == before

    def test_does_not_cost_the_run_that_was_to_be_overwritten(self, flags: list[str], finished: Path) -> None:
        before = tree(finished)
        refusal(cli(*flags, "--out", "run", "--overwrite"))
        assert tree(finished) == before


def test_a_path_below_home_is_found_again(
    place: Path, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--dataset=~/own.npz` reaches us with its tilde: the shell leaves it there."""
    path = save()
    monkeypatch.setenv("HOME", str(place))
    assert cli("run", "--dataset=~/own.npz", *SHORT, "--out", "x", "--quiet").code == 0
    assert f'name = "{path}"' in (place / "x" / "config.toml").read_text()


def test_real_digits_are_no_mistake(place: Path) -> None:
    assert cli("run", *SMALL, "--out", "x", "--quiet").code == 0

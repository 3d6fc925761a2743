"""Plays by role, from arrays or plain text."""

from pathlib import Path

import numpy as np
import pytest

from coterie.data import load, read, recognise
from coterie.data.text import ALPHABET
from coterie.errors import CoterieError

SPEECHES = [
    ("First Citizen", "Before we proceed any further, hear me speak.\nWe are accounted poor citizens. " * 3),
    ("All", "Speak, speak."),
    ("First Citizen", "You are all resolved rather to die than to famish? And so on, and on."),
    ("MENENIUS", "What work's, my countrymen, in hand? where go you\nWith bats and clubs? " * 4),
]
TEXTS = [
    "\n".join(text.strip() for who, text in SPEECHES if who == role) for role in ("First Citizen", "MENENIUS", "All")
]


def write_plays(path: Path) -> Path:
    speeches = [f"{role}:\n{text.strip()}" for role, text in SPEECHES]
    path.write_text("\n\n".join(["TITUS:", *speeches[:2], "All:", *speeches[2:], "TITUS:\n"]))  # some say nothing
    return path


def write_roles(path: Path) -> Path:
    text = np.frombuffer("".join(TEXTS).encode(), np.uint8)
    np.savez(path, text=text, role_off=np.cumsum([0, *map(len, TEXTS)]), role_names=np.array(["a", "b", "c"]))
    return path


def windows(text: str, stride: int) -> list[tuple[str, str]]:
    return [(text[start : start + 80], text[start + 80]) for start in range(0, len(text) - 80, stride)]


@pytest.mark.parametrize("stride", [1, 7])
@pytest.mark.parametrize(
    ("write", "name", "format"), [(write_plays, "input.txt", "plays"), (write_roles, "r.npz", "roles")]
)
def test_windows_and_the_letter_after(tmp_path: Path, write, name: str, format: str, stride: int) -> None:
    path = write(tmp_path / name)
    assert recognise(path).format == format
    data = read(path, min_characters=100, stride=stride)
    assert (data.name, data.shape, data.classes, data.test) == ("shakespeare", (80,), 80, None)
    expected = [windows(text, stride) for text in TEXTS if len(text) >= 100]
    shown = [("".join(ALPHABET[n] for n in x), ALPHABET[y]) for x, y in zip(data.train.x, data.train.y, strict=True)]
    assert shown == [window for of_role in expected for window in of_role]
    assert data.users is not None
    assert np.bincount(data.users).tolist() == [len(of_role) for of_role in expected]


def test_a_text_with_colons_is_not_a_play(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Notes\n\nTo do:\nmany things\n\nWe are here.\n\nDone:\nnothing\n")
    with pytest.raises(CoterieError, match="is not a data set"):
        recognise(tmp_path / "notes.md")


def test_too_short_roles_are_left_out_and_all_may_not_be(tmp_path: Path) -> None:
    path = write_roles(tmp_path / "r.npz")
    with pytest.raises(CoterieError, match=r"no role with 1000 characters: choose a smaller min_characters"):
        read(path)
    with pytest.raises(CoterieError, match=r"min_characters = 80 is not valid"):
        read(path, min_characters=80)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (np.zeros(200, np.uint8), np.array([0, 100, 300])),
        (np.zeros(200, np.uint8), np.array([0, 150, 100])),
        (np.zeros(200, np.uint8), np.array([0.0, 100.0])),
        (np.zeros(200, np.uint8), np.array([0])),
        (np.zeros(200, np.float32), np.array([0, 100])),
        (np.zeros(200, np.uint8), np.array([-5, 100])),
    ],
)
def test_offsets_that_do_not_fit_are_refused(tmp_path: Path, text: np.ndarray, ends: np.ndarray) -> None:
    np.savez(tmp_path / "r.npz", text=text, role_off=ends)
    with pytest.raises(CoterieError, match=r"role_off must say where in text"):
        read(tmp_path / "r.npz")


def test_the_real_roles_are_clients(real: Path) -> None:
    if not (real / "shakespeare_roles.npz").is_file():
        pytest.skip(f"no shakespeare_roles.npz in {real}")
    data = load("shakespeare", clients=141, seed=1)  # as many as have 1000 characters
    assert (data.clients, data.classes, data.shape) == (141, 80, (80, 80))
    assert not data.common_test
    with np.load(real / "shakespeare_roles.npz") as file:
        longest = file["text"][: file["role_off"][1]].tobytes().decode()
    whole = read(real / "shakespeare_roles.npz", stride=1)
    assert "".join(ALPHABET[n] for n in whole.train.x[0]) == longest[:80]
    assert len(whole.train) > 800_000

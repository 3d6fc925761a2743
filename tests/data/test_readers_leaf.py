"""LEAF's JSON files: images, vectors, plays and tweets by user."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_writers import pixels

from coterie.data import load, read, recognise
from coterie.data.text import ALPHABET, Embedding
from coterie.errors import CoterieError

Users = dict[str, tuple[list[Any], list[Any]]]


def write_leaf(path: Path, users: Users) -> Path:
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def femnist(*sizes: int) -> tuple[Users, np.ndarray]:
    images = pixels(sum(sizes), 28, 28)
    parts = np.split(images.reshape(len(images), -1) / 255, np.cumsum(sizes)[:-1])
    return {
        f"f{n:04}": (part.tolist(), [(n + i) % 5 for i in range(len(part))]) for n, part in enumerate(parts)
    }, images


def test_femnist_becomes_images_of_bytes_with_their_writers(tmp_path: Path) -> None:
    users, images = femnist(3, 4, 5)
    path = write_leaf(tmp_path / "all_data_0.json", users)
    assert recognise(path).format == recognise(tmp_path).format == "leaf"
    data = read(path, "femnist")
    assert (data.name, data.shape, data.classes, data.test) == ("femnist", (1, 28, 28), 5, None)
    assert data.train.x.dtype == np.uint8
    assert np.array_equal(data.train.x[:, 0], images)
    assert data.users is not None
    assert data.users.tolist() == [0] * 3 + [1] * 4 + [2] * 5
    assert data.train.y.tolist() == [0, 1, 2, 1, 2, 3, 4, 2, 3, 4, 0, 1]


def test_a_user_in_several_files_is_one_and_parts_are_pooled(tmp_path: Path) -> None:
    users, _ = femnist(4, 6)
    halves: list[Users] = [
        {u: (x[part], y[part]) for u, (x, y) in users.items()} for part in (slice(2), slice(2, None))
    ]
    for folder, half in zip(("data/train", "data/test"), halves, strict=True):
        write_leaf(tmp_path / folder / "all_data_niid_0.json", half)
    write_leaf(tmp_path / "data" / "all_data" / "all_data_0.json", users)  # what the parts were made from
    for place in (tmp_path, tmp_path / "data"):
        data = read(place)
        assert data.users is not None
        assert np.bincount(data.users).tolist() == [4, 6]
    assert len(read(tmp_path / "data" / "train").train) == 4


def test_other_numbers_stay_vectors(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(6, 60))
    data = read(
        write_leaf(tmp_path / "s.json", {"a": (x[:3].tolist(), [0.0, 1.0, 2.0]), "b": (x[3:].tolist(), [1, 1, 1])})
    )
    assert (data.shape, data.classes) == ((60,), 3)
    assert np.allclose(data.train.x, x)
    standardised = x.repeat(14, axis=1)[:, :784]
    data = read(write_leaf(tmp_path / "s.json", {"a": (standardised.tolist(), [0, 1, 0, 1, 0, 1])}))
    assert data.train.x.dtype == np.float32
    assert data.shape == (1, 28, 28)


def test_shakespeare_is_letters_and_the_next_one(tmp_path: Path) -> None:
    line = "To be, or not to be: that is the question; Whether 'tis nobler in the mind to su"
    users: Users = {"HAMLET": ([line, line[1:] + "f"], ["f", "f"]), "GHOST": (["é—\ud800?" * 20], ["\n"])}
    data = read(write_leaf(tmp_path / "shakespeare.json", users))
    assert (data.shape, data.classes, data.train.x.dtype) == ((80,), 80, np.uint8)
    assert "".join(ALPHABET[number] for number in data.train.x[0]) == line
    assert data.train.x[2].tolist() == [ALPHABET.index(letter) for letter in "   ?"] * 20
    assert [ALPHABET[label] for label in data.train.y] == ["f", "f", "\n"]
    assert data.normalisation is not None
    seen = data.normalisation(data.train.x)
    assert (seen.shape, seen.dtype) == ((3, 80, 80), np.float32)
    assert np.array_equal(seen.argmax(axis=2), data.train.x)
    assert (seen.sum(axis=2) == 1).all()


VECTORS = {"good": [1.0, 0.5, -2.0], "bad": [0.25, 0, 3], "day": [7, 8, 9], "!": [1, 1, 1], "unused": [0, 0, 0]}


def write_vectors(path: Path, vectors: dict[str, list[float]] = VECTORS) -> Path:
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()), encoding="utf-8")
    return path


def tweet(text: str) -> list[str]:
    """Id, date, query, account, text: LEAF keeps the fields of Sent140's table."""
    return ["1467811372", "Mon Apr 06", "NO_QUERY", "joe", text]


def tweets() -> Users:
    return {"joe": ([tweet("Good day!"), tweet("bad, BAD wolf")], [1, 0]), "ann": ([tweet("day " * 40)], [4])}


def test_sent140_is_words_with_frozen_vectors(tmp_path: Path) -> None:
    write_vectors(tmp_path / "glove.6B.300d.txt")
    data = read(write_leaf(tmp_path / "sent140" / "all_data.json", tweets()))
    assert (data.shape, data.classes, data.train.y.tolist()) == ((25,), 2, [1, 0, 1])
    assert data.users is not None
    assert data.users.tolist() == [0, 0, 1]
    assert isinstance(data.normalisation, Embedding)
    seen = data.normalisation(data.train.x)
    assert (seen.shape, seen.dtype) == ((3, 25, 3), np.float32)
    zero = [0.0] * 3
    assert seen[0, :4].tolist() == [VECTORS["good"], VECTORS["day"], VECTORS["!"], zero]
    assert seen[1, :4].tolist() == [VECTORS["bad"], zero, VECTORS["bad"], zero]  # a comma and a wolf have no vectors
    assert (seen[2] == VECTORS["day"]).all()
    assert data.normalisation.vectors.shape == (5, 3)  # the unused word is not kept
    assert read(tmp_path / "sent140", tokens=7).shape == (7,)


def test_words_without_vectors_say_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_leaf(tmp_path / "a" / "b" / "c" / "all_data.json", tweets())
    with pytest.raises(CoterieError, match=r"holds words, for which vectors are needed: put glove\.6B\.300d\.txt"):
        read(path)
    (tmp_path / "folder").mkdir()
    write_vectors(tmp_path / "folder" / "glove.6B.50d.txt")
    assert read(path, vectors=str(tmp_path / "folder" / "glove.6B.50d.txt")).shape == (25,)
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "folder"))
    assert read(path).shape == (25,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good 1 2 3\nbad 1 2\n", "line 2 has 2 numbers behind the word, not 3"),
        ("good 1 2 x\n", "could not convert"),
        ("good\n", "line 1 has 0 numbers behind the word"),
        ("good 1 nan\n", "not finite"),
        ("good 1 1e300\n", "not finite"),
        ("", "has vectors for none"),
        ("gut 1 2\n", "has vectors for none of the words of the data"),
    ],
)
def test_other_files_of_vectors_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content)
    path = write_leaf(tmp_path / "all_data.json", tweets())
    with pytest.raises(CoterieError, match=rf"v\.txt .*{message}"):
        read(path, vectors=str(tmp_path / "v.txt"))


ROW = [0.5] * 4
WRONG: dict[str, tuple[Users, str]] = {
    "no user": ({}, "has no samples of any user"),
    "no samples": ({"a": ([], [])}, "has no samples of any user"),
    "more labels than inputs": ({"a": ([ROW], [0, 1])}, "user 'a' has no 'x' and 'y' of one length"),
    "rows of two lengths": ({"a": ([ROW, ROW[:3]], [0, 1])}, "lists of numbers, as many for each sample"),
    "users of two lengths": ({"a": ([ROW], [0]), "b": ([ROW[:3]], [0])}, "must have as many numbers for each sample"),
    "numbers and text": ({"a": ([ROW], [0]), "b": (["text"], [0])}, "have some numbers and some text"),
    "text and numbers": ({"a": (["text"], ["x"]), "b": ([ROW], [0])}, "have some numbers and some text"),
    "single numbers": ({"a": ([1.0, 2.0], [0, 1])}, "lists of numbers"),
    "numbers too large": ({"a": ([[10**400]], [0])}, "lists of numbers"),
    "infinite numbers": ({"a": ([[1e300, 0.0]], [0])}, "x_train has 1 of 1 samples with NaN or infinite"),
    "labels of text": ({"a": ([ROW], ["cat"])}, "labels must be numbers"),
    "half labels": ({"a": ([ROW], [0.5])}, "labels must be whole numbers"),
    "infinite labels": ({"a": ([ROW], [float("inf")])}, "labels must be whole numbers"),
    "labels from 1": ({"a": ([ROW], [1])}, "start at 1, but must start at 0"),
    "texts of two lengths": ({"a": (["ab", "abc"], ["x", "y"])}, "must have the same length"),
    "two letters as label": ({"a": (["ab"], ["xy"])}, "must be the letter after it"),
    "a tweet without text": ({"a": ([["1", "2", "3"]], [1])}, "a tweet must be a text"),
    "a mood of 2": ({"a": ([tweet("good")], [2])}, "label of a tweet must be 0, 1 or 4, not '2'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_samples_are_refused(tmp_path: Path, case: str) -> None:
    users, message = WRONG[case]
    write_vectors(tmp_path / "glove.txt")
    path = write_leaf(tmp_path / "data.json", users)
    with pytest.raises(CoterieError, match=message) as raised:
        read(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        '{"users": ["a"], "user_data": {"a": {"x": [[1',
        '{"users": []}',
        '{"users": 1, "user_data": []}',
        '{"users"' + "[" * 99999,
    ],
)
def test_other_json_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(CoterieError, match=r"data\.json cannot be read as LEAF's JSON files"):
        read(path)


def test_json_of_something_else_is_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"settings": {"a": 1}}')
    with pytest.raises(CoterieError, match=r"data\.json' is not a data set that Coterie can read"):
        read(tmp_path / "data.json")


def test_writers_become_clients(tmp_path: Path) -> None:
    users, _ = femnist(20, 30, 40)
    data = load(str(write_leaf(tmp_path / "f.json", users)), None, ("by-user", {}), 3, 0)
    sizes = [len(a) + len(b) for a, b in zip(data.train_parts, data.test_parts, strict=True)]
    assert sum(sizes) + len(data.server) == 90
    assert sizes == sorted(sizes)

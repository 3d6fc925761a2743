"""LEAF's JSON files: samples by user, of images, vectors, tweets or lines of plays.

All samples are pooled, those of LEAF's own test part too: who divides them by user holds out a part of each.
"""

import json
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from coterie.data.federated import Array, Dataset
from coterie.data.folder import find_vectors
from coterie.data.readers.arrays import Classes, dataset_from_arrays
from coterie.data.readers.files import Files, everything
from coterie.data.readers.formats import reader
from coterie.data.text import ALPHABET, Embedding, letters, numbered, one_hot, read_vectors, words
from coterie.errors import CoterieError

_WHAT = "LEAF's JSON files"
_TEXT_OF_TWEET = 4
_SIDE = 28
_LARGEST_LABEL = 2**53

Tokens = Annotated[int, Ge(1), Le(10_000), "Words of a tweet that are used."]
Vectors = Annotated[
    str | None, "GloVe's file of word vectors; by default glove*.txt beside the data or in COTERIE_DATA."
]

Samples = tuple[list[Any], list[Any]]
"""Inputs and labels of a user; inputs are texts, or arrays of several samples each, as lists of numbers are large."""


def _chosen(files: Files) -> list[str]:
    """Return the JSON files to read; LEAF's scripts leave the same samples in several folders."""
    names = [name for name in files.names if name.endswith(".json")]
    if files.kind == "file":
        return [files.place.name]
    folders = {PurePosixPath(name).parent.name for name in names}
    for wanted in ({"train", "test"}, {"all_data"}):
        if folders & wanted:
            return [name for name in names if PurePosixPath(name).parent.name in wanted]
    return [name for name in names if "/" not in name]


def _recognises(files: Files) -> bool:
    if files.kind not in ("folder", "file"):
        return False
    chosen = _chosen(files)
    head = files.head(chosen[0]) if chosen else b""
    return head.lstrip()[:1] == b"{" and any(key in head for key in (b'"users"', b'"user_data"', b'"num_samples"'))


@reader("leaf", _recognises)
def leaf(
    files: Files, name: str | None = None, *, tokens: Tokens = 25, vectors: Vectors = None, classes: Classes = None
) -> Dataset:
    """LEAF's JSON files of samples by user: FEMNIST, Shakespeare, Sent140, or any vectors with labels."""
    users = _pooled(files)
    inputs, labels = (list(chain.from_iterable(pieces)) for pieces in zip(*users, strict=True))
    who = np.repeat(np.arange(len(users)), [len(y) for _, y in users])
    name, place = name or files.label, str(files.place)
    if len({isinstance(x, np.ndarray) for x in inputs}) > 1:
        raise CoterieError(f"{place}: users have some numbers and some text: all must have the same")
    if isinstance(inputs[0], np.ndarray):
        arrays = {"x_train": _joined(inputs, place), "y_train": _integers(labels, place), "user_train": who}
        return dataset_from_arrays(name, arrays, place, classes=classes)
    if isinstance(inputs[0], str) and isinstance(labels[0], str):
        arrays = {"x_train": _windows(inputs, place), "y_train": _letters_after(labels, place), "user_train": who}
        return dataset_from_arrays(name, arrays, place, classes=len(ALPHABET), lookup=one_hot())
    x, lookup = _tweets(inputs, files, tokens, vectors)
    arrays = {"x_train": x, "y_train": _moods(labels, place), "user_train": who}
    return dataset_from_arrays(name, arrays, place, classes=2, lookup=lookup)


def _pooled(files: Files) -> list[Samples]:
    """Return the samples of each user who has some, in the order of the files."""
    users: dict[str, Samples] = {}
    for name in _chosen(files):
        base = PurePosixPath(name).name
        folder = Files(files.place / PurePosixPath(name).parent, "folder", (base,)) if files.kind == "folder" else files
        for user, (x, y) in folder.read({base: _parse}, _WHAT)[base].items():
            xs, ys = users.setdefault(user, ([], []))
            xs += x
            ys += y
    kept = [samples for samples in users.values() if samples[1]]
    if not kept:
        raise CoterieError(f"{files.place} has no samples of any user")
    return kept


def _parse(stream: IO[bytes]) -> dict[str, Samples]:
    try:
        content = json.loads(everything(stream))
    except RecursionError:
        raise ValueError("it is nested without end") from None
    data = content.get("user_data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise ValueError("it has no 'user_data'")
    return {user: _samples(user, of_user) for user, of_user in data.items()}


def _samples(user: str, data: Any) -> Samples:
    x, y = (data.get(key) if isinstance(data, dict) else None for key in ("x", "y"))
    if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
        raise ValueError(f"user '{user}' has no 'x' and 'y' of one length")
    if not x or isinstance(x[0], str) or (isinstance(x[0], list) and any(isinstance(item, str) for item in x[0])):
        return x, y
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is reported later
            numbers: Array = np.array(x, np.float32)
    except (ValueError, TypeError, OverflowError):
        numbers = np.zeros(0)
    if numbers.ndim != 2:
        raise ValueError(f"the inputs of user '{user}' are not lists of numbers, as many for each sample")
    return [_as_bytes(numbers)], y


def _joined(parts: list[Array], place: str) -> Array:
    """Return vectors, or images where they have as many numbers."""
    if not all(part.dtype == np.uint8 for part in parts):
        parts = [part.astype(np.float32) / 255 if part.dtype == np.uint8 else part for part in parts]
    if any(part.shape[1] != parts[0].shape[1] for part in parts):
        raise CoterieError(f"{place}: the inputs of all users must have as many numbers for each sample")
    x = np.concatenate(parts)
    return x.reshape(-1, _SIDE, _SIDE) if x.shape[1] == _SIDE * _SIDE else x


def _as_bytes(part: Array) -> Array:
    """Return shades as the bytes that they were made from, if they were; it saves three quarters of the memory."""
    if part.shape[1] != _SIDE * _SIDE or not np.isfinite(part).all():
        return part
    shades = np.rint(255 * part)
    exact = (shades >= 0).all() and (shades <= 255).all() and np.abs(255 * part - shades).max() < 1e-3
    return shades.astype(np.uint8) if exact else part


def _integers(labels: list[Any], place: str) -> Array:
    try:
        y = np.array(labels, np.float64)
    except (ValueError, TypeError, OverflowError):
        raise CoterieError(f"{place}: labels must be numbers, one for each sample") from None
    if y.ndim != 1 or not np.array_equal(y, np.rint(y)) or np.abs(y).max() > _LARGEST_LABEL:
        raise CoterieError(f"{place}: labels must be whole numbers, one for each sample")
    return y.astype(np.int64)


def _windows(inputs: list[Any], place: str) -> Array:
    """Return the numbers of letters, (n, length)."""
    if any(not isinstance(line, str) or len(line) != len(inputs[0]) for line in inputs) or not inputs[0]:
        raise CoterieError(f"{place}: all pieces of text must have the same length")
    return letters("".join(inputs)).reshape(len(inputs), -1)


def _letters_after(labels: list[Any], place: str) -> Array:
    if any(not isinstance(letter, str) or len(letter) != 1 for letter in labels):
        raise CoterieError(f"{place}: the label of a piece of text must be the letter after it")
    return letters("".join(labels)).astype(np.int64)


def _tweets(inputs: list[Any], files: Files, tokens: int, vectors: str | None) -> tuple[Array, Embedding]:
    """Return the numbers of words, (n, tokens), and the vectors that belong to them."""
    lines = []
    for tweet in inputs:
        text = tweet[_TEXT_OF_TWEET] if isinstance(tweet, list) and len(tweet) > _TEXT_OF_TWEET else tweet
        if not isinstance(text, str):
            raise CoterieError(f"{files.place}: a tweet must be a text, or a list whose fifth entry is one")
        lines.append(words(text))
    file = Path(vectors).expanduser() if vectors else find_vectors(files.place)
    vocabulary, rows = read_vectors(file, {word for line in lines for word in line})
    return numbered(lines, vocabulary, tokens), Embedding(rows)


def _moods(labels: list[Any], place: str) -> Array:
    """Return 0 for a negative and 1 for a positive tweet, which Sent140 itself calls 4."""
    moods = {"0": 0, "1": 1, "4": 1}
    try:
        return np.array([moods[str(label)] for label in labels], np.int64)
    except KeyError as error:
        raise CoterieError(f"{place}: the label of a tweet must be 0, 1 or 4, not {error}") from None

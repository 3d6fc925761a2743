"""Plays by speaking role: the text of each role, cut into windows with the letter that follows."""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, everything
from coterie.data.readers.formats import reader
from coterie.data.readers.npz import read_arrays
from coterie.data.text import ALPHABET, letters, one_hot
from coterie.errors import CoterieError

WINDOW = 80
_LIMIT = 2**28
_SPEECH = re.compile(rb"(?:^|\n\n)([A-Z][^\n:]*):(?=\n|$)")

MinCharacters = Annotated[int, Ge(WINDOW + 1), "Roles with less text are left out."]
Stride = Annotated[int, Ge(1), "Characters from the beginning of a window to that of the next; LEAF takes 1."]


def _script(files: Files) -> bool:
    """Whether nearly every paragraph is a speech."""
    paragraphs = files.head().strip().split(b"\n\n")[:50]
    speeches = sum(bool(_SPEECH.match(paragraph)) for paragraph in paragraphs)
    return speeches >= max(2, 0.8 * len(paragraphs))


@reader("roles", lambda files: files.kind == "zip" and {"text.npy", "role_off.npy"} <= set(files.names))
def roles(
    files: Files, name: str | None = None, *, min_characters: MinCharacters = 1000, stride: Stride = 10
) -> Dataset:
    """Plays by role, an .npz file with text (bytes), role_off (where each role begins) and role_names."""
    arrays = read_arrays(files.place, lambda keys, path: ["text", "role_off"])
    text, ends = arrays["text"], arrays["role_off"]
    rising = (
        ends.ndim == 1 and ends.dtype.kind in "iu" and len(ends) > 1 and (np.diff(ends.astype(np.int64)) >= 0).all()
    )
    if not rising or text.dtype != np.uint8 or text.ndim != 1 or ends[0] < 0 or ends[-1] > len(text):
        raise CoterieError(f"{files.place}: role_off must say where in text, an array of bytes, each role begins")
    texts = (text[a:b].tobytes() for a, b in pairwise(ends.tolist()))
    return _dataset(texts, name or "shakespeare", files.place, min_characters, stride)


@reader("plays", _script)
def plays(
    files: Files, name: str | None = None, *, min_characters: MinCharacters = 1000, stride: Stride = 10
) -> Dataset:
    """Plays as plain text, each speech under its role's name and a colon, as Tiny Shakespeare is."""
    base = files.place.name
    script = files.read({base: lambda stream: bytes(everything(stream, _LIMIT))}, "plays in plain text")[base]
    return _dataset(_by_role(script), name or "shakespeare", files.place, min_characters, stride)


def _by_role(script: bytes) -> list[bytes]:
    """Return the speeches of each role, joined by line breaks, the longest first."""
    _, *pieces = _SPEECH.split(script.strip())
    speeches: dict[bytes, list[bytes]] = {}
    for role, speech in zip(pieces[::2], pieces[1::2], strict=True):
        if speech.strip():
            speeches.setdefault(role, []).append(speech.strip())
    return sorted((b"\n".join(of_role) for of_role in speeches.values()), key=len, reverse=True)


def _dataset(texts: Iterable[bytes], name: str, place: Path, min_characters: int, stride: int) -> Dataset:
    x, y, users = list[Array](), list[Array](), list[Array]()
    for text in texts:
        if len(text) >= min_characters:
            numbers = letters(text)
            windows = np.lib.stride_tricks.sliding_window_view(numbers, WINDOW + 1)[::stride]
            x.append(windows[:, :-1])
            y.append(windows[:, -1].astype(np.int64))
            users.append(np.full(len(windows), len(users)))
    if not x:
        raise CoterieError(f"{place} has no role with {min_characters} characters: choose a smaller min_characters")
    arrays = {"x_train": np.concatenate(x), "y_train": np.concatenate(y), "user_train": np.concatenate(users)}
    return dataset_from_arrays(name, arrays, str(place), classes=len(ALPHABET), lookup=one_hot())

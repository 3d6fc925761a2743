"""Damaging files in every way: each value of a document replaced, left out, nested; and bytes cut and flipped."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    None, "x", "", -1, 0, 3, 10**18, 10**400, 1e300, float("nan"), float("inf"), True, [], {}, [[]], {"a": 1},
    "a\nb\x1b[31m", [None, None], "9" * 30,
)  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to each value; of lists the first and the last entry."""
    yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for index in sorted({0, len(document) - 1} if document else set()):
            yield from places(document[index], (*path, index))


def damaged(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a document with another value at a place."""
    if not path:
        return value
    new = copy.deepcopy(document)
    parent = new
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return new


def without(document: Any, path: tuple[Any, ...]) -> Any:
    """Return a document without a key, or an entry of a list."""
    new = copy.deepcopy(document)
    parent = new
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return new


def documents(document: Any, every: int = 1) -> Iterator[tuple[str, Any]]:
    """Return damaged documents, each with its description; `every` n-th of the values at each place, in turn."""
    turn = 0
    for path in places(document):
        for value in VALUES:
            turn += 1
            if turn % every == 0:
                yield f"{'.'.join(map(str, path))} = {str(value)[:20]!r}", damaged(document, path, value)
        if path:
            yield f"{'.'.join(map(str, path))} is missing", without(document, path)
        if isinstance(document, dict) and not path:
            yield "an extra key", {**document, "unheard of": 1}


def bytes_of(content: bytes, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Return content that is cut short, has other bytes, or something in it twice."""
    rng = random.Random(seed)
    for turn in range(count):
        at = rng.randrange(len(content) or 1)
        match turn % 4:
            case 0:
                yield f"cut after {at} bytes", content[:at]
            case 1:
                yield (
                    f"byte {at} flipped",
                    content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :],
                )
            case 2:
                yield f"zeros at {at}", content[:at] + bytes(20) + content[at + 20 :]
            case _:
                yield f"twice from {at}", content[:at] + content[at // 2 :]


def text_of(document: Any) -> str:
    """Write a document as JSON, with numbers that are none."""
    return json.dumps(document)

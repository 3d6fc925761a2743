"""The server's state on disk: written whole after a round, or not at all.

Parts of a state that last over many rounds, such as what clients sent once to describe themselves, are marked
`WriteOnce`. Each is written once, into a file beside the checkpoint that is named by its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coterie.errors import CoterieError
from coterie.federation.request_checks import with_article
from coterie.files import write_whole
from coterie.messages import wire


class WriteOnce:
    """A part of a state that does not change; make a new one when it does."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    @cached_property
    def content(self) -> bytes:
        """The part as it is written."""
        return wire.pack(self.value, checksum=True)

    @cached_property
    def name(self) -> str:
        """A name that no other content has."""
        return wire.digest(self.value)


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state: arrays, numbers, texts, lists and dictionaries, `WriteOnce` parts; and a checksum of it."""
    lasting: dict[str, WriteOnce] = {}
    content = wire.pack(_referring(state, lasting), checksum=True)
    for name, part in lasting.items():
        if not _beside(path, name).exists():
            write_whole(_beside(path, name), part.content)
        part.__dict__.pop("content", None)  # what is written needs no memory
    write_whole(path, content)
    kept = {_beside(path, name).name for name in lasting}
    for file in path.parent.glob(_beside(path, "*").name):
        if file.name not in kept:
            file.unlink()


def check_state(state: Any, whose: str) -> None:
    """Refuse a state that would not come back from a checkpoint as it was, and say which part of it.

    >>> check_state({"group": {"0": 1}, "model": {"bias": np.zeros(2)}}, "save()")
    >>> check_state({"group": {0: 1}}, "save()")
    Traceback (most recent call last):
    coterie.errors.CoterieError: save() returned at ['group'] the key 0, an int, which would come back as a text: ...
    """
    if not isinstance(state, Mapping):
        raise CoterieError(f"{whose} returned {with_article(state)}: it should return a dictionary with text keys")
    wrong = _unlike_itself(state, "")
    if wrong:
        raise CoterieError(f"{whose} returned {wrong}")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a state back, with plain values in place of `WriteOnce` ones; refuse one that is not what was written."""
    try:
        return dict(_resolved(wire.unpack(path.read_bytes()), path))
    except FileNotFoundError as error:
        raise CoterieError(
            f"the checkpoint {path} is incomplete: '{error.filename}' is missing: start the run anew with --overwrite"
        ) from None
    except (wire.WireError, TypeError, ValueError) as error:
        raise CoterieError(f"the checkpoint {path} is damaged ({error}): start the run anew with --overwrite") from None


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _referring(value: Any, found: dict[str, WriteOnce]) -> Any:
    """Replace lasting parts by their names."""
    if isinstance(value, WriteOnce):
        found[value.name] = value
        return {"$lasting": value.name}
    return {key: _referring(item, found) for key, item in value.items()} if isinstance(value, dict) else value


def _resolved(value: Any, path: Path) -> Any:
    if not isinstance(value, dict):
        return value
    if set(value) == {"$lasting"}:
        return wire.unpack(_beside(path, str(value["$lasting"])).read_bytes())
    return {key: _resolved(item, path) for key, item in value.items()}


def _unlike_itself(value: Any, place: str) -> str | None:
    """Say which part of a value could not be read back as it was; lists come back as tuples, which is told."""
    where = f"at {place}" if place else "at the top"
    if isinstance(value, WriteOnce):
        return _unlike_itself(value.value, place)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return (
                    f"{where} the key {key!r}, {with_article(key)}, which would come back as a text: write "
                    "{str(key): value ...} in save, and turn the keys back in load"
                )
            if wrong := _unlike_itself(item, f"{place}[{key!r}]"):
                return wrong
        return None
    if isinstance(value, list | tuple):
        parts = (_unlike_itself(item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((wrong for wrong in parts if wrong), None)
    if value is None or isinstance(value, np.generic) or type(value) in (bool, int, float, str):
        return None
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return None
    if type(value) in wire.CLASSES.values():
        return None
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else with_article(value)
    return f"{where} {kind}: a state has arrays, numbers, texts, lists, and dictionaries of these with text keys"

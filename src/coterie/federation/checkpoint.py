"""The server's state on disk: written whole after a round, or not at all.

A state holds arrays, numbers, strings, parts of messages, and lists, tuples, sets and dictionaries of these, keyed by
strings or integers. It is restored exactly. Parts that last over many rounds, such as what clients sent once to
describe themselves, are marked `WriteOnce`: each is written once, into its own file, which is named by its content.
What grows with the rounds is in a journal beside it (`coterie.federation.journal`), of which it names the end.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coterie.bounded import read_tensors
from coterie.errors import CoterieError
from coterie.federation.request_checks import with_article
from coterie.files import Flush, flushed_later, part_of, remove, seal, write_whole
from coterie.messages import wire

FORMAT = 4
"""The version of the layout. Before 2 there was no number; since 3 the history is in a journal, and it is sealed;
since 4 numbers by client are arrays, or changes of a part that is written once."""
READ = (3, FORMAT)
"""The versions that are read."""
PLAIN = frozenset({bool, int, float, str, type(None)})
_HOLDS = "a state holds arrays, numbers, strings, and collections of these"


class WriteOnce:
    """A part of a state that does not change; make a new one when it does."""

    def __init__(self, value: Mapping[Any, Any]) -> None:
        self.value, self.is_written = value, False

    @cached_property
    def content(self) -> bytes:
        """The part as it is written."""
        return wire.pack(_encoded(self.value, {}), checksum=True)

    @cached_property
    def name(self) -> str:
        """A name that no other content has."""
        return wire.digest(_encoded(self.value, {}))


class NotStorable(ValueError):
    """Something in a state that a checkpoint can't hold; the message says where and what."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.place = what, list[Any]()

    def __str__(self) -> str:
        place = "".join(f"[{key!r}]" for key in self.place)
        return f"at {place or 'the top level'}, {self.what}"


def save_checkpoint(path: Path, state: Mapping[str, Any], durable: bool = False) -> None:
    """Write a state, with a digest; with `durable`, after everything that was written before has reached the disk."""
    parts: dict[str, WriteOnce] = {}
    content = wire.pack({"format": FORMAT, "state": _encoded(state, parts)}, checksum=True)
    for name, part in parts.items():
        _write_part(part_of(path, name), part, flushed_later(durable) if durable else "file")
    write_whole(path, content, "system" if durable else "file")
    kept = {part_of(path, name).name for name in parts}
    for file in path.parent.glob(part_of(path, "*").name):
        if file.name not in kept:
            remove(file)


def _write_part(file: Path, part: WriteOnce, flush: Flush) -> None:
    """Write a part unless it is there; one that is there may be what a power cut left of it."""
    if not part.is_written or not file.exists():
        if not _is_whole(file):
            write_whole(file, part.content, flush)
        part.is_written = True
    part.__dict__.pop("content", None)  # free the memory of what is written


def _is_whole(file: Path) -> bool:
    try:
        seal(read_tensors(file, most=None))
    except (OSError, ValueError):
        return False
    return True


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a state back; refuse one that is damaged, or has another format."""
    try:
        content = read_tensors(path, most=None)
        stored = wire.unpack(content)
        version = stored.get("format", 1)
        if version not in READ:
            raise CoterieError(
                f"the checkpoint {path} has format {version}, this version of Coterie reads {READ[0]} to {READ[-1]}: "
                "use the version that made the run, or run it again with --overwrite"
            )
        seal(content)
        return dict(_decoded(stored["state"], path))
    except FileNotFoundError as error:
        raise CoterieError(
            f"the checkpoint {path} is incomplete: '{error.filename}' is missing: start over with --overwrite"
        ) from None
    except (wire.WireError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CoterieError(f"the checkpoint {path} is damaged ({error}): start over with --overwrite") from None


def check_state(state: Any, whose: str) -> None:
    """Refuse a state that a checkpoint can't hold, and say which part of it.

    >>> check_state({"group": {0: 1}, "model": {"bias": np.zeros(2)}}, "save()")
    >>> check_state({"group": {(0, 1): 1}}, "save()")
    Traceback (most recent call last):
    coterie.errors.CoterieError: save() returned, at ['group'], the key (0, 1), a tuple: keys are strings or integers
    """
    if not isinstance(state, Mapping):
        raise CoterieError(f"{whose} returned {with_article(state)}: it should return a dictionary")
    try:
        _encoded(state, {})
    except NotStorable as error:
        raise CoterieError(f"{whose} returned, {error}") from None


def _encoded(value: Any, parts: dict[str, WriteOnce]) -> Any:
    """Return a value in types of the wire format; `parts` collects what is written once, by name."""
    kind = type(value)
    if kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, value))):
        return value
    if isinstance(value, WriteOnce):
        parts[value.name] = value
        return {"$once": value.name}
    if isinstance(value, Mapping):
        numbers = _has_numbers_as_keys(value)
        if PLAIN.issuperset(map(type, value.values())):
            items = dict(zip(map(str, value), value.values(), strict=True)) if numbers else dict(value)
        else:
            items = {str(key): _encoded_at(key, item, parts) for key, item in value.items()}
        return {"$ints": items} if numbers else items
    if isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value) if isinstance(value, set | frozenset) else value
        entries = tuple(_encoded_at(index, item, parts) for index, item in enumerate(ordered))
        return entries if isinstance(value, tuple) else {f"${kind.__name__}": entries}
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
        raise NotStorable(f"an array of {value.dtype}: {_HOLDS}")
    if not isinstance(value, np.ndarray | np.generic) and kind not in wire.CLASSES.values():
        raise NotStorable(f"{with_article(value)}: {_HOLDS}")
    return value


def _encoded_at(key: Any, item: Any, parts: dict[str, WriteOnce]) -> Any:
    """Encode a part of a collection; an error says where it is."""
    try:
        return _encoded(item, parts)
    except NotStorable as error:
        error.place.insert(0, key)
        raise


def _has_numbers_as_keys(value: Mapping[Any, Any]) -> bool:
    """Say whether keys are numbers; refuse keys that would not be restored exactly."""
    kinds = {*map(type, value)}
    if kinds == {int}:
        return True
    texts = [key for key in value if isinstance(key, str)]
    if "$" in {key[:1] for key in texts}:
        raise NotStorable(f"the key {next(key for key in texts if key[:1] == '$')!r}: keys must not begin with '$'")
    if len(texts) == len(value):
        return False
    for key in value:
        if isinstance(key, bool) or not isinstance(key, str | int | np.integer):
            raise NotStorable(f"the key {key!r}, {with_article(key)}: keys are strings or integers")
    if texts:
        raise NotStorable("keys that mix strings and numbers: use one kind")
    return True


def _read_part(path: Path, name: str) -> WriteOnce:
    file = part_of(path, name)
    try:
        content = read_tensors(file, most=None)
        seal(content)
    except ValueError as error:
        raise ValueError(f"'{file.name}': {error}") from None
    part = WriteOnce(_decoded(wire.unpack(content), path))
    part.__dict__["name"], part.is_written = name, True
    return part


def _decoded(value: Any, path: Path) -> Any:
    if isinstance(value, tuple):
        return tuple(_decoded(item, path) for item in value)
    if not isinstance(value, dict):
        return value
    match [*value.items()]:
        case [("$once", str(name))]:
            return _read_part(path, name)
        case [("$ints", dict(items))]:
            return {int(key): _decoded(item, path) for key, item in items.items()}
        case [("$list" | "$set" | "$frozenset" as kind, items)]:
            return {"$list": list, "$set": set, "$frozenset": frozenset}[kind](_decoded(items, path))
    return {key: _decoded(item, path) for key, item in value.items()}

"""A disk that records what is asked of it, and folders as power cuts would leave them.

`RecordingDisk` takes the place of `coterie.files.DISK`: everything is really written, and noted as events. A power cut
after any event leaves what was flushed before it, and of the rest whatever the disk likes: `folders_after` has it keep
nothing, all, only names, only contents, or any part drawn at random, in any order, with zeros or nothing in place of
contents that were lost.

What this can't show: sectors that are torn in themselves, a rename that is not atomic, disks and controllers that lie
about having flushed, flushed bytes that rot, and file systems that break their promises. Writers that do not go through
`coterie.files` are not seen (data shared with processes of Ray are not, and need not be).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from coterie.files import Disk

Name = tuple[int, str]
"""A name in a folder, which is known by its number."""


@dataclass(frozen=True)
class Data:
    """Bytes that go into a file from a position on, behind which it ends."""

    node: int
    at: int
    content: bytes


@dataclass(frozen=True)
class Names:
    """Names that are given to files or folders, or taken away (None), all at once."""

    changes: tuple[tuple[Name, int | None], ...]
    is_folder: bool = False


@dataclass(frozen=True)
class Flushed:
    """A file, a folder, or (None) everything has reached the disk."""

    node: int | None


@dataclass(frozen=True)
class RoundIsOver:
    """The run has told that a round is over."""

    round: int


Event = Data | Names | Flushed | RoundIsOver
Tree = dict[str, bytes | None]
"""Contents by path; None for a folder."""


class HastyDisk(Disk):
    """Flushes nothing, to save time."""

    def create(self, path: Path, content: bytes, mode: int, flush: bool) -> None:
        super().create(path, content, mode, False)

    def extend(self, path: Path, content: bytes, at: int, flush: bool) -> None:
        super().extend(path, content, at, False)

    def flush_folder(self, path: Path) -> None:
        pass

    def flush_all(self, path: Path) -> None:
        pass


@dataclass
class RecordingDisk(HastyDisk):
    """Notes what happens below a folder, which is empty at first or holds what is taken for flushed."""

    root: Path
    one_by_one: bool = False
    """As on a system that can't flush all at once."""
    events: list[Event] = field(default_factory=list)
    nodes: dict[Path, int] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        super().__init__()
        if self.one_by_one:
            self.flush_system = None
        self.root = self.root.absolute()
        self.nodes[self.root] = 0
        for path in sorted(self.root.rglob("*")):
            node = self._named(path, path.is_dir())
            if path.is_file():
                self._write(node, 0, path.read_bytes())
        self.events.append(Flushed(None))

    def create(self, path: Path, content: bytes, mode: int, flush: bool) -> None:
        with self._lock:
            super().create(path, content, mode, flush)
            node, middle = self._named(path), len(content) // 2
            self._write(node, 0, content[:middle])
            self._write(node, middle, content[middle:])
            self.events += [Flushed(node)] if flush else []

    def extend(self, path: Path, content: bytes, at: int, flush: bool) -> None:
        with self._lock:
            super().extend(path, content, at, flush)
            node = self.nodes.get(path.absolute())
            node = self._named(path) if node is None else node
            self._write(node, at, content)
            self.events += [Flushed(node)] if flush else []

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            super().rename(source, target)
            node = self.nodes.pop(source.absolute())
            self.nodes[target.absolute()] = node
            self.events.append(Names(((self._name(target), node), (self._name(source), None))))

    def link(self, source: Path, target: Path) -> None:
        with self._lock:
            super().link(source, target)
            self.nodes[target.absolute()] = node = self.nodes[source.absolute()]
            self.events.append(Names(((self._name(target), node),)))

    def remove(self, path: Path) -> None:
        with self._lock:
            super().remove(path)
            self._unnamed(path)

    def make_folder(self, path: Path) -> None:
        with self._lock:
            super().make_folder(path)
            self._named(path, is_folder=True)

    def remove_folder(self, path: Path) -> None:
        with self._lock:
            super().remove_folder(path)
            self._unnamed(path)

    def flush_folder(self, path: Path) -> None:
        with self._lock:
            if path.absolute() in self.nodes:
                self.events.append(Flushed(self.nodes[path.absolute()]))

    def flush_all(self, path: Path) -> None:
        with self._lock:
            self.events.append(Flushed(None))

    def round_is_over(self, round: int) -> None:
        with self._lock:
            self.events.append(RoundIsOver(round))

    def _name(self, path: Path) -> Name:
        return self.nodes[path.absolute().parent], path.name

    def _named(self, path: Path, is_folder: bool = False) -> int:
        node = 1 + max((event.changes[0][1] or 0 for event in self.events if isinstance(event, Names)), default=0)
        self.nodes[path.absolute()] = node
        self.events.append(Names(((self._name(path), node),), is_folder))
        return node

    def _unnamed(self, path: Path) -> None:
        self.events.append(Names(((self._name(path), None),)))
        self.nodes.pop(path.absolute())

    def _write(self, node: int, at: int, content: bytes) -> None:
        self.events.append(Data(node, at, content))


def folders_after(events: list[Event], cut: int, luck: Random, drawn: int = 4) -> Iterator[Tree]:
    """Yield what a power cut after the first `cut` events can leave: the extremes, and some drawn at random."""
    unsafe = [i for i in range(cut) if isinstance(events[i], Data | Names) and not _is_flushed(events, i, cut)]
    data, names = ([i for i in unsafe if isinstance(events[i], kind)] for kind in (Data, Names))
    lost: list[tuple[set[int], set[int]]] = [
        (set(), set()),
        (set(unsafe), set()),
        (set(data), set()),
        (set(), set(data)),
        (set(names), set()),
    ]
    for _ in range(drawn if unsafe else 0):
        dropped = {i for i in unsafe if luck.random() < 0.5}
        lost.append((dropped, {i for i in data if luck.random() < 0.3} - dropped))
    for dropped, zeroed in lost if unsafe else lost[:1]:
        yield _replayed(events[:cut], dropped, zeroed)


def _is_flushed(events: list[Event], index: int, cut: int) -> bool:
    """Say whether an event is on the disk for sure."""
    event = events[index]
    nodes = {event.node} if isinstance(event, Data) else {folder for (folder, _), _ in event.changes}  # type: ignore[union-attr]
    for later in events[index + 1 : cut]:
        if isinstance(later, Flushed):
            if later.node is None:
                return True
            nodes.discard(later.node)
    return not nodes


def _replayed(events: list[Event], dropped: set[int], zeroed: set[int]) -> Tree:
    contents: dict[int, bytearray] = {}
    names: dict[Name, int] = {}
    for i, event in enumerate(events):
        if i in dropped:
            continue
        if isinstance(event, Names):
            for name, node in event.changes:
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node
        elif isinstance(event, Data):
            content = contents.setdefault(event.node, bytearray())
            content.extend(bytes(max(0, event.at - len(content))))
            content[event.at :] = bytes(len(event.content)) if i in zeroed else event.content
    folders = {node for event in events if isinstance(event, Names) and event.is_folder for _, node in event.changes}
    tree: Tree = {}
    _walk(0, "", names, contents, folders, tree)
    return tree


def _walk(
    folder: int, path: str, names: dict[Name, int], contents: dict[int, bytearray], folders: set[int | None], tree: Tree
) -> None:
    for (inside, name), node in sorted(names.items()):
        if inside == folder:
            place = f"{path}{name}"
            is_folder = node in folders
            tree[place] = None if is_folder else bytes(contents.get(node, b""))
            if is_folder:
                _walk(node, f"{place}/", names, contents, folders, tree)


def materialise(tree: Tree, place: Path) -> None:
    """Write a tree below a folder."""
    for path, content in tree.items():
        if content is None:
            (place / path).mkdir(parents=True)
        else:
            (place / path).write_bytes(content)


def digest_of(tree: Tree) -> str:
    """Tell trees apart."""
    digest = hashlib.blake2b()
    for path, content in sorted(tree.items()):
        digest.update(f"{path}\0{-1 if content is None else len(content)}\0".encode() + (content or b""))
    return digest.hexdigest()

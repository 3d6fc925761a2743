"""Where clients keep their state: in memory, on disk, or both.

The last two generations are kept, each stamped with the round that made it. A round that is asked again,
because the server died in it, starts from the state before it; what the lost attempt left is dropped.
"""

import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

from coterie.bounded import parse_json, read_tensors
from coterie.client.sessions import MemorySessions, SessionFiles, Sessions
from coterie.errors import CoterieError, one_line
from coterie.files import UNSEALED, Flush, flush_folder, make_folder, remove, seal, sealed, write_whole
from coterie.messages import Array, ClientId, Params

State: TypeAlias = Mapping[str, Params]
"""Parameter sets by purpose: ``model``, ``control``, ``mask``."""

Stamp: TypeAlias = tuple[int, str]
"""The round of a state, and the digest of its file."""

GENERATIONS = 2
_NAME = re.compile(r"(0|[1-9][0-9]{0,17})\.safetensors")


class Store(Protocol):
    """Client states by client and round; one client is used by one thread at a time."""

    @property
    def sessions(self) -> Sessions:
        """Where clients keep what they need between the steps of a secure sum."""
        ...

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`; empty if there is none."""
        ...

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round, and drop those of later rounds and all but the last two."""
        ...


class StateFiles(Store, Protocol):
    """A store in files, from which a run can go on after a kill."""

    folder: Path

    def clients(self) -> set[ClientId]:
        """Return who has a state."""
        ...

    def stamps(self, clients: Iterable[ClientId], round: int) -> dict[ClientId, str]:
        """Return the digests of the states that these clients have saved in a round."""
        ...

    def go_on_from(self, states: Mapping[ClientId, Stamp]) -> None:
        """Take these states for the latest, as a checkpoint names them; refuse if one is missing."""
        ...

    def remove_later(self) -> None:
        """Remove what an attempt left that goes on from the known states."""
        ...


class MemoryStore:
    """States in this process."""

    def __init__(self) -> None:
        self._states: dict[ClientId, dict[int, State]] = {}
        self.sessions: Sessions = MemorySessions()

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        states = self._states.get(client, {})
        rounds = [round for round in states if round < before]
        return states[max(rounds)] if rounds else {}

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round."""
        earlier = {r: s for r, s in self._states.get(client, {}).items() if r < round}
        kept = sorted(earlier)[1 - GENERATIONS :]
        self._states[client] = {r: earlier[r] for r in kept} | {round: state}


class DiskStore:
    """One folder per client, one file per generation; a file appears whole or not at all, and carries its digest."""

    def __init__(self, folder: Path, durable: bool = False) -> None:
        """With `durable` a saved state survives a power cut too; each save then waits for the disk."""
        self.folder = folder
        self._flush: Flush = "folder" if durable else "nothing"
        self.sessions = SessionFiles(folder, durable)
        self._known: dict[ClientId, Stamp] = {}
        """The latest states that this process has saved or was told to go on from; others may have saved later ones."""

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        rounds, (known, digest) = self._rounds(client), self._known.get(client, (-1, ""))
        latest = max((round for round in rounds if round < before), default=-1)
        if latest < known < before:
            raise self._damaged(client, known, "it is missing")
        if latest < 0:
            return {}
        content, found = self._read(client, latest)
        if latest == known and found != digest:
            raise self._damaged(client, latest, "it is another than the one that the checkpoint names")
        try:
            return state_of(content)
        except ValueError as error:
            raise self._damaged(client, latest, str(error)) from None

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round; what it takes the place of goes when it is there."""
        path, flushed = self._path(client, round), self._flush != "nothing"
        if not path.parent.is_dir() or path.parent.is_symlink() or self.folder.is_symlink():
            for folder in (self.folder, path.parent):
                make_folder_of_states(folder, flushed)
        content, digest = content_of(state)
        write_whole(path, content, self._flush)
        self._known[client] = round, digest
        rounds = self._rounds(client)
        kept = set([r for r in rounds if r <= round][-GENERATIONS:])
        for stale in set(rounds) - kept:
            remove(self._path(client, stale))
        if flushed and rounds[-1] > round:  # a later state of a lost attempt must not come back
            flush_folder(path.parent)

    def clients(self) -> set[ClientId]:
        """Return who has a state."""
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        return {int(name) for name in names if name.isdecimal()}

    def stamps(self, clients: Iterable[ClientId], round: int) -> dict[ClientId, str]:
        """Return the digests of the states that these clients, of those in any process, have saved in a round."""
        found: dict[ClientId, str] = {}
        for client in clients:
            known, digest = self._known.get(client, (None, ""))
            if known != round and self._path(client, round).exists():  # saved in another process
                digest = self._read(client, round)[1]
                self._known[client] = round, digest
            if self._known.get(client, (None,))[0] == round:
                found[client] = digest
        return found

    def go_on_from(self, states: Mapping[ClientId, Stamp]) -> None:
        """Take these states for the latest, as a checkpoint names them; refuse if one is missing."""
        for client, (round, _) in states.items():
            if not self._path(client, round).is_file():
                raise self._damaged(client, round, "it is missing")
        self._known = dict(states)

    def remove_later(self) -> None:
        """Remove what an attempt left that goes on from the known states: later ones, and halves of files."""
        for client in self.clients():
            latest = self._known.get(client, (-1, ""))[0]
            for round in self._rounds(client):
                if round > latest:
                    remove(self._path(client, round))
            for part in (self.folder / str(client)).glob("*.part"):
                remove(part)
        self.sessions.forget(self.clients())

    def _read(self, client: ClientId, round: int) -> tuple[bytes, str]:
        """Return the bytes of a state, and their digest; refuse those that are not what was written."""
        try:
            content = read_tensors(self._path(client, round))
            return content, seal(content)
        except OSError as error:
            raise self._damaged(client, round, error.strerror or "it can't be read") from None
        except ValueError as error:
            raise self._damaged(client, round, str(error)) from None

    def _damaged(self, client: ClientId, round: int, why: str) -> CoterieError:
        return error_of_state(f"client {client}", self._path(client, round), why)

    def _path(self, client: ClientId, round: int) -> Path:
        return self.folder / str(client) / f"{round}.safetensors"

    def _rounds(self, client: ClientId) -> list[int]:
        try:
            names = os.listdir(self.folder / str(client))
        except FileNotFoundError:
            return []
        states = [name for name in names if name.endswith(".safetensors")]
        if odd := next((name for name in states if not _NAME.fullmatch(name)), None):
            raise CoterieError(
                f"'{self.folder / str(client)}' holds '{one_line(odd)}', which is no state: they are called after "
                "their round, like 12.safetensors; remove it, or put its name back"
            )
        return sorted(int(name.partition(".")[0]) for name in states)


class CachedStore:
    """A store on disk whose states also stay in memory, so that clients go on while a thread writes the files.

    Files are written one after another, as they were saved. Whoever asks for what is on the disk waits for them.
    """

    def __init__(self, disk: StateFiles) -> None:
        self.disk, self._memory = disk, MemoryStore()
        self.folder, self.sessions = disk.folder, self._memory.sessions
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="states")
        self._pending, self._lock = deque[Future[None]](), threading.Lock()

    @cached_property
    def _from_before(self) -> set[ClientId]:
        """Clients that had a state before: of the others, memory has all there is."""
        return self.disk.clients()

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        state = self._memory.load(client, before)
        return state or (self.disk.load(client, before) if client in self._from_before else {})

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round; if an earlier one can't be written, the error comes now."""
        self._memory.save(client, round, state)
        with self._lock:
            while self._pending and self._pending[0].done():
                self._pending.popleft().result()
            self._pending.append(self._writer.submit(self.disk.save, client, round, state))

    def clients(self) -> set[ClientId]:
        """Return who has a state."""
        self.settle()
        return self.disk.clients()

    def stamps(self, clients: Iterable[ClientId], round: int) -> dict[ClientId, str]:
        """Return the digests of the states that these clients have saved in a round."""
        self.settle()
        return self.disk.stamps(clients, round)

    def go_on_from(self, states: Mapping[ClientId, Stamp]) -> None:
        """Take these states for the latest, as a checkpoint names them; refuse if one is missing."""
        self.disk.go_on_from(states)

    def remove_later(self) -> None:
        """Remove what an attempt left that goes on from the known states."""
        self.disk.remove_later()

    def settle(self) -> None:
        """Wait until all that was saved is written."""
        with self._lock:
            while self._pending:
                self._pending.popleft().result()

    def close(self) -> None:
        """Write what is left; errors are those of `settle`, which comes before anything counts on the files."""
        self._writer.shutdown()


def content_of(state: State) -> tuple[bytes, str]:
    """Return the bytes of a state, and their digest, which they carry."""
    from safetensors.numpy import save

    arrays = {f"{purpose}/{name}": array for purpose, params in state.items() for name, array in params.items()}
    return sealed(save(arrays, metadata=UNSEALED))


def state_of(content: bytes) -> State:
    """Return a state, its arrays in the order of the bytes; who can write these can make their digest right."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    state: dict[str, dict[str, Array]] = {}
    try:
        header, arrays = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")]), load(content)
        for key in sorted(arrays, key=lambda name: (header[name]["data_offsets"], name)):
            purpose, _, name = key.partition("/")
            state.setdefault(purpose, {})[name] = arrays[key]
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(one_line(str(error))) from None
    return state


def error_of_state(whose: str, path: Path, why: str) -> CoterieError:
    """Return the error that says what is wrong with a state, and what can be done."""
    return CoterieError(
        f"the state of {whose} in '{path}' can't be used ({why}): put back a copy, or begin the run anew"
    )


def make_folder_of_states(folder: Path, flush: bool) -> None:
    """Make a folder if it is not there; refuse a link in its place."""
    if folder.is_symlink():
        raise CoterieError(f"'{folder}' is a link, where a folder of clients' states should be: remove it")
    make_folder(folder, flush)

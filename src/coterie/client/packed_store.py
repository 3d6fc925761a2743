"""The states of many clients in a few files, in place of a folder for each client.

A file is a log: records are appended, each with a header and then a state, which has the bytes that a file of its own
would have. The states are those that follow from all records in order of their numbers, by the rules of every store. A
half of a record at the end of a file is what a kill left. Each process begins a file of its own.

Where more than half is void the oldest file is cleared: what counts of it is copied to the end of the log, with its
number, and the file goes when a later round begins, since by then the copy has been flushed with a checkpoint where
that matters. It is always the oldest, as a later record may be the one that makes an earlier one void.
"""

import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from coterie.bounded import open_file, read_tensors_at
from coterie.client.sessions import MemorySessions
from coterie.client.store import (
    GENERATIONS,
    DiskStore,
    Stamp,
    State,
    StateFiles,
    content_of,
    error_of_state,
    make_folder_of_states,
    state_of,
)
from coterie.errors import CoterieError
from coterie.files import Flush, extend, remove, seal
from coterie.messages import ClientId

LARGEST_LOG = 2**26
"""Bytes after which another file is begun."""
HEADER = struct.Struct("<4sIQQQQ")
"""What a record is, a checksum of the rest, its number, client, round, and the bytes of the state that follows."""
KEEP, DROP = b"keep", b"drop"
"""A record is a state; or says that all of its client's states of later rounds than its own are void."""
_NAME = re.compile(r"([1-9][0-9]{0,8})\.states")


class Record(NamedTuple):
    """A state in a file."""

    number: int
    round: int
    log: int
    """The file's number."""
    at: int
    """Where its header begins."""
    length: int
    """Of the state."""


@dataclass
class Log:
    """A file of records."""

    size: int = 0
    live: int = 0
    """Bytes of the records that count."""
    clients: set[ClientId] = field(default_factory=set)
    """Who has a record in it, or had."""


class PackedStore:
    """States of many clients in files of many records; one process writes, and any may read."""

    def __init__(self, folder: Path, durable: bool = False) -> None:
        """With `durable` a saved state survives a power cut too; each save then waits for the disk."""
        self.folder = folder
        self._flush: Flush = "folder" if durable else "nothing"
        self.sessions = MemorySessions()  # one process writes, and a kill ends its clients too
        self._lock = threading.RLock()
        self._opened = False
        self._states: dict[ClientId, tuple[Record, ...]] = {}
        """The generations of each client, in order."""
        self._logs: dict[int, Log] = {}
        self._current, self._number, self._round = 0, 0, -1
        self._cleared: list[int] = []
        """Files that go when a later round begins."""
        self._known: dict[ClientId, Stamp] = {}

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        with self._lock:
            self._open()
            earlier = [record for record in self._states.get(client, ()) if record.round < before]
            known, digest = self._known.get(client, (-1, ""))
            latest = earlier[-1].round if earlier else -1
            if latest < known < before:
                raise self._missing(client, known)
            if not earlier:
                return {}
            content, found = self._read(client, earlier[-1])
        if latest == known and found != digest:
            raise self._error(client, earlier[-1], "it is another than the one that the checkpoint names")
        try:
            return state_of(content)
        except ValueError as error:
            raise self._error(client, earlier[-1], str(error)) from None

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round; what it takes the place of no longer counts."""
        content, digest = content_of(state)
        with self._lock:
            self._open()
            if round > self._round:
                self._round = round
                self._remove_cleared()
            self._append(KEEP, client, round, content)
            self._known[client] = round, digest
            self._clear_one()

    def clients(self) -> set[ClientId]:
        """Return who has a state."""
        with self._lock:
            self._open()
            return {client for client, records in self._states.items() if records}

    def stamps(self, clients: Iterable[ClientId], round: int) -> dict[ClientId, str]:
        """Return the digests of the states that these clients have saved in a round."""
        known = {client: self._known[client] for client in clients if client in self._known}
        return {client: digest for client, (at, digest) in known.items() if at == round}

    def go_on_from(self, states: Mapping[ClientId, Stamp]) -> None:
        """Take these states for the latest, as a checkpoint names them; refuse if one is missing."""
        with self._lock:
            self._open()
            for client, (round, _) in states.items():
                if all(record.round != round for record in self._states.get(client, ())):
                    raise self._missing(client, round)
            self._known = dict(states)

    def remove_later(self) -> None:
        """Void what an attempt left that goes on from the known states: later ones."""
        with self._lock:
            self._open()
            for client, records in [*self._states.items()]:
                known = self._known.get(client, (-1, ""))[0]
                if records and records[-1].round > known:
                    self._append(DROP, client, known + 1)
            self._cleared = []
            for log in sorted(self._logs.keys() - {self._current}):
                if self._logs[log].live:
                    break  # a later file may say that something in this one is void
                self._forget(log)

    def _open(self) -> None:
        """Find out once what there is."""
        if self._opened:
            return
        self._opened = True
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        found: list[tuple[Record, bytes, ClientId]] = []
        for log in sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name))):
            found += self._read_log(log)
            self._current = log
        found.sort(key=lambda item: item[0].number)
        for record, kind, client in found:
            if record.number > self._number:  # of a copy the original counts, if it is there: it has reached the disk
                self._take(kind, client, record)
                self._number = record.number
        self._current += 1

    def _read_log(self, log: int) -> list[tuple[Record, bytes, ClientId]]:
        try:
            with open_file(self._path(log)) as file:
                self._logs[log] = Log(os.fstat(file.fileno()).st_size)
                return [*_records(file, log, self._logs[log].size)]
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise CoterieError(
                f"'{self._path(log)}' can't be read ({why}): put back a copy, or begin the run anew"
            ) from None

    def _take(self, kind: bytes, client: ClientId, record: Record) -> None:
        """Change what counts as a record says."""
        old = self._states.get(client, ())
        earlier = tuple(known for known in old if known.round < record.round)
        new = earlier if kind == DROP else (*earlier[1 - GENERATIONS :], record)
        self._states[client] = new
        for gone in {*old} - {*new}:
            self._logs[gone.log].live -= HEADER.size + gone.length
        for come in {*new} - {*old}:
            self._logs[come.log].live += HEADER.size + come.length
            self._logs[come.log].clients.add(client)

    def _append(self, kind: bytes, client: ClientId, round: int, content: bytes = b"") -> None:
        self._number += 1
        record = self._write(_header(kind, self._number, client, round, len(content)) + content)
        self._take(kind, client, record._replace(number=self._number, round=round, length=len(content)))

    def _write(self, content: bytes) -> Record:
        """Write a record at the end of the log, and return where it is."""
        if self._current in self._logs and self._logs[self._current].size >= LARGEST_LOG:
            self._current += 1
        if self._current not in self._logs:
            make_folder_of_states(self.folder, self._flush != "nothing")
            self._logs[self._current] = Log()
        about = self._logs[self._current]
        at = about.size
        extend(self._path(self._current), content, at=at, flush=self._flush)
        about.size += len(content)
        return Record(0, 0, self._current, at, 0)

    def _clear_one(self) -> None:
        """Where more than half of all is void, copy what counts of the oldest file."""
        logs = {log: about for log, about in self._logs.items() if log not in (self._current, *self._cleared)}
        used, live = sum(about.size for about in logs.values()), sum(about.live for about in logs.values())
        if not logs or used <= 2 * live + LARGEST_LOG // 2:
            return
        log = min(logs)
        for client in sorted(logs[log].clients):
            for record in [record for record in self._states[client] if record.log == log]:
                content, _ = self._read(client, record)
                header = _header(KEEP, record.number, client, record.round, record.length)
                copy = record._replace(log=(place := self._write(header + content)).log, at=place.at)
                self._states[client] = tuple(copy if old == record else old for old in self._states[client])
                self._logs[copy.log].live += HEADER.size + copy.length
                self._logs[copy.log].clients.add(client)
        logs[log].live = 0
        self._cleared.append(log)

    def _remove_cleared(self) -> None:
        for log in self._cleared:
            self._forget(log)
        self._cleared = []

    def _forget(self, log: int) -> None:
        remove(self._path(log))
        del self._logs[log]

    def _read(self, client: ClientId, record: Record) -> tuple[bytes, str]:
        """Return the bytes of a state, and their digest; refuse those that are not what was written."""
        try:
            with open_file(self._path(record.log)) as file:
                content = read_tensors_at(file, record.at + HEADER.size, record.length)
            return content, seal(content)
        except OSError as error:
            raise self._error(client, record, error.strerror or "it can't be read") from None
        except ValueError as error:
            raise self._error(client, record, str(error)) from None

    def _path(self, log: int) -> Path:
        return self.folder / f"{log}.states"

    def _error(self, client: ClientId, record: Record, why: str) -> CoterieError:
        return error_of_state(f"client {client} of round {record.round}", self._path(record.log), why)

    def _missing(self, client: ClientId, round: int) -> CoterieError:
        return error_of_state(f"client {client} of round {round}", self.folder, "it is missing")


def _records(file: IO[bytes], log: int, size: int) -> Iterator[tuple[Record, bytes, ClientId]]:
    """Yield the records of a file up to the first that is none; what is behind was never said to be there."""
    at = 0
    while len(header := file.read(HEADER.size)) == HEADER.size:
        kind, checksum, number, client, round, length = HEADER.unpack(header)
        end = at + HEADER.size + length
        if kind not in (KEEP, DROP) or checksum != _checksum(header) or end > size:
            return
        yield Record(number, round, log, at, length), kind, client
        at = end
        file.seek(at)


def _header(kind: bytes, number: int, client: ClientId, round: int, length: int) -> bytes:
    header = HEADER.pack(kind, 0, number, client, round, length)
    return HEADER.pack(kind, _checksum(header), number, client, round, length)


def _checksum(header: bytes) -> int:
    """Return the checksum of a header, whatever is in the place of its own."""
    return zlib.crc32(header[8:], zlib.crc32(header[:4]))


def states_in(folder: Path) -> StateFiles:
    """Return the store in a folder that has states: packed, or a folder for each client."""
    packed = folder.is_dir() and any(map(_NAME.fullmatch, os.listdir(folder)))
    return PackedStore(folder) if packed else DiskStore(folder)

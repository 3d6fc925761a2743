"""What a run notes round by round, appended beside its checkpoint, which names how far it reaches.

An entry is a line of JSON: the round, the digests of the states that clients have saved in it (where they lie with the
server), and the row of metrics, if accuracies were measured. What stands behind the checkpoint's mark belongs to a
round that will be run again.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from coterie.bounded import parse_json, read_start
from coterie.errors import CoterieError
from coterie.files import extend, flushed_later
from coterie.messages import ClientId

LARGEST = 2**30
"""Bytes of a journal."""
LAST_ROUND, LONGEST_NUMBER = 10**9, 7
"""Beyond these no round is believed, and no client's number, in digits."""


class JournalMark(TypedDict):
    """Up to where a journal is valid: its length, and the digest of that."""

    bytes: int
    digest: str


class Journal:
    """The entries of a run; each is written once."""

    def __init__(self, path: Path, durable: bool = False) -> None:
        """With `durable`, a flush of the system covers it, or else each entry is flushed."""
        self.path, self._flush = path, flushed_later(durable)
        self._length, self._digest = 0, hashlib.blake2b(digest_size=16)
        self.states: dict[ClientId, tuple[int, str]] = {}
        """The round and the digest of each client's latest state."""
        self.rows: list[dict[str, Any]] = []
        """The rows of metrics."""

    @property
    def mark(self) -> JournalMark:
        """How far it reaches now."""
        return {"bytes": self._length, "digest": self._digest.hexdigest()}

    def append(self, round: int, states: Mapping[ClientId, str], row: Mapping[str, Any] | None) -> None:
        """Note a round, if there is something to note."""
        if states or row is not None:
            entry = {"round": round, "states": {str(client): digest for client, digest in states.items()}, "row": row}
            line = (json.dumps(entry) + "\n").encode()
            extend(self.path, line, at=self._length, flush=self._flush)
            self._take(line)
            self._note(entry)

    def restore(self, mark: Mapping[str, Any]) -> None:
        """Read the entries up to a mark; refuse others than those that were written, and what is no entry.

        The mark is the checkpoint's: a ValueError says that it can't be one.
        """
        length = mark.get("bytes")
        if type(length) is not int or not 0 <= length <= LARGEST:
            raise ValueError(f"the journal's length is {length!r}, expected 0 to {LARGEST}")
        try:
            content = read_start(self.path, length)
            self._take(content)
            if self.mark != mark:
                raise ValueError("its bytes are not those that were written")
            self._note_all(content.splitlines())
        except FileNotFoundError:
            if length:
                raise self.damaged("it is missing") from None
        except OSError as error:
            raise self.damaged(error.strerror or "it can't be read") from None
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def _take(self, content: bytes) -> None:
        self._length += len(content)
        self._digest.update(content)

    def _note_all(self, lines: Sequence[bytes]) -> None:
        """Note what lines say; an error names the first that is no entry."""
        last = -1
        for number, line in enumerate(lines, 1):
            try:
                entry = parse_json(line)
                error = error_in_entry(entry, last)
            except ValueError as problem:
                error = str(problem)
            if error:
                raise ValueError(f"line {number}: {error}")
            self._note(entry)
            last = entry["round"]

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.states |= {int(client): (entry["round"], digest) for client, digest in entry["states"].items()}
        if entry["row"] is not None:
            self.rows.append(entry["row"])

    def damaged(self, why: str) -> CoterieError:
        """Return the error that says so, and what can be done."""
        return CoterieError(f"'{self.path}' is damaged ({why}): put back a copy, or start over with --overwrite")


def error_in_entry(entry: Any, last: int) -> str | None:
    """Say what is wrong with an entry, given the round of the one before; what a row measures is not looked at.

    >>> error_in_entry({"round": 3, "states": {"7": "5f"}, "row": None}, last=3)
    'round: 3, expected 4 to 1000000000'
    """
    if not isinstance(entry, dict) or not {"round", "states", "row"} <= entry.keys():
        return "it has no round, states and row"
    round, states, row = entry["round"], entry["states"], entry["row"]
    if type(round) is not int or not last < round <= LAST_ROUND:
        return f"round: {round!r}, expected {last + 1} to {LAST_ROUND}"
    if not isinstance(states, dict):
        return "states: they should be digests by client"
    for client, digest in states.items():
        if not (client.isascii() and client.isdigit() and len(client) <= LONGEST_NUMBER):
            return f"states: '{client}' is not the number of a client"
        if not isinstance(digest, str):
            return f"states.{client}: {digest!r} is no digest"
    if row is not None and (not isinstance(row, dict) or row.get("round") != round or type(row["round"]) is not int):
        return f"row: it is not that of round {round}"
    return None

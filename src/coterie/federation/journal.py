"""What a run notes round by round, appended beside its checkpoint, which names how far it reaches.

An entry is a line of JSON: the round, the digests of the states that clients have saved in it (where they lie with the
server), and the row of metrics, if accuracies were measured. What stands behind the checkpoint's mark belongs to a
round that will be run again.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from coterie.bounded import parse_json, read_start
from coterie.errors import CoterieError
from coterie.files import extend, flushed_later
from coterie.messages import ClientId

LARGEST = 2**30
"""Bytes of a journal."""


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
        """Read the entries up to a mark; refuse others than those that were written."""
        try:
            content = read_start(self.path, min(int(mark["bytes"]), LARGEST))
            self._take(content)
            if self.mark != mark:
                raise ValueError("its bytes are not those that were written")
            for line in content.splitlines():
                self._note(parse_json(line))
        except FileNotFoundError:
            if mark["bytes"]:
                raise self._damaged("it is missing") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(str(error)) from None

    def _take(self, content: bytes) -> None:
        self._length += len(content)
        self._digest.update(content)

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.states |= {int(client): (entry["round"], digest) for client, digest in entry["states"].items()}
        if entry["row"] is not None:
            self.rows.append(entry["row"])

    def _damaged(self, why: str) -> CoterieError:
        return CoterieError(f"'{self.path}' is damaged ({why}): put back a copy, or start over with --overwrite")

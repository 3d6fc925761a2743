"""What a site remembers of a federation: the policy it joined under, what it was asked, and what it refused."""

from __future__ import annotations

import fcntl
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.client import Policy
from coterie.errors import CoterieError, one_line
from coterie.files import extend, make_folder, open_lock, write_whole
from coterie.messages import ClientId, Failure, Request

LARGEST_LOG = 1 << 20
"""Bytes of the file of events, after which nothing is added: a server must not fill the disk."""


@dataclass(frozen=True)
class SiteRecord:
    """The folder of a federation at a site."""

    folder: Path

    @property
    def policy_file(self) -> Path:
        """What may be asked."""
        return self.folder / "policy.json"

    @property
    def asked_file(self) -> Path:
        """What was asked in the last rounds."""
        return self.folder / "asked.json"

    @property
    def events_file(self) -> Path:
        """What was refused, a line each."""
        return self.folder / "events.jsonl"

    def policy(self, make: Callable[[], Policy]) -> Policy:
        """Return the policy under which the site joined; the first time, `make` it and keep it."""
        with self._locked():
            if not self.policy_file.exists():
                made = make()
                write_whole(self.policy_file, (json.dumps(asdict(made), indent=1) + "\n").encode())
                logging.getLogger("coterie").warning("joined federation %s, policy %s", self.folder.name, made.digest)
            try:
                return Policy.read(parse_json(read_bytes(self.policy_file, LARGEST_JSON)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise _damaged(self.policy_file, error) from None

    def error_in(self, client: ClientId, request: Request, digest: str, most: int) -> str | None:
        """Say why a request is not answered now, or None; what is answered is remembered first.

        A request that was asked before is answered as before. Of earlier rounds nothing but the last is asked again,
        since a server that was killed goes on from there.
        """
        with self._locked():
            try:
                fresh: dict[str, Any] = {"client": client, "rounds": {}}
                asked = parse_json(read_bytes(self.asked_file, LARGEST_JSON)) if self.asked_file.exists() else fresh
                number, rounds = asked["client"], {int(round): [*told] for round, told in asked["rounds"].items()}
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise _damaged(self.asked_file, error) from None
            if number != client:
                return f"this site is client {number} of the federation, not {client}"
            newest = max(rounds, default=request.round)
            if request.round < newest - 1:
                return f"round {request.round} is over: round {newest} has begun"
            digests = rounds.setdefault(request.round, [])
            if digest in digests:
                return None
            if len(digests) >= most:
                return f"{most} different requests in one round, more than this federation needs"
            digests.append(digest)
            newest = max(newest, request.round)
            kept = {str(round): listed for round, listed in rounds.items() if round >= newest - 1}
            write_whole(self.asked_file, json.dumps({"client": client, "rounds": kept}).encode())
            return None

    def note(self, failure: Failure, asked: str) -> None:
        """Log that a request was not answered."""
        logging.getLogger("coterie").warning(
            "%s in round %d (%s): %s", failure.kind, failure.round, asked, failure.detail
        )
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "round": failure.round,
                 "asked": asked, "kind": failure.kind, "detail": failure.detail}  # fmt: skip
        with self._locked():
            if not self.events_file.exists() or self.events_file.stat().st_size < LARGEST_LOG:
                extend(self.events_file, (json.dumps(entry) + "\n").encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time in: Flower starts one for each message."""
        make_folder(self.folder)
        with open_lock(self.folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _damaged(file: Path, error: Exception) -> CoterieError:
    return CoterieError(
        f"'{file}' is damaged ({one_line(str(error))}): put back a copy, or leave the federation and join it anew"
    )

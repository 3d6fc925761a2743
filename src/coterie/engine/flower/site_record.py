"""What a site remembers: the federations that it joined, the policy of each, what it was asked, and what it refused."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.client import Policy
from coterie.engine.flower.identity import FEDERATION
from coterie.errors import CoterieError, one_line
from coterie.files import extend, make_folder, open_lock, take_lock, write_whole
from coterie.messages import ClientId, Failure, Request, wire

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

    def join(self, policy: Policy) -> None:
        """Keep the policy under which the site joins."""
        with self.locked():
            if not self.policy_file.exists():
                content = {"digest": policy.digest, **asdict(policy)}
                write_whole(self.policy_file, (json.dumps(content, indent=1) + "\n").encode())
                logging.getLogger("coterie").warning("joined federation %s, policy %s", self.folder.name, policy.digest)

    def policy(self) -> Policy:
        """Return the policy under which the site joined."""
        try:
            content = parse_json(read_bytes(self.policy_file, LARGEST_JSON))
            digest, policy = content.pop("digest"), Policy.read(content)
            if digest != policy.digest:
                raise ValueError("its digest is not that of its content")
            return policy
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _damaged(self.policy_file, error) from None

    def error_in(self, client: ClientId, request: Request, digest: str, most: int) -> str | None:
        """Say why a request is not answered now, or None; what is answered is remembered first.

        A request that was asked before is answered as before. Of earlier rounds nothing but the last is asked again,
        since a server that was killed goes on from there. What is agreed on about inputs stays; only in round 0, which
        a server that was killed in it begins anew, may others have come and changed it.
        """
        with self.locked():
            try:
                fresh: dict[str, Any] = {"client": client, "rounds": {}}
                asked = parse_json(read_bytes(self.asked_file, LARGEST_JSON)) if self.asked_file.exists() else fresh
                number, rounds = asked["client"], {int(round): [*told] for round, told in asked["rounds"].items()}
                agreed = asked.get("agreed")
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise _damaged(self.asked_file, error) from None
            if number != client:
                return f"this site is client {number} of the federation, not {client}"
            given = None if request.standardisation is None else wire.digest(request.standardisation)
            if request.round > 0 and agreed not in (None, given):
                return "mean and std of inputs are not those that were agreed on"
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
            told = {"client": client, "rounds": kept, "agreed": given or agreed}
            write_whole(self.asked_file, json.dumps(told).encode())
            return None

    def note(self, failure: Failure, asked: str) -> None:
        """Log that a request was not answered."""
        logging.getLogger("coterie").warning(
            "%s in round %d (%s): %s", failure.kind, failure.round, asked, failure.detail
        )
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "round": failure.round,
                 "asked": asked, "kind": failure.kind, "detail": failure.detail}  # fmt: skip
        with self.locked():
            if not self.events_file.exists() or self.events_file.stat().st_size < LARGEST_LOG:
                extend(self.events_file, (json.dumps(entry) + "\n").encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time in: Flower starts one for each message."""
        make_folder(self.folder)
        with open_lock(self.folder / "lock") as file:
            take_lock(file, wait=True)
            yield


@dataclass(frozen=True)
class SiteMemory:
    """The state folder of a site, which knows all federations that it ever joined."""

    folder: Path

    @property
    def file(self) -> Path:
        """Their names, and when it joined them."""
        return self.folder / "federations.json"

    def record(self, federation: str) -> SiteRecord:
        """Return what it remembers of one."""
        return SiteRecord(self.folder / federation)

    def federations(self) -> list[str]:
        """Name the federations that it joined, also those whose folder somebody has removed."""
        try:
            names = parse_json(read_bytes(self.file, LARGEST_JSON))["joined"] if self.file.exists() else []
            if type(names) is not list or not all(type(name) is str and FEDERATION.fullmatch(name) for name in names):
                raise ValueError("joined should be a list of names of federations")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CoterieError(
                f"'{self.file}' is damaged ({one_line(str(error))}): put back a copy, or remove it: then only those "
                "federations count whose folders are there"
            ) from None
        folders = (file.parent.name for file in sorted(self.folder.glob("*/policy.json")))
        return [*dict.fromkeys((*names, *(name for name in folders if FEDERATION.fullmatch(name))))]

    @property
    def samples_file(self) -> Path:
        """How many samples the site had when it last answered, in any federation."""
        return self.folder / "samples.json"

    def check_samples(self, counts: Mapping[str, int], least: int) -> None:
        """Refuse to answer where there are a few samples more or less than last time; else remember how many.

        Two answers that differ by a sample tell of it, in whichever federations they are given.
        """
        with SiteRecord(self.folder).locked():
            try:
                known = parse_json(read_bytes(self.samples_file, LARGEST_JSON)) if self.samples_file.exists() else {}
                apart = {key: abs(counts[key] - known[key]) for key in counts.keys() & known.keys()}
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise CoterieError(
                    f"'{self.samples_file}' is damaged ({one_line(str(error))}): put back a copy, or remove it if no "
                    "samples came or went since this site last answered"
                ) from None
            if few := [number for number in apart.values() if 0 < number < least]:
                raise FewSamplesChanged(
                    f"{few[0]} samples came or went since this site last answered: answers that differ by fewer than "
                    f"{least} would tell of them; put them back, or wait until {least} have changed"
                )
            if known != counts:
                write_whole(self.samples_file, json.dumps(counts).encode())

    def join(self, federation: str, policy: Callable[[], Policy], most: int) -> None:
        """Join a federation, unless that would be one too many; one that was joined before is none more."""
        if self.record(federation).policy_file.exists():
            return
        own = SiteRecord(self.folder)
        with own.locked():  # so that of two that come at once, one is too many
            joined = self.federations()
            too_many = federation not in joined and len(joined) >= most
            if not too_many:
                made = policy()
                joined += [] if federation in joined else [federation]
                write_whole(self.file, (json.dumps({"joined": joined}, indent=1) + "\n").encode())
                self.record(federation).join(made)
        if too_many:
            error = TooManyFederations(
                f"federation {federation} would be number {len(joined) + 1} that this site joins, and it joins {most}: "
                f"if you know who began it and why, write max_federations = {len(joined) + 1} into site.toml"
            )
            own.note(Failure(-1, 0, "refused", str(error)), "introduction")
            raise error


class FewSamplesChanged(CoterieError):
    """Data that differ by a few samples from those on which the site's last answer stands."""


class TooManyFederations(CoterieError):
    """A federation beyond those that the site's owner lets it join."""


def _damaged(file: Path, error: Exception) -> CoterieError:
    return CoterieError(
        f"'{file}' is damaged ({one_line(str(error))}): put back a copy, or leave the federation and join it anew"
    )

"""The client's ledger: what it has told, under which mechanism, and how much more it may tell. The unit is one sample.

A folder of its own holds three things:

``secret``          32 random bytes, from which noise is made; readable by the owner only
``releases.jsonl``  a line for each event, with a digest of it and all lines before
``answers/``        what was answered, a file for each question, named by the question's digest

A release is charged first, then made, then kept, then marked as kept, each step flushed to the disk before the next,
and only then sent:

- a question that comes again gets the very bytes that were kept, whatever has changed since, and costs nothing;
- where they were kept and are gone, it is refused: made anew, two answers would average the noise away, or tell what
  changed;
- a kill before they were kept leaves a charge for which nothing was sent: the question is answered under it, with new
  noise.

Whoever can write the folder can set it back: it protects a client from servers, not from its owner.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coterie.bounded import parse_json, read_bytes
from coterie.errors import CoterieError
from coterie.files import extend, flush_folder, make_folder, open_lock, remove, take_lock, write_first, write_whole
from coterie.privacy.accounting import Filter, Release, spent
from coterie.privacy.gaussian import check_guarantee
from coterie.privacy.randomness import Randomness, SecretRandomness, derived_key

LARGEST = 2**30
"""Bytes of a ledger, and of an answer."""
SECRET = 32
"""Bytes of a client's secret."""


ROUNDING = 1e-9
"""The share of a limit by which what is spent may exceed it: σ for an ε costs that ε up to rounding."""


class BudgetSpent(Exception):
    """A client does not answer: its limit allows no more, or the answer that it gave is no longer kept."""


@dataclass(frozen=True)
class PrivacyLimit:
    """The most that a client will ever tell of one of its samples."""

    epsilon: float
    delta: float
    by: Filter = "gaussian"
    """How releases are added up; ``renyi`` where some draw samples by coins, as private training does."""

    def __post_init__(self) -> None:
        check_guarantee(self.epsilon, self.delta)
        if self.by not in ("gaussian", "renyi"):
            raise ValueError(f"releases are added up by 'gaussian' or 'renyi', not by '{self.by}'")


@dataclass(frozen=True)
class PrivacySpent:
    """What a client has told so far."""

    epsilon: float | None
    """At the limit's δ."""
    releases: int


@dataclass(frozen=True)
class OpenRelease:
    """A question that is being answered, and has been charged."""

    told: bytes | None
    """What was answered before; None: nothing, so that an answer is to be made, and kept."""
    randomness: Randomness
    keep: Callable[[bytes], bytes]
    """Keeps an answer on disk, and returns it; not before that may it be sent."""


class ReleaseLedger:
    """What a client has released, in a folder; processes and threads take turns."""

    def __init__(
        self, folder: Path, limit: PrivacyLimit | None = None, simulated: Callable[[str], Randomness] | None = None
    ) -> None:
        """Without a limit everything is answered, and charged.

        In a simulation noise comes from what `simulated` returns for the digest of a question, and not from a secret.
        """
        self.folder, self.limit, self._simulated = folder, limit, simulated
        self._path, self._answers = folder / "releases.jsonl", folder / "answers"

    def answer(self, question: bytes, release: Release, make: Callable[[Randomness], bytes]) -> bytes:
        """Return what was answered to a question, or charge a release, make the answer and keep it.

        `question` are the bytes of the request, `make` returns those of the answer from secret randomness. Raise
        BudgetSpent where the limit does not allow it.
        """
        with self.opened(question, release) as opened:
            return opened.keep(make(opened.randomness)) if opened.told is None else opened.told

    @contextmanager
    def opened(self, question: bytes, release: Release) -> Iterator[OpenRelease]:
        """Do the same for an answer that is made in the block, which others wait for."""
        digest = question_digest(question)
        with self._locked():
            book, told = self._read(), None
            if digest in book.kept:
                told = self._kept(digest, book.kept[digest])
            elif digest not in book.charged:
                self._check(book, release)
                self._append(book, {"event": "charge", "question": digest, "release": asdict(release)})
            elif (found := self._found(digest)) is not None:  # a kill came between keeping it and saying so
                told = self._keep(book, digest, found)

            def keep(made: bytes) -> bytes:
                write_whole(self._answers / digest, made, "folder", 0o600)
                return self._keep(book, digest, made)

            yield OpenRelease(told, self._randomness(digest, book), keep)

    def spent(self) -> PrivacySpent:
        """Return what was told so far, as far as it was charged; without a limit ε is not known."""
        with self._locked():
            book = self._read()
        cost = None if self.limit is None else self._cost(book.counts, self.limit)
        return PrivacySpent(cost, sum(book.counts.values()))

    def forget(self, keep: int, what: str | None = None) -> None:
        """Remove all answers, or those of one kind, but the last ones.

        Their questions are refused from now on, and stay charged.
        """
        with self._locked():
            book = self._read()
            old = [digest for digest in book.kept if what in (None, book.charged[digest])]
            for digest in old[: max(0, len(old) - keep)]:
                remove(self._answers / digest)
            flush_folder(self._answers)

    def _check(self, book: "_Book", release: Release) -> None:
        """Refuse what goes beyond the limit."""
        if (limit := self.limit) is None:
            return
        if limit.by == "gaussian" and any(told.rate < 1 for told in book.counts):
            raise BudgetSpent(
                "this client has told what its limit could not count, as samples were drawn by coins: its owner can "
                f'write limit = "epsilon={limit.epsilon:g},delta={limit.delta:g},by=renyi"'
            )
        cost = self._cost({**book.counts, release: book.counts.get(release, 0) + 1}, limit)
        if cost > limit.epsilon * (1 + ROUNDING):
            raise BudgetSpent(
                f"'{release.what}' would bring what this client has told to ε = {cost:.3g}, beyond its limit of "
                f"{limit.epsilon:g} at δ = {limit.delta:g}; {self._cost(book.counts, limit):.3g} is spent"
            )

    @staticmethod
    def _cost(counts: dict[Release, int], limit: PrivacyLimit) -> float:
        return spent(counts, limit.epsilon, limit.delta, limit.by)

    def _randomness(self, digest: str, book: "_Book") -> Randomness:
        """Return what no one has drawn before: also after a folder was set back, or where the system's is poor."""
        if self._simulated is not None:
            return self._simulated(digest)
        key = derived_key(self._secret(), digest.encode(), str(book.events).encode(), os.urandom(SECRET))
        return SecretRandomness(key)

    def _secret(self) -> bytes:
        path = self.folder / "secret"
        write_first(path, os.urandom(SECRET), 0o600)
        secret = read_bytes(path, SECRET)
        if len(secret) != SECRET:
            raise self._damaged(path, f"it has {len(secret)} bytes, not {SECRET}")
        return secret

    def _keep(self, book: "_Book", digest: str, made: bytes) -> bytes:
        self._append(book, {"event": "keep", "question": digest, "answer": hashlib.sha256(made).hexdigest()})
        return made

    def _kept(self, digest: str, answer: str) -> bytes:
        found = self._found(digest)
        if found is None or hashlib.sha256(found).hexdigest() != answer:
            raise BudgetSpent(
                "this question was answered before, and the answer is no longer kept: another one would tell more"
            )
        return found

    def _found(self, digest: str) -> bytes | None:
        try:
            return read_bytes(self._answers / digest, LARGEST)
        except FileNotFoundError:
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_folder(self._answers)
        with open_lock(self.folder / "lock") as file:
            take_lock(file, wait=True)
            yield

    def _append(self, book: "_Book", event: dict[str, Any]) -> None:
        line = json.dumps({**event, "chain": book.next_link(event)}).encode() + b"\n"
        extend(self._path, line, at=book.length, flush="folder")
        book.note(event, len(line))

    def _read(self) -> "_Book":
        """Read all events; half a line at the end is of one that a kill cut off, for which nothing was sent."""
        book = _Book()
        try:
            content = read_bytes(self._path, LARGEST)
        except FileNotFoundError:
            if any(self._answers.iterdir()):
                raise self._damaged(self._path, "it is missing, and there are answers") from None
            return book
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            try:
                event = parse_json(line)
                link = event.pop("chain")
                if link != book.next_link(event):
                    raise ValueError("it is not what was written")
                book.note(event, len(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise self._damaged(self._path, f"line {number}: {error}") from None
        return book

    def _damaged(self, path: Path, why: str) -> CoterieError:
        return CoterieError(
            f"'{path}' is damaged ({why}): put back a copy; without it nobody knows what this client has told, and it "
            "answers nothing"
        )


def question_digest(question: bytes) -> str:
    """Return the name of a question."""
    return hashlib.sha256(question).hexdigest()


class _Book:
    """The events of a ledger."""

    def __init__(self) -> None:
        self.charged: dict[str, str] = {}
        """What each question was charged for."""
        self.kept: dict[str, str] = {}
        """The digests of answers by those of questions, in the order of events."""
        self.counts: dict[Release, int] = {}
        self.length = self.events = 0
        self._chain = hashlib.sha256()

    def next_link(self, event: dict[str, Any]) -> str:
        """Return the digest of an event and all before it."""
        chain = self._chain.copy()
        chain.update(json.dumps(event, sort_keys=True).encode())
        return chain.hexdigest()

    def note(self, event: dict[str, Any], length: int) -> None:
        """Take over an event, of so many bytes."""
        if event["event"] == "charge":
            release = Release(**event["release"])
            self.charged[event["question"]] = release.what
            self.counts[release] = self.counts.get(release, 0) + 1
        elif event["event"] == "keep":
            self.kept[event["question"]] = event["answer"]
        else:
            raise ValueError(f"there is no event '{event['event']}'")
        self._chain.update(json.dumps(event, sort_keys=True).encode())
        self.length += length
        self.events += 1

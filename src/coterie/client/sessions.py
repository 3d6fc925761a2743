"""What a client keeps between the steps of a secure sum, and after it: its secrets, and what it has answered.

A step that is asked again is answered with the same bytes, whatever has changed since; with another question it is
refused. So no two sums of a round differ by one client. Only before it has sent its input may a client be asked to
begin anew, with fresh keys: nothing was hidden by the old ones. It is kept before it is answered, and only if nothing
was kept since the question was looked at: of two that come at the same time, to two processes, one is answered. The
secrets go with the last answer, or when a later round begins; what is left then says that the round is over.

Keys and shares of the next round may be asked for ahead, with the last two steps of this one. They are a session inside
this one until their round begins.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from coterie.bounded import read_bytes
from coterie.client.protection import Withheld
from coterie.errors import CoterieError
from coterie.files import Flush, make_folder, open_lock, remove, seal, take_lock, write_whole
from coterie.messages import SECURE, ClientId, Keys, MaskedTrain, Reply, Request, Shares, Unmask, Verb, wire
from coterie.secure import Participant, PublicKeys, threshold
from coterie.secure.signatures import Agreement

LARGEST = 2**33
LOCK = "session.lock"
_NAME = re.compile(r"(0|[1-9][0-9]{0,17})\.session")
_HALF = re.compile(r"[0-9]+\.session\.part")
"""What a process leaves that is killed while it writes one: secrets, too."""
OVER = b""
"""What is kept of a round that is over."""


Kept: TypeAlias = tuple[int | None, bytes]
"""What a client keeps: the round of its latest session, and that session."""


@dataclass
class SecureSession:
    """One client's part in the secure sum of one round."""

    round: int
    me: Participant | None = None
    """Its secrets; None before the first step, and after the last."""
    clients: tuple[int, ...] = ()
    """Who advertised keys (U1)."""
    sharers: tuple[int, ...] = ()
    """Who shared secrets (U2)."""
    minimum: int = 0
    """The smallest number of survivors."""
    question: str = ""
    """What was asked when it sent its input, as `question_of` names it."""
    agreed: tuple[int, ...] = ()
    """The survivors (U3) that it has signed."""
    answers: dict[str, tuple[str, Reply]] = field(default_factory=dict)
    """By step: the digest of the question, and what was answered."""
    ahead: SecureSession | None = None
    """Its part in the next round's sum, as far as it was asked for ahead."""
    found: Kept = field(default=(None, b""), repr=False)
    """What was kept when it was opened."""

    @property
    def secrets(self) -> Participant:
        """Its secrets; refuse a step that comes too early or too late."""
        if self.me is None:
            raise Withheld(f"round {self.round} of a secure sum has no keys: it begins with Keys, and is summed once")
        return self.me

    @property
    def agreement(self) -> Agreement:
        """What it has been told of the sum, and has agreed to."""
        return Agreement(self.secrets.context, self.clients, self.question, self.agreed)

    def check(self, survivors: Collection[int]) -> None:
        """Refuse to help with a sum of these survivors."""
        me, found = self.secrets, frozenset(survivors)
        near = {me.id, *me.neighbours}
        if not {me.id} <= found <= {*self.sharers}:
            raise Withheld("the survivors of a secure sum are some who shared secrets, and this client is among them")
        if len(found) < self.minimum:
            raise Withheld(f"{len(found)} survivors of a secure sum, where {self.minimum} are the fewest")
        if len(found & near) < threshold(len(near)):
            raise Withheld("too few of this client's neighbours survived")

    def at(self, ahead: bool) -> SecureSession:
        """Return this session, or the one of the next round."""
        if not ahead:
            return self
        if self.ahead is None:
            self.ahead = SecureSession(self.round + 1)
        return self.ahead

    def answered(self, request: Request) -> Reply | None:
        """Return what this question was answered with, None if it is new; refuse another one in the same step."""
        known = self.answers.get(step_of(request) or "")
        if known is None:
            return None
        if known[0] != wire.digest(request):
            raise Withheld(f"in round {self.round} this step of a secure sum was asked with other inputs")
        return known[1]

    def note(self, request: Request, reply: Reply) -> None:
        """Remember an answer; with the last the secrets go."""
        step = step_of(request)
        self.answers[str(step)] = wire.digest(request), reply
        if step == Unmask.__name__:
            self.me = None

    def pack(self) -> bytes:
        """Return it as bytes."""
        return wire.pack(self._content(), checksum=True)

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {"clients": self.clients, "sharers": self.sharers, "minimum": self.minimum}
        content |= {"question": self.question, "agreed": self.agreed}
        content["answers"] = {step: [digest, reply] for step, (digest, reply) in self.answers.items()}
        if self.me is not None:
            me = self.me
            content["me"] = {
                "id": me.id,
                "context": me.context,
                "secrets": [text.hex() for text in (me.mask_key, me.share_key, me.seed, me.own_shares)],
                "neighbours": {str(j): [keys.mask.hex(), keys.share.hex()] for j, keys in me.neighbours.items()},
            }
        if self.ahead is not None:
            content["ahead"] = self.ahead._content()
        return content

    @classmethod
    def unpack(cls, round: int, content: bytes) -> SecureSession:
        """Return what `pack` made bytes of; refuse other bytes."""
        try:
            return cls._of(round, wire.unpack(content))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CoterieError(f"what was kept of the secure sum of round {round} can't be read ({error})") from None

    @classmethod
    def _of(cls, round: int, told: dict[str, Any]) -> SecureSession:
        me = None
        if kept := told.get("me"):
            near = {int(j): PublicKeys(*map(bytes.fromhex, keys)) for j, keys in kept["neighbours"].items()}
            mask_key, share_key, seed, own = map(bytes.fromhex, kept["secrets"])
            me = Participant(kept["id"], kept["context"], mask_key, share_key, seed, own, near)
        answers = {step: (str(digest), reply) for step, (digest, reply) in told["answers"].items()}
        if not all(isinstance(reply, Reply) for _, reply in answers.values()):
            raise ValueError("an answer is not one")
        ahead = cls._of(round + 1, told["ahead"]) if "ahead" in told else None
        agreed = str(told.get("question", "")), tuple(told.get("agreed", ()))
        known = tuple(told["clients"]), tuple(told["sharers"]), int(told["minimum"]), *agreed
        return cls(round, me, *known, answers, ahead)


def step_of(request: Request) -> str | None:
    """Name the step of a secure sum that a request asks for, if it does."""
    for verb in request.verbs:
        if isinstance(verb, SECURE) and not _is_ahead(verb):
            return type(verb).__name__
    return None


def _is_ahead(verb: Verb) -> bool:
    return isinstance(verb, Keys | Shares) and verb.ahead


class Sessions(Protocol):
    """Where clients keep their sessions: of each the latest."""

    def round(self, client: ClientId) -> int | None:
        """Return the round of a client's latest session."""
        ...

    def load(self, client: ClientId) -> bytes:
        """Return that session."""
        ...

    def save(self, client: ClientId, round: int, content: bytes) -> None:
        """Keep a session in place of the one before."""
        ...

    def locked(self, client: ClientId) -> AbstractContextManager[object]:
        """Let one thread of one process at a time look at a client's session and change it."""
        ...


class MemorySessions:
    """Sessions in this process; of the latest two rounds, since an earlier one is over and has no keys for them."""

    def __init__(self) -> None:
        self._latest, self._kept = -1, dict[ClientId, tuple[int, bytes]]()
        self._lock = threading.RLock()

    def round(self, client: ClientId) -> int | None:
        """Return the round of a client's latest session."""
        return self._kept[client][0] if client in self._kept else None

    def load(self, client: ClientId) -> bytes:
        """Return that session."""
        return self._kept[client][1]

    def save(self, client: ClientId, round: int, content: bytes) -> None:
        """Keep a session; those of rounds before the last are over, whosever they are."""
        with self._lock:
            if round > self._latest:
                self._latest = round
                self._kept = {
                    other: (earlier, content if earlier >= round - 1 else OVER)
                    for other, (earlier, content) in self._kept.items()
                }
            self._kept[client] = round, content

    def locked(self, client: ClientId) -> AbstractContextManager[object]:
        """Let one thread at a time in."""
        return self._lock


class SessionFiles:
    """A file for each client, in its folder among the states."""

    def __init__(self, folder: Path, durable: bool = False) -> None:
        self._folder = folder
        self._flush: Flush = "folder" if durable else "nothing"

    def round(self, client: ClientId) -> int | None:
        """Return the round of a client's latest session."""
        return max(self._rounds(client), default=None)

    def load(self, client: ClientId) -> bytes:
        """Return that session; refuse one that is not what was written."""
        path = self._path(client, max(self._rounds(client)))
        content = read_bytes(path, LARGEST)
        try:
            if content != OVER:
                seal(content)
        except ValueError as error:
            raise CoterieError(f"'{path}', of a secure sum, can't be used ({error}): remove it") from None
        return content

    def save(self, client: ClientId, round: int, content: bytes) -> None:
        """Keep a session; the one before goes when it is there."""
        path = self._path(client, round)
        make_folder(path.parent, self._flush != "nothing")
        write_whole(path, content, self._flush, mode=0o600)
        for name in os.listdir(path.parent):
            if name != path.name and (_NAME.fullmatch(name) or _HALF.fullmatch(name)):
                remove(path.parent / name)

    @contextmanager
    def locked(self, client: ClientId) -> Iterator[None]:
        """Let one process at a time in: Flower starts one for each message."""
        make_folder(self._folder / str(client), self._flush != "nothing")
        with open_lock(self._folder / str(client) / LOCK) as file:
            take_lock(file, wait=True)
            yield

    def forget(self, clients: Iterable[ClientId]) -> None:
        """Remove the sessions of simulated clients, who were killed together with their server."""
        for client in clients:
            for round in self._rounds(client):
                remove(self._path(client, round))

    def _path(self, client: ClientId, round: int) -> Path:
        return self._folder / str(client) / f"{round}.session"

    def _rounds(self, client: ClientId) -> list[int]:
        try:
            names = os.listdir(self._folder / str(client))
        except FileNotFoundError:
            return []
        return [int(found[1]) for name in names if (found := _NAME.fullmatch(name))]


def opened(sessions: Sessions, client: ClientId, request: Request) -> SecureSession | None:
    """Return a client's session, if the request is of a secure sum; what was before the request's round is over."""
    if error := error_in_steps(request):
        raise Withheld(error)
    asked = step_of(request)
    if asked is None and sessions.round(client) is None:
        return None
    with sessions.locked(client):
        _end_earlier(sessions, client, request.round)
        if asked is None:
            if request.measures:
                _end_secrets(sessions, client, request.round)
            return None
        found = _kept(sessions, client)
    session = _session(found, asked, request)
    session.found = found
    return session


def _session(found: Kept, asked: str, request: Request) -> SecureSession:
    """Return the session in which a step is answered, given what is kept; refuse a round that is over."""
    latest, content = found
    if latest is None or latest < request.round:
        return SecureSession(request.round)
    if latest > request.round or content == OVER:
        raise Withheld(f"round {request.round} of secure sums is over")
    session = SecureSession.unpack(latest, content)
    if asked == Keys.__name__ and MaskedTrain.__name__ not in session.answers:
        known = session.answers.get(asked)
        return session if known is not None and known[0] == wire.digest(request) else SecureSession(request.round)
    return session


def kept_answer(sessions: Sessions, client: ClientId, session: SecureSession, request: Request, reply: Reply) -> Reply:
    """Keep an answer, and return it: then it may be sent.

    If something was kept since the session was opened, another process has answered this client's server. What that has
    answered to the same question is returned; else nothing is, as two answers to one step would open an input.
    """
    session.note(request, reply)
    with sessions.locked(client):
        if _kept(sessions, client) == session.found:
            sessions.save(client, request.round, session.pack())
            return reply
    other = opened(sessions, client, request)
    told = None if other is None else other.answered(request)
    if told is None:
        raise Withheld(
            f"in round {request.round} two steps of a secure sum were asked at the same time: one is answered"
        )
    return told


def _kept(sessions: Sessions, client: ClientId) -> Kept:
    latest = sessions.round(client)
    return latest, b"" if latest is None else sessions.load(client)


def error_in_steps(request: Request) -> str | None:
    """Say why a request is not one step of a secure sum, with one input, or with a step ahead where that may be."""
    steps = [verb for verb in request.verbs if isinstance(verb, SECURE)]
    if not steps:
        return None
    now, ahead = ([verb for verb in steps if _is_ahead(verb) == later] for later in (False, True))
    inputs = [verb for verb in now if not isinstance(verb, MaskedTrain) or verb.send]
    if len({*map(type, now)}) > 1 or len(inputs) > 1:
        return "a request is one step of a secure sum"
    allowed = [(MaskedTrain, Keys), (Unmask, Shares)]
    if ahead and (not inputs or (type(inputs[0]), *map(type, ahead)) not in allowed):
        return "of the next secure sum, Keys go with MaskedTrain, and Shares with Unmask"
    return None


def _end_earlier(sessions: Sessions, client: ClientId, round: int) -> None:
    """End a client's session of an earlier round; what it was asked for ahead of this round is its session now."""
    latest = sessions.round(client)
    if latest is None or latest >= round or (content := sessions.load(client)) == OVER:
        return
    ahead = SecureSession.unpack(latest, content).ahead
    if ahead is not None and ahead.round == round:
        sessions.save(client, round, ahead.pack())
    else:
        sessions.save(client, latest, OVER)


def _end_secrets(sessions: Sessions, client: ClientId, round: int) -> None:
    """Erase what a client that was not asked to unmask kept for that; in the last round nothing else would.

    It has been asked for accuracies, so the round's training is over. What it answered stays, to be answered again.
    """
    latest, content = _kept(sessions, client)
    if latest != round or content == OVER:
        return
    session = SecureSession.unpack(round, content)
    if session.me is not None:
        session.me = None
        sessions.save(client, round, session.pack())

"""Carrying requests to the nodes of a Flower grid, and reading what comes back."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.app import BESIDE, FAILED, HELLO, MISTAKE, WIRE, wire_record
from coterie.federation.exchange import largest_reply
from coterie.messages import ClientId, Failure, Reply, Request, wire
from coterie.messages.limits import MOST_SAMPLES

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.serverapp import Grid

POLL_COST = 2e-4
"""Seconds that Flower's simulation takes to look for one reply; pauses grow with it, so that looking stays cheap."""
HELD_UP = 2.0
"""Seconds for which one reply may hold up the others; then it is left to its thread."""
GONE = "its node is gone"
OWN_FAILURES = ("diverged", "refused", "withheld", FAILED, MISTAKE)
"""Failures that a client may report of itself."""


class GridTransport:
    """Carries messages to nodes and back, over a grid."""

    def __init__(
        self,
        grid: Grid,
        pause: float,
        *,
        federation: str = "",
        untrusted: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`pause` is the seconds between looks for replies; `check` is called before each, and may raise.

        With `untrusted` nodes each reply is polled for alone.
        """
        self.grid, self.pause, self.federation, self.check = grid, pause, federation, check
        self._poller = ReplyPoller(grid) if untrusted else None

    def greet(self, nonces: Mapping[int, str], seconds: float | None) -> dict[str, int]:
        """Ask nodes to introduce themselves, without waiting; return the nodes by message id, for `introductions`.

        Each gets a number of its own, by which its introduction can be told from an earlier one.
        """
        from flwr.app import ConfigRecord, RecordDict

        beside = {node: ConfigRecord({"federation": self.federation, "nonce": it}) for node, it in nonces.items()}
        greetings = {node: Parcel(node, f"query.{HELLO}", RecordDict({BESIDE: it})) for node, it in beside.items()}
        return self._push(greetings, seconds)[0]

    def introductions(self, waiting: dict[str, int]) -> dict[int, Mapping[str, Any] | None]:
        """Take those that have answered out of `waiting`; return their introductions, None for a node that failed."""
        return {node: read_introduction(message) for node, message in self._poll(waiting)}

    def exchange(
        self,
        nodes: Mapping[ClientId, int],
        requests: Mapping[ClientId, Request],
        deadline: float | None,
        samples: Mapping[ClientId, int] | None = None,
    ) -> Iterator[Reply | Failure]:
        """Carry requests to the nodes of clients; yield what each answered, or why there is no answer.

        One node may serve several clients. How many `samples` clients declared says how long their answers can be.
        """
        from flwr.app import ConfigRecord, RecordDict

        records: dict[int, ArrayRecord] = {}  # one request for many clients is written once
        outgoing = {}
        for client, request in requests.items():
            if client not in nodes:
                yield Failure(client, request.round, "dropped", GONE)
                continue
            if id(request) not in records:
                records[id(request)] = wire_record(wire.encode(request))
            beside = ConfigRecord({"client": client, "federation": self.federation})
            content = RecordDict({WIRE: records[id(request)], BESIDE: beside})
            outgoing[client] = Parcel(nodes[client], "evaluate" if request.measures else "train", content)
        for client, message in self._send_and_receive(outgoing, deadline):
            yield read_answer(message, client, requests[client], (samples or {}).get(client, MOST_SAMPLES))

    def _send_and_receive(
        self, outgoing: Mapping[int, Parcel], deadline: float | None
    ) -> Iterator[tuple[int, Message | NoReply]]:
        """Send messages, each of which has a number here, and yield what comes back to which."""
        end = None if deadline is None else time.monotonic() + deadline
        waiting, gone = self._push(outgoing, deadline)
        try:
            yield from ((number, NoReply("dropped", GONE)) for number in gone)
            while waiting:
                self.check()
                yield from self._poll(waiting)
                if waiting and end is not None and time.monotonic() >= end:
                    break
                if waiting:
                    time.sleep(max(self.pause, POLL_COST * len(waiting)))
            yield from ((number, NoReply("late", f"nothing came within {deadline:g} s")) for number in waiting.values())
        finally:  # also where enough others have answered
            if self._poller is not None:
                self._poller.abandon(waiting)

    def _push(self, outgoing: Mapping[int, Parcel], seconds: float | None) -> tuple[dict[str, int], list[int]]:
        """Send messages; return their numbers here by Flower's ids, and the numbers of those whose nodes are gone."""
        from flwr.app import Message

        waiting: dict[str, int] = {}
        gone = []
        for number, parcel in outgoing.items():
            message = Message(parcel.content, parcel.node, parcel.kind, ttl=seconds)
            ids = [str(id) for id in self.grid.push_messages([message]) if id]
            waiting |= dict.fromkeys(ids[:1], number)
            gone += [] if ids else [number]
        return waiting, gone

    def _poll(self, waiting: dict[str, int]) -> Iterator[tuple[int, Message | NoReply]]:
        """Look once for replies; yield those that have come, and take them out of `waiting`.

        Replies are told apart by the message they reply to: Flower reports a lost node in the name of another.
        """
        if self._poller is not None:
            for message_id, reply in self._poller.poll(waiting):
                yield waiting.pop(message_id), reply
            return
        for message in self.grid.pull_messages(list(waiting)):
            number = waiting.pop(message.metadata.reply_to_message_id, None)
            if number is not None:
                yield number, message


def read_answer(
    message: Message | NoReply, client: ClientId, request: Request, samples: int = MOST_SAMPLES
) -> Reply | Failure:
    """Read what came back for a client that declared so many samples; what is not an answer in its name is a failure.

    Too long an answer is refused before it is decoded.
    """

    def failure(kind: str, detail: str) -> Failure:
        return Failure(client, request.round, kind, detail)

    if isinstance(message, NoReply):
        return failure(message.kind, message.detail)
    if message.has_error():
        return failure("dropped", f"Flower: {message.error.reason or f'error {message.error.code}'}")
    try:
        blob = message.content.array_records[WIRE][WIRE].data
    except Exception:  # whatever Flower let through
        return failure("invalid", "a message without an answer")
    limit = largest_reply(request, samples)
    if len(blob) > limit:
        return failure("invalid", f"{len(blob):,} bytes, where {limit:,} are the most that can be asked for")
    try:
        answer = wire.decode(blob)
    except wire.WireError as error:
        return failure("invalid", str(error))
    if not isinstance(answer, Reply | Failure):
        return failure("invalid", "a request in place of an answer")
    if answer.client != client:
        return failure("invalid", f"speaks for client {answer.client}")
    if isinstance(answer, Reply):
        return answer
    return failure(answer.kind, answer.detail) if answer.kind in OWN_FAILURES else failure("invalid", "an odd failure")


def read_introduction(message: Message | NoReply) -> Mapping[str, Any] | None:
    """Read how a node introduces itself: empty if it can't be understood, None if nothing came."""
    if isinstance(message, NoReply):
        return {} if message.kind == "invalid" else None
    if message.has_error():
        return None
    try:
        return dict(message.content.config_records[BESIDE])
    except Exception:  # whatever Flower let through
        return {}


@dataclass(frozen=True)
class Parcel:
    """What goes to a node."""

    node: int
    kind: str
    content: RecordDict


@dataclass(frozen=True)
class NoReply:
    """Why a node sent no message, as the kind and the detail of a failure."""

    kind: str
    detail: str


class ReplyPoller:
    """Looks for the reply to each message alone, in a thread that may be left behind.

    Flower unpacks what nodes send before anybody can look at it, and what can't be unpacked ends the look. It also
    waits while a node has not sent all of its reply, which may take minutes.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._looks, self._lock = 0, threading.Lock()
        self._under_way: set[str] = set()
        """Messages whose replies a thread is looking for, or has found."""
        self._taken: set[str] = set()
        """Of these, those whose replies this look received. Flower gives nothing twice: only a new look may ask."""
        self._arrivals: queue.SimpleQueue[tuple[str, Message | NoReply | BaseException]] = queue.SimpleQueue()
        self._replies: dict[str, Message | NoReply] = {}
        self._unwanted: set[str] = set()

    def poll(self, message_ids: Iterable[str]) -> Iterator[tuple[str, Message | NoReply]]:
        """Look once for the replies to messages; yield those that have come, by the message they reply to."""
        wanted = set(message_ids)
        with self._lock:  # which ends earlier looks
            self._looks += 1
            self._under_way -= self._taken
            self._taken.clear()
        arguments = self._looks, [*((wanted | self._unwanted) - self._replies.keys())]
        thread = threading.Thread(target=self._pull_all, args=arguments, name="replies", daemon=True)
        thread.start()
        thread.join(HELD_UP)
        while not self._arrivals.empty():
            message_id, reply = self._arrivals.get()
            self._taken.add(message_id)
            if isinstance(reply, BaseException):
                raise reply
            self._replies[message_id] = reply
        for message_id in self._unwanted & self._replies.keys():
            self._unwanted.remove(message_id)
            del self._replies[message_id]
        for message_id in wanted & self._replies.keys():
            yield message_id, self._replies.pop(message_id)

    def abandon(self, message_ids: Iterable[str]) -> None:
        """Stop waiting for these replies, but take them when they come: Flower would keep them until the end."""
        self._unwanted.update(message_ids)

    def _pull_all(self, look: int, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            with self._lock:
                if look != self._looks:  # this look was held up, and the next has begun
                    return
                if message_id in self._under_way:
                    continue
                self._under_way.add(message_id)
            try:
                reply = self._pull(message_id)
                if reply is None:
                    self._under_way.discard(message_id)
                else:
                    self._arrivals.put((message_id, reply))
            except BaseException as error:
                self._arrivals.put((message_id, error))

    def _pull(self, message_id: str) -> Message | NoReply | None:
        """Look for one reply; nothing that it says of itself, not even that it is a message, can be trusted."""
        from flwr.app import Message
        from httpx import HTTPError

        try:
            pulled = list(self._grid.pull_messages([message_id]))
        except (HTTPError, OSError):  # the SuperLink can't be reached
            raise
        except Exception as error:
            return NoReply("invalid", f"can't be unpacked: {type(error).__name__}")
        for reply in pulled:
            if isinstance(reply, Message) and reply.metadata.reply_to_message_id == message_id:
                return reply
        return NoReply("invalid", "not a reply to what was asked") if pulled else None

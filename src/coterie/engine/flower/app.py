"""The two sides of a Flower app, in terms of bytes: what a node answers, and how the server carries requests there.

A message of Coterie travels as the bytes of `coterie.messages.wire`, in an `ArrayRecord`, which Flower cuts into
chunks and stores once however many nodes get it. Beside it stands who is meant.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.answering import FAILED, MISTAKE, Site, Told
from coterie.federation.validation import largest_reply
from coterie.messages import EVALUATION, ClientId, Failure, Reply, Request, wire

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

LOOKING = 2e-4
"""Seconds that a look for one reply takes in Flower's simulation; not much more than that is spent on looking."""
HELD_UP = 2.0
"""Seconds for which a look for replies may hold up the others; then it goes on beside them."""
WIRE, BESIDE = "wire", "beside"
HELLO = "hello"
GONE = "its node is gone"
OWN_FAILURES = ("diverged", "refused", FAILED, MISTAKE)
"""What a client may say instead of an answer."""


def client_app(site: Callable[[Mapping[str, Any]], Site], told: Told) -> ClientApp:
    """Make the app of a node; `site` finds what answers there from the node's configuration.

    Whatever goes wrong, the server hears no more of it than `told` says; all of it is in the node's log.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query(HELLO)  # type: ignore[untyped-decorator,unused-ignore]
    def hello(message: Message, context: Context) -> Message:
        federation = str(message.content.config_records[BESIDE]["federation"])
        try:
            card = site(context.node_config).card(federation)
        except Exception as error:
            logging.getLogger("coterie").exception("this site can't take part")
            card = {"problem": told(error)[1]}
        return Message(RecordDict({BESIDE: ConfigRecord(dict(card))}), reply_to=message)

    @app.train()  # type: ignore[untyped-decorator,unused-ignore]
    @app.evaluate()  # type: ignore[untyped-decorator,unused-ignore]
    def ask(message: Message, context: Context) -> Message:
        beside, blob = message.content.config_records[BESIDE], message.content.array_records[WIRE][WIRE].data
        client, federation = int(str(beside["client"])), str(beside["federation"])
        try:
            answer = site(context.node_config).answer(client, federation, blob)
        except Exception as error:
            logging.getLogger("coterie").exception("a request could not be answered")
            answer = wire.encode(Failure(client, 0, *told(error)))
        return Message(RecordDict({WIRE: enclosed(answer)}), reply_to=message)

    return app


def server_app(main: Callable[[Grid], None]) -> ServerApp:
    """Make the app of the server from what it does with a grid of nodes."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def run(grid: Grid, context: Context) -> None:
        main(grid)

    return app


def enclosed(blob: bytes) -> ArrayRecord:
    """Put bytes into a record."""
    from flwr.app import Array, ArrayRecord

    return ArrayRecord({WIRE: Array("uint8", (len(blob),), "coterie", blob)})


@dataclass(frozen=True)
class Missing:
    """Why there is no message of a node, as the kind and the detail of a failure."""

    kind: str
    detail: str


class GridTransport:
    """Carries messages to nodes and back, over a grid."""

    def __init__(
        self,
        grid: Grid,
        pause: float,
        *,
        federation: str = "",
        wary: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`pause` is how many seconds to wait before looking for replies again; `check` may end the waiting.

        Where nodes belong to others, be `wary`, and look for each reply alone.
        """
        self.grid, self.pause, self.federation, self.check = grid, pause, federation, check
        self._alone = ReplyPoller(grid) if wary else None

    def greet(self, nodes: Iterable[int], seconds: float | None) -> dict[str, int]:
        """Ask nodes who they are, and do not wait; return what `heard` needs."""
        from flwr.app import ConfigRecord, RecordDict

        greeting = RecordDict({BESIDE: ConfigRecord({"federation": self.federation})})
        return self._push(dict.fromkeys(nodes, (f"query.{HELLO}", greeting)), seconds)[0]

    def heard(self, waiting: dict[str, int]) -> dict[int, Mapping[str, Any] | None]:
        """Return what nodes have answered that are taken out of those waited for; None: that they could not."""
        return {node: _card(message) for node, message in self._look(waiting)}

    def exchange(
        self, nodes: Mapping[ClientId, int], requests: Mapping[ClientId, Request], deadline: float | None
    ) -> Iterator[Reply | Failure]:
        """Carry requests to the nodes of clients; yield what each answered, or why there is no answer."""
        from flwr.app import ConfigRecord, RecordDict

        records: dict[int, ArrayRecord] = {}  # one request for many clients is written once
        outgoing, clients = {}, {}
        for client, request in requests.items():
            if client not in nodes:
                yield Failure(client, request.round, "dropped", GONE)
                continue
            if id(request) not in records:
                records[id(request)] = enclosed(wire.encode(request))
            beside = ConfigRecord({"client": client, "federation": self.federation})
            content = RecordDict({WIRE: records[id(request)], BESIDE: beside})
            outgoing[nodes[client]] = ("evaluate" if request.kind == EVALUATION else "train", content)
            clients[nodes[client]] = client
        for node, message in self._carried(outgoing, deadline):
            yield received(message, clients[node], requests[clients[node]])

    def _carried(
        self, outgoing: Mapping[int, tuple[str, RecordDict]], deadline: float | None
    ) -> Iterator[tuple[int, Message | Missing]]:
        """Send a message to each node and yield what comes back."""
        end = None if deadline is None else time.monotonic() + deadline
        waiting, gone = self._push(outgoing, deadline)
        try:
            yield from ((node, Missing("dropped", GONE)) for node in gone)
            while waiting:
                self.check()
                yield from self._look(waiting)
                if waiting and end is not None and time.monotonic() >= end:
                    break
                if waiting:
                    time.sleep(max(self.pause, LOOKING * len(waiting)))
            yield from ((node, Missing("late", f"nothing came within {deadline:g} s")) for node in waiting.values())
        finally:  # also where enough others have answered
            if self._alone is not None:
                self._alone.abandon(waiting)

    def _push(
        self, outgoing: Mapping[int, tuple[str, RecordDict]], seconds: float | None
    ) -> tuple[dict[str, int], list[int]]:
        """Send a message to each node; return the nodes by the names of messages, and those that are gone."""
        from flwr.app import Message

        waiting: dict[str, int] = {}
        gone = []
        for node, (kind, content) in outgoing.items():
            sent = [str(name) for name in self.grid.push_messages([Message(content, node, kind, ttl=seconds)]) if name]
            waiting |= dict.fromkeys(sent[:1], node)
            gone += [] if sent else [node]
        return waiting, gone

    def _look(self, waiting: dict[str, int]) -> Iterator[tuple[int, Message | Missing]]:
        """Look once for replies; yield those that have come, and take them out of those waited for.

        Replies are told apart by what they reply to: one about a node that is gone does not come from that node.
        """
        if self._alone is not None:
            for name, found in self._alone.look(waiting):
                yield waiting.pop(name), found
            return
        for message in self.grid.pull_messages(list(waiting)):
            node = waiting.pop(message.metadata.reply_to_message_id, None)
            if node is not None:
                yield node, message


class ReplyPoller:
    """Looks for replies of nodes that belong to others, each alone.

    Flower unpacks what nodes send before anybody can look at it, and what can't be unpacked ends the look. It also
    waits while a node has not sent all of it, which may be minutes; so another thread looks, and may be left behind.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._looks, self._lock = 0, threading.Lock()
        self._under_way: set[str] = set()
        self._given: set[str] = set()
        """Of these, what was found; Flower gives nothing twice, so nobody may look for it in the same look."""
        self._came: queue.SimpleQueue[tuple[str, Message | Missing | BaseException]] = queue.SimpleQueue()
        self._found: dict[str, Message | Missing] = {}
        self._unwanted: set[str] = set()

    def look(self, names: Iterable[str]) -> Iterator[tuple[str, Message | Missing]]:
        """Look once for the replies to messages; yield those that are there, by what they reply to."""
        wanted = set(names)
        with self._lock:  # which ends earlier looks
            self._looks += 1
            self._under_way -= self._given
            self._given.clear()
        arguments = self._looks, [*((wanted | self._unwanted) - self._found.keys())]
        looking = threading.Thread(target=self._pull_all, args=arguments, name="replies", daemon=True)
        looking.start()
        looking.join(HELD_UP)
        while not self._came.empty():
            name, found = self._came.get()
            self._given.add(name)
            if isinstance(found, BaseException):
                raise found
            self._found[name] = found
        for name in self._unwanted & self._found.keys():
            self._unwanted.remove(name)
            del self._found[name]
        for name in wanted & self._found.keys():
            yield name, self._found.pop(name)

    def abandon(self, names: Iterable[str]) -> None:
        """Wait for these no longer; but take them from Flower when they come, which would keep them until the end."""
        self._unwanted.update(names)

    def _pull_all(self, look: int, names: Sequence[str]) -> None:
        for name in names:
            with self._lock:
                if look != self._looks:  # it was held up, and another has gone on
                    return
                if name in self._under_way:
                    continue
                self._under_way.add(name)
            try:
                found = self._pull(name)
                if found is None:
                    self._under_way.discard(name)
                else:
                    self._came.put((name, found))
            except BaseException as error:
                self._came.put((name, error))

    def _pull(self, name: str) -> Message | Missing | None:
        """Look for one reply; what it says of itself, and even that it is a message, may be untrue."""
        from flwr.app import Message

        try:
            found = list(self._grid.pull_messages([name]))
        except Exception as error:
            if _of_the_link(error):
                raise
            return Missing("invalid", f"can't be unpacked: {type(error).__name__}")
        for reply in found:
            if isinstance(reply, Message) and reply.metadata.reply_to_message_id == name:
                return reply
        return Missing("invalid", "not a reply to what was asked") if found else None


def received(message: Message | Missing, client: ClientId, request: Request) -> Reply | Failure:
    """Read what came back for a client; whatever is not an answer in its name is a failure."""

    def failure(kind: str, detail: str) -> Failure:
        return Failure(client, request.round, kind, detail)

    if isinstance(message, Missing):
        return failure(message.kind, message.detail)
    if message.has_error():
        return failure("dropped", f"Flower: {message.error.reason or f'error {message.error.code}'}")
    try:
        blob = message.content.array_records[WIRE][WIRE].data
    except Exception:  # whatever it was that Flower let through
        return failure("invalid", "a message without an answer")
    most = largest_reply(request)
    if len(blob) > most:
        return failure("invalid", f"{len(blob):,} bytes, where {most:,} are the most that can be asked for")
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


def _card(message: Message | Missing) -> Mapping[str, Any] | None:
    """Read how a node introduces itself; an empty card is that of one that can't be understood."""
    if isinstance(message, Missing):
        return {} if message.kind == "invalid" else None
    if message.has_error():
        return None
    try:
        return dict(message.content.config_records[BESIDE])
    except Exception:  # whatever it was that Flower let through
        return {}


def _of_the_link(error: Exception) -> bool:
    """Say whether it is the SuperLink that can't be reached, and not a message that can't be unpacked."""
    from httpx import HTTPError

    return isinstance(error, HTTPError | OSError)


def node_ids(grid: Grid) -> Sequence[int]:
    """Return the nodes that are connected, in order of their numbers, which mean nothing."""
    return sorted(grid.get_node_ids())

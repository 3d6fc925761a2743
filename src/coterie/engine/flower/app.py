"""The two sides of a Flower app, in terms of bytes: what a node answers, and how the server carries requests there.

A message of Coterie travels as the bytes of `coterie.messages.wire`, in an `ArrayRecord`, which Flower cuts into
chunks and stores once however many nodes get it. Beside it stands who is meant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.answering import FAILED, LONGEST_DETAIL, MISTAKE, Site
from coterie.federation.validation import largest_reply
from coterie.messages import EVALUATION, ClientId, Failure, Reply, Request, wire

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

LOOKING = 2e-4
"""Seconds that a look for one reply takes in Flower's simulation; not much more than that is spent on looking."""
WIRE, BESIDE = "wire", "beside"
HELLO = "hello"
OWN_FAILURES = ("diverged", "refused", FAILED, MISTAKE)
"""What a client may say instead of an answer."""


def client_app(site: Callable[[Mapping[str, Any]], Site]) -> ClientApp:
    """Make the app of a node; `site` finds what answers there from the node's configuration."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query(HELLO)  # type: ignore[untyped-decorator,unused-ignore]
    def hello(message: Message, context: Context) -> Message:
        card = ConfigRecord(dict(site(context.node_config).card()))
        return Message(RecordDict({BESIDE: card}), reply_to=message)

    @app.train()  # type: ignore[untyped-decorator,unused-ignore]
    @app.evaluate()  # type: ignore[untyped-decorator,unused-ignore]
    def ask(message: Message, context: Context) -> Message:
        beside, blob = message.content.config_records[BESIDE], message.content.array_records[WIRE][WIRE].data
        client, federation = int(str(beside["client"])), str(beside["federation"])
        answer = site(context.node_config).answer(client, federation, blob)
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


class Carrier:
    """Carries messages to nodes and back, over a grid."""

    def __init__(
        self,
        grid: Grid,
        pause: float,
        *,
        federation: str = "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`pause` is how many seconds to wait before looking for replies again; `check` may end the waiting."""
        self.grid, self.pause, self.federation, self.check = grid, pause, federation, check

    def introduced(self, nodes: Iterable[int], deadline: float | None) -> dict[int, Mapping[str, Any]]:
        """Ask nodes who they are; return what those said that answered."""
        from flwr.app import ConfigRecord, RecordDict

        empty = RecordDict({BESIDE: ConfigRecord()})
        cards: dict[int, Mapping[str, Any]] = {}
        for node, message in self._carried(dict.fromkeys(nodes, (f"query.{HELLO}", empty)), deadline):
            records = None if message is None or message.has_error() else message.content.config_records
            if records is not None and BESIDE in records:
                cards[node] = dict(records[BESIDE])
        return cards

    def exchange(
        self, nodes: Mapping[ClientId, int], requests: Mapping[ClientId, Request], deadline: float | None
    ) -> Iterator[Reply | Failure]:
        """Carry requests to the nodes of clients; yield what each answered, or why there is no answer."""
        from flwr.app import ConfigRecord, RecordDict

        records: dict[int, ArrayRecord] = {}  # one request for many clients is written once
        outgoing, clients = {}, {}
        for client, request in requests.items():
            if client not in nodes:
                yield Failure(client, request.round, "dropped", "its node is gone")
                continue
            if id(request) not in records:
                records[id(request)] = enclosed(wire.encode(request))
            beside = ConfigRecord({"client": client, "federation": self.federation})
            content = RecordDict({WIRE: records[id(request)], BESIDE: beside})
            outgoing[nodes[client]] = ("evaluate" if request.kind == EVALUATION else "train", content)
            clients[nodes[client]] = client
        for node, message in self._carried(outgoing, deadline):
            client = clients[node]
            if message is None:
                yield Failure(client, requests[client].round, "late", f"nothing came within {deadline:g} s")
            else:
                yield received(message, client, requests[client])

    def _carried(
        self, outgoing: Mapping[int, tuple[str, RecordDict]], deadline: float | None
    ) -> Iterator[tuple[int, Message | None]]:
        """Send a message to each node and yield what comes back; None for those that say nothing in time.

        Replies are told apart by what they reply to: one about a node that is gone does not come from that node.
        """
        from flwr.app import Message

        end = None if deadline is None else time.monotonic() + deadline
        waiting: dict[str, int] = {}
        for node, (kind, content) in outgoing.items():
            message = Message(content, node, kind, ttl=deadline)
            sent = [str(name) for name in self.grid.push_messages([message]) if name]
            waiting |= dict.fromkeys(sent[:1], node)
            if not sent:
                yield node, None
        while waiting:
            self.check()
            for message in self.grid.pull_messages(list(waiting)):
                node_of = waiting.pop(message.metadata.reply_to_message_id, None)
                if node_of is not None:
                    yield node_of, message
            if waiting and end is not None and time.monotonic() >= end:
                break
            if waiting:
                time.sleep(max(self.pause, LOOKING * len(waiting)))
        for node in waiting.values():
            yield node, None


def received(message: Message, client: ClientId, request: Request) -> Reply | Failure:
    """Read what came back for a client; whatever is not an answer in its name is a failure."""

    def failure(kind: str, detail: str) -> Failure:
        return Failure(client, request.round, kind, _plain(detail))

    if message.has_error():
        return failure("dropped", f"Flower: {message.error.reason or f'error {message.error.code}'}")
    try:
        blob = message.content.array_records[WIRE][WIRE].data
    except (KeyError, AttributeError):
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


def _plain(text: str) -> str:
    """Return what a client said in one line of plain text, not too long."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:LONGEST_DETAIL]


def node_ids(grid: Grid) -> Sequence[int]:
    """Return the nodes that are connected, in order of their numbers, which mean nothing."""
    return sorted(grid.get_node_ids())

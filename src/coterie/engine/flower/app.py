"""The two sides of a Flower app in terms of bytes: what a node answers, and what the server does with its grid.

A message of Coterie travels as the bytes of `coterie.messages.wire` in an `ArrayRecord`, which Flower cuts into chunks
and stores once however many nodes get it. A `ConfigRecord` beside it names the client and the federation.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from coterie.client import Client
from coterie.errors import one_line
from coterie.messages import ClientId, Failure, Reply, Request, wire

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

WIRE, BESIDE = "wire", "beside"
"""The names of the two records of a message."""
HELLO = "hello"
"""The query that asks a node to introduce itself."""
FAILED, MISTAKE = "failed", "mistake"
"""Kinds of failures of a client itself; a mistake is one that the operator of the federation can fix."""

Introduction = dict[str, str | int]
"""How a node introduces itself."""
DescribeError = Callable[[Exception], tuple[str, str]]
"""Turns an error at a node into the kind and the detail of the failure that the server hears of."""


class NodeHandler(Protocol):
    """What answers at a node; errors are raised."""

    def introduce(self, federation: str, nonce: str) -> Introduction:
        """Introduce yourself to the server of a federation; the nonce is what it has made up for this."""
        ...

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer the request in `blob` as client number `client` of a federation."""
        ...


def client_app(find_handler: Callable[[Mapping[str, Any]], NodeHandler], describe: DescribeError) -> ClientApp:
    """Make the app of a node; `find_handler` finds what answers there from the node's configuration.

    Of an error, the server hears no more than `describe` returns; all of it is in the node's log.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query(HELLO)  # type: ignore[untyped-decorator,unused-ignore]
    def hello(message: Message, context: Context) -> Message:
        beside = message.content.config_records[BESIDE]
        try:
            handler = find_handler(context.node_config)
            introduction = handler.introduce(str(beside["federation"]), str(beside.get("nonce", "")))
        except Exception as error:
            log_error("this site can't take part", error)
            introduction = {"problem": describe(error)[1]}
        return Message(RecordDict({BESIDE: ConfigRecord(dict(introduction))}), reply_to=message)

    @app.train()  # type: ignore[untyped-decorator,unused-ignore]
    @app.evaluate()  # type: ignore[untyped-decorator,unused-ignore]
    def ask(message: Message, context: Context) -> Message:
        beside, blob = message.content.config_records[BESIDE], message.content.array_records[WIRE][WIRE].data
        client, federation = int(str(beside["client"])), str(beside["federation"])
        try:
            answer = find_handler(context.node_config).answer(client, federation, blob)
        except Exception as error:
            log_error("a request could not be answered", error)
            answer = wire.encode(Failure(client, 0, *describe(error)))
        return Message(RecordDict({WIRE: wire_record(answer)}), reply_to=message)

    return app


def log_error(what: str, error: Exception, trace: bool = True) -> None:
    """Write an error into the log; its text may come from others, and no line of it can look like one of the log."""
    lines = traceback.format_exception(error) if trace else []
    text = "".join(f"\n  | {one_line(line)}" for part in lines for line in part.splitlines())
    logging.getLogger("coterie").error("%s: %s%s", what, one_line(str(error)), text)


def answer_request(
    client: Client, blob: bytes, error_in_request: Callable[[Request], str | None] = lambda request: None
) -> Reply | Failure:
    """Have a client answer a request in bytes; one that can't be read or has an error is refused."""
    try:
        request = wire.decode(blob)
    except wire.WireError as refusal:
        return Failure(client.id, 0, "refused", str(refusal))
    if not isinstance(request, Request):
        return Failure(client.id, 0, "refused", f"a {type(request).__name__.lower()} is not a request")
    if error := error_in_request(request):
        return Failure(client.id, request.round, "refused", error)
    return client.answer(request)


def server_app(main: Callable[[Grid], None]) -> ServerApp:
    """Make the app of the server from what it does with a grid of nodes."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def run(grid: Grid, context: Context) -> None:
        main(grid)

    return app


def wire_record(blob: bytes) -> ArrayRecord:
    """Put bytes into a record."""
    from flwr.app import Array, ArrayRecord

    return ArrayRecord({WIRE: Array("uint8", (len(blob),), "coterie", blob)})

"""How a node answers, in bytes: the client's side of the border. It needs no Flower."""

from collections.abc import Callable
from typing import Protocol

from coterie.client import Client
from coterie.messages import ClientId, Failure, Request, wire

FAILED, MISTAKE = "failed", "mistake"
"""Kinds of failures of a client itself; a mistake is one that whoever runs the federation can mend."""

Introduction = dict[str, str | int]
"""How a node introduces itself."""
DescribeError = Callable[[Exception], tuple[str, str]]
"""Turns an error at a node into the kind and the detail of the failure that the server hears of."""


class NodeHandler(Protocol):
    """What answers at a node; errors are raised."""

    def introduce(self, federation: str) -> Introduction:
        """Introduce yourself to the server of a federation."""
        ...

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer the request in `blob` as client number `client` of a federation."""
        ...


def answer_bytes(
    client: Client, blob: bytes, error_in_request: Callable[[Request], str | None] = lambda request: None
) -> bytes:
    """Have a client answer a request in bytes; one that can't be read or has an error is refused."""
    try:
        request = wire.decode(blob)
        if not isinstance(request, Request):
            raise wire.WireError(f"a {type(request).__name__.lower()} is not a request")
        if error := error_in_request(request):
            raise wire.WireError(error)
    except wire.WireError as refusal:
        return wire.encode(Failure(client.id, 0, "refused", str(refusal)))
    return wire.encode(client.answer(request))

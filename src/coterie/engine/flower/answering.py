"""How a node answers, in bytes: the client's side of the border. It needs no Flower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.client import Client
from coterie.messages import ClientId, Failure, Request, wire

FAILED, MISTAKE = "failed", "mistake"
"""Kinds of failures of a client itself; a mistake is one that whoever runs the federation can mend."""

Introduction = dict[str, str | int]
"""How a node introduces itself."""
Told = Callable[[Exception], tuple[str, str]]
"""What the server is told of something that went wrong: its kind, and what it was."""


class Site(Protocol):
    """What answers at a node; what goes wrong is raised."""

    def card(self, federation: str) -> Introduction:
        """Introduce yourself to the server of a federation."""
        ...

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer the request in `blob` as the client that the server of a federation knows by a number."""
        ...


def answered(client: Client, blob: bytes, objection: Callable[[Request], str | None] = lambda request: None) -> bytes:
    """Have a client answer a request in bytes, unless there is an objection to it."""
    try:
        request = wire.decode(blob)
        if not isinstance(request, Request):
            raise wire.WireError(f"a {type(request).__name__.lower()} is not a request")
        if wrong := objection(request):
            raise wire.WireError(wrong)
    except wire.WireError as error:
        return wire.encode(Failure(client.id, 0, "refused", str(error)))
    return wire.encode(client.answer(request))

"""How a node answers, in bytes: the client's side of the border. It needs no Flower."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from coterie.client import Client
from coterie.messages import ClientId, Failure, Request, wire

LONGEST_DETAIL = 300
"""Characters of what a client says of a failure that are kept."""
FAILED, MISTAKE = "failed", "mistake"
"""Kinds of failures of a client itself; a mistake is one that whoever runs the federation can mend."""

Card = dict[str, str | int]
"""How a node introduces itself."""


class Site(Protocol):
    """What answers at a node."""

    def card(self) -> Card:
        """Introduce yourself."""
        ...

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer the request in `blob` as the client that the server of a federation knows by a number."""
        ...


def answered(
    client: Client,
    blob: bytes,
    told: Callable[[Exception], tuple[str, str]],
    objection: Callable[[Request], str | None] = lambda request: None,
) -> bytes:
    """Have a client answer a request in bytes, unless there is an objection to it.

    What goes wrong becomes a failure, of which `told` says the kind and what it is.
    """
    try:
        request = wire.decode(blob)
        if not isinstance(request, Request):
            raise wire.WireError(f"a {type(request).__name__.lower()} is not a request")
        if wrong := objection(request):
            raise wire.WireError(wrong)
    except wire.WireError as error:
        return wire.encode(Failure(client.id, 0, "refused", str(error)[:LONGEST_DETAIL]))
    try:
        return wire.encode(client.answer(request))
    except Exception as error:
        logging.getLogger("coterie").exception("round %d could not be answered", request.round)
        kind, detail = told(error)
        return wire.encode(Failure(client.id, request.round, kind, detail[:LONGEST_DETAIL]))

"""Where clients live, as the federation sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from coterie.messages import ClientId, Failure, Reply, Request


class Engine(Protocol):
    """Carries requests to clients and replies back; knows no method."""

    name: str

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the clients that are here now, with the number of training samples each declared.

        `round` is what the round of the moment is; a simulation may let clients come in some round.
        """
        ...

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Carry requests out, in any order; nothing arrives after `deadline` seconds."""
        ...

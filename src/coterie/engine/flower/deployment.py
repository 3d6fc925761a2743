"""Real machines as engine: sites come and go as nodes of a Flower SuperLink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from coterie.engine.flower.app import Carrier, node_ids
from coterie.engine.flower.roll import Roll
from coterie.messages import ClientId, Failure, Reply, Request

if TYPE_CHECKING:
    from flwr.serverapp import Grid

PAUSE = 0.5
"""Seconds between looks for replies, and for nodes while a federation waits to begin."""
LOOK = 3.0
"""Seconds after which it is worth looking for new nodes within a round."""
INTRODUCTION = 60.0
"""Seconds that a node may take to introduce itself, unless the deadline of a round is shorter."""
PATIENCE = 3
"""How many times a node that does not introduce itself is asked."""


class FlowerDeployment:
    """Carries requests to sites. Who is here is looked up anew for every round; in between nobody disappears."""

    name = "flower"
    closes_early = True

    def __init__(self, grid: Grid, roll: Roll, *, min_clients: int = 1, deadline: float | None = None) -> None:
        """`min_clients` is how many sites the federation waits for before it begins or goes on."""
        self._carrier, self._grid, self._roll = Carrier(grid, PAUSE, federation=roll.federation), grid, roll
        self._patience = min(INTRODUCTION, deadline or INTRODUCTION)
        self._min_clients = min_clients
        self._nodes: dict[ClientId, int] = {}
        self._strangers: dict[int, int] = {}
        """How many times nodes were asked that have no place here."""
        self._round, self._looked = -1, 0.0
        self._incidents: list[Failure] = []

    def __enter__(self) -> FlowerDeployment:
        return self

    def __exit__(self, *_: object) -> None:
        """Nodes stay: they belong to others."""

    def wait(self, told: Callable[[str], None]) -> None:
        """Wait until enough sites are here."""
        here = -1
        while len(self._grid_nodes()) < self._min_clients or len(self._nodes) < self._min_clients:
            if len(self._grid_nodes()) >= self._min_clients:
                self._look(leaving=True)
            if len(self._nodes) != here:
                here = len(self._nodes)
                told(f"{here} sites are here, {self._min_clients} are waited for")
            if here < self._min_clients:
                time.sleep(PAUSE)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the sites that are connected."""
        if round != self._round:
            self._round = round
            self._look(leaving=True)
        elif time.monotonic() - self._looked > LOOK:
            self._look(leaving=False)
        samples = self._roll.samples
        return {client: samples[client] for client in self._nodes}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Carry requests to sites; who has not answered after `deadline` seconds is late."""
        yield from self._carrier.exchange(self._nodes, requests, deadline)

    def incidents(self) -> list[Failure]:
        """Return what has happened at the door since this was last asked."""
        told, self._incidents = self._incidents, []
        return told

    def _grid_nodes(self) -> list[int]:
        return list(node_ids(self._grid))

    def _look(self, leaving: bool) -> None:
        """See which nodes are connected, and ask those that are new who they are."""
        connected = self._grid_nodes()
        if leaving:
            self._nodes = {client: node for client, node in self._nodes.items() if node in connected}
            self._strangers = {node: times for node, times in self._strangers.items() if node in connected}
        known = set(self._nodes.values())
        new = [node for node in connected if node not in known and self._strangers.get(node, 0) < PATIENCE]
        if not leaving:  # within a round only who has never been asked
            new = [node for node in new if node not in self._strangers]
        if new:
            cards = self._carrier.introduced(new, self._patience)
            found, refused = self._roll.enter(cards)
            self._nodes |= found
            for node in set(new) - set(found.values()):
                self._strangers[node] = PATIENCE if node in refused else self._strangers.get(node, 0) + 1
            for why in refused.values():
                self._incidents.append(Failure(-1, max(self._round, 0), "turned away", f"a node {why}"))
        self._looked = time.monotonic()

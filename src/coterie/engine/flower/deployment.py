"""Real machines as engine: sites come and go as nodes of a Flower SuperLink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.app import Carrier, node_ids
from coterie.engine.flower.roll import Roll
from coterie.messages import ClientId, Failure, Reply, Request

if TYPE_CHECKING:
    from flwr.serverapp import Grid

PAUSE = 0.5
"""Seconds between looks for replies, and for nodes while a federation waits to begin."""
LOOK = 2.0
"""Seconds after which it is worth looking for new nodes again within a round."""
INTRODUCTION = 600.0
"""Seconds that a node may take to introduce itself, for which it reads its data."""
SETTLING = 10.0
"""Seconds that the others wait for this, once: so a node that comes is mostly placed in the same round."""
GRACE = 30.0
"""Seconds for which a federation that could begin waits for nodes that are about to introduce themselves."""
PATIENCE = 3
"""How many times a node that does not introduce itself is asked."""


class FlowerDeployment:
    """Carries requests to sites. Who is here is looked up anew for every round; in between nobody disappears."""

    name = "flower"
    closes_early = True

    def __init__(self, grid: Grid, roll: Roll, *, min_clients: int = 1) -> None:
        """`min_clients` is how many sites the federation waits for before it begins or goes on."""
        self._carrier = Carrier(grid, PAUSE, federation=roll.federation, wary=True, check=self._notice)
        self._grid, self._roll, self._min_clients = grid, roll, min_clients
        self._nodes: dict[ClientId, int] = {}
        self._former: set[int] = set()
        """Nodes whose sites have come again at other nodes."""
        self._asked: dict[int, int] = {}
        """How many times nodes were asked who they are."""
        self._greeted: dict[str, int] = {}
        """Nodes that have not answered that yet, by the names of messages."""
        self._since: dict[int, float] = {}
        """When these were asked."""
        self._cards: dict[int, Mapping[str, Any]] = {}
        """What nodes have said who have not come in yet."""
        self._round, self._looked = -1, 0.0
        self._incidents: list[Failure] = []

    def __enter__(self) -> FlowerDeployment:
        return self

    def __exit__(self, *_: object) -> None:
        """Nodes stay: they belong to others."""

    def wait(self, told: Callable[[str], None]) -> None:
        """Wait until enough sites are here, and a little for those that are about to say who they are.

        All come in at once, so that their numbers do not depend on who answered first.
        """
        here, enough = -1, time.monotonic()
        while len(self._nodes) < self._min_clients:
            self._look(leaving=True, entering=False)
            if len(self._cards) != here:
                here, enough = len(self._cards), time.monotonic()
                told(f"{here} sites are here, {self._min_clients} are waited for")
            if here >= self._min_clients and (not self._greeted or time.monotonic() - enough > GRACE):
                self._enter()
                here = -1
            else:
                time.sleep(PAUSE)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the sites that are connected."""
        if round != self._round:
            self._round = round
            self._look(leaving=True)
        self._notice()
        while any(time.monotonic() - self._since[node] < SETTLING for node in self._firstly()):
            time.sleep(PAUSE)
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

    def _notice(self) -> None:
        """See who has come, also while others are waited for."""
        if time.monotonic() - self._looked > LOOK:
            self._look(leaving=False)

    def _firstly(self) -> list[int]:
        """Return the nodes that were asked for the first time who they are, and have not answered."""
        return [node for node in self._greeted.values() if self._asked.get(node) == 1]

    def _look(self, leaving: bool, entering: bool = True) -> None:
        """See which nodes are connected, hear who has said who he is, and ask those that are new; wait for nobody."""
        connected = set(node_ids(self._grid))
        if leaving:
            self._nodes = {client: node for client, node in self._nodes.items() if node in connected}
            self._asked = {node: times for node, times in self._asked.items() if node in connected}
            self._cards = {node: card for node, card in self._cards.items() if node in connected}
            self._former &= connected
        self._hear()
        busy = {*self._nodes.values(), *self._greeted.values(), *self._cards, *self._former}
        new = [n for n in sorted(connected - busy) if self._asked.get(n, 0) < PATIENCE]
        if new:
            self._greeted |= self._carrier.greet(new, INTRODUCTION)
            self._asked |= {node: self._asked.get(node, 0) + 1 for node in new}
            self._since |= dict.fromkeys(new, time.monotonic())
            self._hear()
        if entering and self._cards:
            self._enter()
        self._looked = time.monotonic()

    def _hear(self) -> None:
        """Take the cards of nodes that have introduced themselves; note who does not."""
        cards = self._carrier.heard(self._greeted)
        late = time.monotonic() - INTRODUCTION
        for name, node in list(self._greeted.items()):
            if self._since[node] <= late:
                del self._greeted[name]
                cards[node] = None
        self._cards |= {node: card for node, card in cards.items() if card is not None}
        for node, card in cards.items():
            if card is None and self._asked.get(node, 0) >= PATIENCE:
                self._turn_away("does not say who it is")

    def _enter(self) -> None:
        """Let those in who have introduced themselves properly, and note who is turned away."""
        said, self._cards = self._cards, {}
        found, refused = self._roll.enter(said)
        self._asked |= dict.fromkeys(refused, PATIENCE)
        for client, node in found.items():
            if client in self._nodes:
                self._former.add(self._nodes[client])
            self._nodes[client] = node
        self._former |= said.keys() - refused.keys() - set(found.values())  # of two at once that are the same site
        for why in refused.values():
            self._turn_away(why)

    def _turn_away(self, why: str) -> None:
        self._incidents.append(Failure(-1, max(self._round, 0), "turned away", f"a node {why}"))

"""Real machines as engine: sites come and go as nodes of a Flower SuperLink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.app import GridTransport, node_ids
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.federation import Engine
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
"""Seconds of a round that the others wait for nodes that have just come: mostly these are placed in the same round."""
GRACE = 30.0
"""Seconds for which a federation that could begin waits for nodes that are about to introduce themselves."""
AGAIN = 30.0
"""Seconds after which a node is asked again that did not answer, or was turned away: it may have been mended."""


@dataclass
class UnknownNode:
    """A node that is no site, or not yet."""

    asked: float = 0.0
    """When it was last asked who it is."""
    times: int = 0
    told: set[str] = field(default_factory=set)
    """Why it was turned away, each reason once."""


class FlowerDeployment(Engine):
    """Carries requests to sites. Who is here is looked up anew for every round; in between nobody disappears."""

    name = "flower"
    closes_early = True

    def __init__(self, grid: Grid, roll: SiteRegistry, *, min_clients: int = 1) -> None:
        """`min_clients` is how many sites the federation waits for before it begins or goes on."""
        self._carrier = GridTransport(grid, PAUSE, federation=roll.federation, wary=True, check=self._notice)
        self._grid, self._roll, self._min_clients = grid, roll, min_clients
        self._connected: set[int] = set()
        self._nodes: dict[ClientId, int] = {}
        self._former: dict[int, ClientId] = {}
        """Nodes whose sites have come at other nodes; they count again when those are gone."""
        self._strangers: dict[int, UnknownNode] = {}
        self._greeted: dict[str, int] = {}
        """Nodes that were asked who they are and have not answered yet, by the names of messages."""
        self._cards: dict[int, Mapping[str, Any]] = {}
        """What nodes have said who have not come in yet."""
        self._round, self._looked, self._settling = -1, 0.0, SETTLING
        self._incidents: list[Failure] = []

    def __enter__(self) -> FlowerDeployment:
        return self

    def __exit__(self, *_: object) -> None:
        """Nodes stay: they belong to others."""

    def wait(self, told: Callable[[str], None]) -> None:
        """Wait until enough sites are here, and a little for those that are about to say who they are.

        All come in at once, so that their numbers do not depend on who answered first.
        """
        here, enough, known = -1, time.monotonic(), 0
        while len(self._nodes) < self._min_clients:
            self._look(leaving=True, entering=False)
            if len(self._nodes) + len(self._cards) != here:
                here, enough = len(self._nodes) + len(self._cards), time.monotonic()
                told(f"{here} sites are here, {self._min_clients} are waited for")
            if here >= self._min_clients and (not self._greeted or time.monotonic() - enough > GRACE):
                self._enter()
                here = -1  # not all may have come in
            else:
                time.sleep(PAUSE)
            for incident in self._incidents[known:]:
                told(f"{incident.kind}: {incident.detail}")
            known = len(self._incidents)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the sites that are connected."""
        if round != self._round:
            self._round, self._settling = round, SETTLING
            self._look(leaving=True)
        self._notice()
        while self._settling > 0 and self._firstly():
            time.sleep(PAUSE)
            self._settling -= PAUSE
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

    def _firstly(self) -> bool:
        """Say whether a node was just asked for the first time who it is, and has not answered."""
        asked = [self._strangers[node] for node in self._greeted.values() if node in self._strangers]
        return any(it.times == 1 and time.monotonic() - it.asked < SETTLING for it in asked)

    def _look(self, leaving: bool, entering: bool = True) -> None:
        """See which nodes are connected, hear who has said who he is, and ask those that are new; wait for nobody."""
        self._connected = set(node_ids(self._grid))
        if leaving:
            self._forget()
        self._hear()
        if new := self._unknown():
            self._greeted |= self._carrier.greet(new, INTRODUCTION)
            for node in new:
                stranger = self._strangers.setdefault(node, UnknownNode())
                stranger.asked, stranger.times = time.monotonic(), stranger.times + 1
            self._hear()
        if entering and self._cards:
            self._enter()
        self._looked = time.monotonic()

    def _forget(self) -> None:
        """Forget nodes that are gone."""

        def here(nodes: Mapping[int, Any]) -> dict[int, Any]:
            return {node: item for node, item in nodes.items() if node in self._connected}

        self._nodes = {client: node for client, node in self._nodes.items() if node in self._connected}
        self._strangers, self._cards = here(self._strangers), here(self._cards)
        self._former = {node: client for node, client in here(self._former).items() if client in self._nodes}

    def _unknown(self) -> list[int]:
        """Return the connected nodes that should be asked who they are."""
        busy = {*self._nodes.values(), *self._greeted.values(), *self._cards, *self._former}
        recent = {node for node, it in self._strangers.items() if time.monotonic() - it.asked < AGAIN}
        return sorted(self._connected - busy - recent)

    def _hear(self) -> None:
        """Take the cards of nodes that have introduced themselves; note who does not."""
        for node, card in self._carrier.heard(self._greeted).items():
            if card is not None and node in self._connected:
                self._cards[node] = card
        for name, node in list(self._greeted.items()):
            stranger = self._strangers.get(node)
            if stranger is None or time.monotonic() - stranger.asked > INTRODUCTION:
                del self._greeted[name]
                self._turn_away(node, "does not say who it is")

    def _enter(self) -> None:
        """Let those in who have introduced themselves properly, and note who is turned away."""
        asked = {node: stranger.asked for node, stranger in self._strangers.items()}
        latest_last = sorted(self._cards, key=lambda node: (asked.get(node, 0.0), node))
        said, self._cards = {node: self._cards[node] for node in latest_last}, {}
        clients, refused = self._roll.enter(said)
        for node, client in clients.items():
            if client in self._nodes:
                self._former[self._nodes[client]] = client
            self._nodes[client] = node
            self._strangers.pop(node, None)
        for node, why in refused.items():
            self._turn_away(node, why)

    def _turn_away(self, node: int, why: str) -> None:
        stranger = self._strangers.get(node)
        if stranger is not None and why not in stranger.told:
            stranger.told.add(why)
            self._incidents.append(Failure(-1, max(self._round, 0), "turned away", f"a node {why}"))

"""Real machines as engine: sites come and go as nodes of a Flower SuperLink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.engine.flower.identity import new_nonce
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.engine.flower.transport import GridTransport
from coterie.federation import Engine
from coterie.messages import ClientId, Failure, Reply, Request

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ABSENT = (
    "a site whose key is not registered, or that the network keeps away, never gets here; 'flwr supernode list' shows "
    "who is registered and online, and 'coterie deploy join' at the site says why it is refused"
)
PAUSE = 0.5
"""Seconds between looks for replies, and for nodes before the federation begins."""
LOOK_AGAIN = 2.0
"""Seconds after which to look for new nodes again within a round."""
INTRODUCTION_TIMEOUT = 600.0
"""Seconds that a node may take to introduce itself, for which it reads its data."""
NEWCOMER_WAIT = 10.0
"""Seconds per round to wait for the introductions of nodes that have just connected, to place them in that round."""
START_GRACE = 30.0
"""Seconds to wait, once enough sites are here, for nodes that have not introduced themselves yet."""
REMIND = 60.0
"""Seconds after which it is said again for whom the federation waits, and why a site may not be here."""
RETRY_AFTER = 30.0
"""Seconds after which a node that did not answer or was turned away is asked again: it may have been mended."""


@dataclass
class UnknownNode:
    """A connected node that is not registered as a site, or not yet."""

    asked_at: float = 0.0
    """When it was last asked to introduce itself."""
    attempts: int = 0
    nonce: str = ""
    """What it was to sign when it was last asked."""
    reported: set[str] = field(default_factory=set)
    """The reasons for turning it away that have been reported; each is reported once."""


class FlowerDeployment(Engine):
    """Carries requests to sites. Which sites are here is looked up every round; within a round none disappears."""

    name = "flower"
    closes_early = True
    clients_remain = True

    def __init__(self, grid: Grid, registry: SiteRegistry, *, min_clients: int = 1) -> None:
        """`min_clients` is how many sites the federation waits for before it begins or resumes."""
        self._transport = GridTransport(
            grid, PAUSE, federation=registry.federation, untrusted=True, check=self._look_if_due
        )
        self._grid, self._registry, self._min_clients = grid, registry, min_clients
        self._connected: set[int] = set()
        self._nodes: dict[ClientId, int] = {}
        self._replaced: dict[int, ClientId] = {}
        """Nodes whose site now answers at another node; they count again when that one is gone."""
        self._unknown: dict[int, UnknownNode] = {}
        self._greeted: dict[str, int] = {}
        """Nodes that have not answered our greeting yet, by message id."""
        self._introductions: dict[int, Mapping[str, Any]] = {}
        """Introductions of nodes that are not registered yet."""
        self._round, self._looked_at, self._wait_left = -1, 0.0, NEWCOMER_WAIT
        self._incidents: list[Failure] = []

    def __enter__(self) -> FlowerDeployment:
        return self

    def __exit__(self, *_: object) -> None:
        """Nodes stay: they belong to others."""

    def wait(self, report: Callable[[str], None]) -> None:
        """Wait until enough sites are here, and a little longer for those that are about to introduce themselves.

        All are registered at once, so that their numbers do not depend on who answered first.
        """
        sites, since, reported = -1, time.monotonic(), 0
        reminded = since
        while len(self._nodes) < self._min_clients:
            self._look(forget_lost=True, register=False)
            if len(self._nodes) + len(self._introductions) != sites:
                sites, since = len(self._nodes) + len(self._introductions), time.monotonic()
                report(f"{_here(sites)}, waiting for {self._min_clients}")
                reminded = since
            elif time.monotonic() - reminded > REMIND:
                report(f"{_here(sites)}, still waiting for {self._min_clients}: {ABSENT}")
                reminded = time.monotonic()
            if sites >= self._min_clients and (not self._greeted or time.monotonic() - since > START_GRACE):
                self._register()
                sites = -1  # some may have been turned away
            else:
                time.sleep(PAUSE)
            for incident in self._incidents[reported:]:
                report(f"{incident.kind}: {incident.detail}")
            reported = len(self._incidents)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the sites that are connected."""
        if round != self._round:
            self._round, self._wait_left = round, NEWCOMER_WAIT
            self._look(forget_lost=True)
        self._look_if_due()
        while self._wait_left > 0 and self._newcomer_expected():
            time.sleep(PAUSE)
            self._wait_left -= PAUSE
            self._look(forget_lost=False)
        samples = self._registry.samples
        return {client: samples[client] for client in self._nodes}

    def tests(self, round: int) -> Mapping[ClientId, int]:
        """Return how many test samples sites declared."""
        return self._registry.tests

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Carry requests to sites; those that have not answered after `deadline` seconds are late."""
        yield from self._transport.exchange(self._nodes, requests, deadline, self._registry.samples)

    def incidents(self) -> list[Failure]:
        """Return which nodes have been turned away since this was last called."""
        incidents, self._incidents = self._incidents, []
        return incidents

    def _look_if_due(self) -> None:
        """Look for new nodes now and then, also while others are waited for."""
        if time.monotonic() - self._looked_at > LOOK_AGAIN:
            self._look(forget_lost=False)

    def _newcomer_expected(self) -> bool:
        """Say whether a node has just been greeted for the first time and has not answered yet."""
        greeted = [self._unknown[node] for node in self._greeted.values() if node in self._unknown]
        return any(node.attempts == 1 and time.monotonic() - node.asked_at < NEWCOMER_WAIT for node in greeted)

    def _look(self, forget_lost: bool, register: bool = True) -> None:
        """See which nodes are connected, greet the new ones and collect introductions, without waiting for any."""
        self._connected = set(self._grid.get_node_ids())
        if forget_lost:
            self._forget_lost()
        self._collect_introductions()
        if new := self._nodes_to_greet():
            for node in new:
                unknown = self._unknown.setdefault(node, UnknownNode())
                unknown.asked_at, unknown.attempts = time.monotonic(), unknown.attempts + 1
                unknown.nonce = new_nonce()
            self._greeted |= self._transport.greet(
                {node: self._unknown[node].nonce for node in new}, INTRODUCTION_TIMEOUT
            )
            self._collect_introductions()
        if register and self._introductions:
            self._register()
        self._looked_at = time.monotonic()

    def _forget_lost(self) -> None:
        """Forget nodes that are no longer connected."""

        def connected(nodes: Mapping[int, Any]) -> dict[int, Any]:
            return {node: item for node, item in nodes.items() if node in self._connected}

        self._nodes = {client: node for client, node in self._nodes.items() if node in self._connected}
        self._unknown, self._introductions = connected(self._unknown), connected(self._introductions)
        self._replaced = {node: client for node, client in connected(self._replaced).items() if client in self._nodes}

    def _nodes_to_greet(self) -> list[int]:
        """Return the connected nodes that should be asked to introduce themselves."""
        busy = {*self._nodes.values(), *self._greeted.values(), *self._introductions, *self._replaced}
        recent = {node for node, it in self._unknown.items() if time.monotonic() - it.asked_at < RETRY_AFTER}
        return sorted(self._connected - busy - recent)

    def _collect_introductions(self) -> None:
        """Take the introductions that have come; give up on nodes that have had their time."""
        for node, introduction in self._transport.introductions(self._greeted).items():
            if introduction is not None and node in self._connected:
                self._introductions[node] = introduction
        for message_id, node in list(self._greeted.items()):
            unknown = self._unknown.get(node)
            if unknown is None or time.monotonic() - unknown.asked_at > INTRODUCTION_TIMEOUT:
                del self._greeted[message_id]
                self._turn_away(node, "does not introduce itself")

    def _register(self) -> None:
        """Register the nodes that have introduced themselves properly, and turn the others away."""
        asked_at = {node: unknown.asked_at for node, unknown in self._unknown.items()}
        latest_last = sorted(self._introductions, key=lambda node: (asked_at.get(node, 0.0), node))
        introductions, self._introductions = {node: self._introductions[node] for node in latest_last}, {}
        nonces = {node: self._unknown[node].nonce for node in introductions if node in self._unknown}
        clients, refused = self._registry.register(introductions, nonces)
        for node, client in clients.items():
            if client in self._nodes:
                self._replaced[self._nodes[client]] = client
            self._nodes[client] = node
            self._unknown.pop(node, None)
        for node, reason in refused.items():
            self._turn_away(node, reason)

    def _turn_away(self, node: int, reason: str) -> None:
        unknown = self._unknown.get(node)
        if unknown is not None and reason not in unknown.reported:
            unknown.reported.add(reason)
            self._incidents.append(Failure(-1, max(self._round, 0), "turned away", f"a node {reason}"))


def _here(sites: int) -> str:
    """Say how many sites are connected.

    >>> _here(1), _here(3)
    ('1 site is here', '3 sites are here')
    """
    return "1 site is here" if sites == 1 else f"{sites} sites are here"

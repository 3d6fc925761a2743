"""Who takes part in a federation: who is admitted, who joined late, and who was left out."""

from collections.abc import Iterable, KeysView, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.federation.by_client import IntsByClient
from coterie.federation.state import Resumable, saved
from coterie.messages import ClientId


@dataclass(frozen=True)
class Roster:
    """Who is there, in order of clients."""

    samples: Mapping[ClientId, int]
    """Training samples of all who are present."""
    clients: tuple[ClientId, ...]
    """Who takes part."""
    trainable: tuple[ClientId, ...]
    """Of these, who has something to train on."""
    newcomers: tuple[ClientId, ...]
    """Who does not take part yet."""


@dataclass
class Membership(Resumable):
    """Tracks who takes part; other clients present are newcomers."""

    max_strikes: int | None = None
    """After this many invalid replies a client is left out; None: never."""
    since: IntsByClient = saved(default_factory=IntsByClient)
    """The round in which each client was admitted; 0: it was there at the beginning."""
    strikes: IntsByClient = saved(default_factory=IntsByClient)
    """How many invalid replies each client has sent."""
    joined: dict[ClientId, int] = field(default_factory=dict, init=False)
    """The round in which each late client joined."""
    _roster: Roster | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def saved_in(cls, state: Mapping[str, Any]) -> "Membership":
        """Return the members in what `save` returned."""
        members = cls()
        members.load(state)
        return members

    @property
    def admitted(self) -> KeysView[ClientId]:
        """All clients that take part or did, present or not."""
        return self.since.keys()

    def roster(self, samples: Mapping[ClientId, int]) -> Roster:
        """Say who of those present takes part; it is worked out again for another mapping, or when members change."""
        if self._roster is None or self._roster.samples is not samples:
            present = [client for client in sorted(samples) if not self.left_out(client)]
            clients = tuple(client for client in present if client in self.since)
            trainable = tuple(client for client in clients if samples[client] > 0)
            newcomers = tuple(client for client in present if client not in self.since)
            self._roster = Roster(samples, clients, trainable, newcomers)
        return self._roster

    def admit(self, clients: Iterable[ClientId], round: int) -> None:
        """Admit clients in a round."""
        new = dict.fromkeys(sorted(clients), round)
        if new:
            self.since |= new
            self.joined |= new if round else {}
            self._roster = None

    def strike(self, client: ClientId) -> bool:
        """Count an invalid reply; say whether the client is left out from now on."""
        self.strikes[client] = self.strikes.get(client, 0) + 1
        if left_out := self.strikes[client] == self.max_strikes:
            self._roster = None
        return left_out

    def left_out(self, client: ClientId) -> bool:
        """Say whether a client has sent invalid replies too often."""
        return self.max_strikes is not None and self.strikes.get(client, 0) >= self.max_strikes

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned; earlier versions had those who are admitted, and those who joined."""
        if "since" not in state:
            state = {**state, "since": dict.fromkeys(sorted(state["admitted"]), 0) | dict(state["joined"])}
        super().load(state)
        self.joined = {client: round for client, round in self.since.items() if round}
        self._roster = None

"""Who takes part in a federation: who is admitted, who joined late, and who was left out."""

from collections.abc import Iterable
from dataclasses import dataclass

from coterie.federation.state import Resumable, saved
from coterie.messages import ClientId


@dataclass
class Membership(Resumable):
    """Tracks who takes part; other clients present are newcomers."""

    max_strikes: int | None = None
    """After this many invalid replies a client is left out; None: never."""
    admitted: set[ClientId] = saved(default_factory=set)
    """Who takes part."""
    joined: dict[ClientId, int] = saved(default_factory=dict)
    """The round in which each late client joined."""
    strikes: dict[ClientId, int] = saved(default_factory=dict)
    """How many invalid replies each client has sent."""

    def members(self, present: Iterable[ClientId]) -> list[ClientId]:
        """Return those present that take part, in order."""
        return sorted(client for client in present if client in self.admitted and not self.left_out(client))

    def newcomers(self, present: Iterable[ClientId]) -> list[ClientId]:
        """Return those present that do not take part yet, in order."""
        return sorted(client for client in present if client not in self.admitted and not self.left_out(client))

    def admit(self, clients: Iterable[ClientId], round: int) -> None:
        """Admit clients that joined in a round."""
        self.admitted |= (new := set(clients))
        self.joined |= dict.fromkeys(sorted(new), round)

    def strike(self, client: ClientId) -> bool:
        """Count an invalid reply; say whether the client is left out from now on."""
        self.strikes[client] = self.strikes.get(client, 0) + 1
        return self.strikes[client] == self.max_strikes

    def left_out(self, client: ClientId) -> bool:
        """Say whether a client has sent invalid replies too often."""
        return self.max_strikes is not None and self.strikes.get(client, 0) >= self.max_strikes

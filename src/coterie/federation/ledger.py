"""Exact traffic, counted where it passes: bytes up and down by kind of message, client and round."""

from dataclasses import dataclass

from coterie.federation.state import Resumable, saved
from coterie.messages import EVALUATION, ClientId


@dataclass
class Ledger(Resumable):
    """Bytes by kind of message; and by client and by round, evaluation not included."""

    by_kind: dict[str, dict[str, int]] = saved(default_factory=dict)
    by_client: dict[ClientId, dict[str, int]] = saved(default_factory=dict)
    by_round: dict[int, dict[str, int]] = saved(default_factory=dict)

    def count(self, kind: str, client: ClientId, round: int, *, down: int = 0, up: int = 0) -> None:
        """Enter one message."""
        entries = [self.by_kind.setdefault(kind, {"up": 0, "down": 0})]
        if kind != EVALUATION:
            entries.append(self.by_client.setdefault(client, {"up": 0, "down": 0}))
            entries.append(self.by_round.setdefault(round, {"up": 0, "down": 0}))
        for entry in entries:
            entry["up"] += up
            entry["down"] += down

    def total(self, way: str) -> int:
        """Return all bytes ``"up"`` or ``"down"``, evaluation not included."""
        return sum(entry[way] for kind, entry in self.by_kind.items() if kind != EVALUATION)

"""Exact traffic, counted where it passes: bytes up and down by kind of message, client and round."""

from collections.abc import Mapping
from typing import Any

from coterie.messages import EVALUATION, ClientId


class Ledger:
    """Bytes by kind of message; and by client and by round, evaluation not included."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[str, int]] = {}
        self.by_client: dict[ClientId, dict[str, int]] = {}
        self.by_round: dict[int, dict[str, int]] = {}

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

    def save(self) -> dict[str, Any]:
        """Return the entries."""
        return {"by_kind": self.by_kind, "by_client": self.by_client, "by_round": self.by_round}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take over the entries that `save` returned."""
        self.by_kind = {kind: dict(entry) for kind, entry in saved["by_kind"].items()}
        self.by_client = {client: dict(entry) for client, entry in saved["by_client"].items()}
        self.by_round = {round: dict(entry) for round, entry in saved["by_round"].items()}

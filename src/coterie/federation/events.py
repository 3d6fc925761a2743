"""What went wrong without stopping the run: counted by kind and client, with descriptions."""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.errors import one_line
from coterie.federation.by_client import IntsByClient
from coterie.messages import ClientId, Failure

LONGEST = 300
"""Characters of a description that are kept."""
LONGEST_KIND = 40
DETAILS = 8
"""Different descriptions kept of each kind: those that came first."""


class Events:
    """Failures by kind: how many, when, whose, and their descriptions."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[str, Any]] = {}

    def note(self, failure: Failure) -> None:
        """Record one failure; its description may come from anyone, and is sanitised."""
        detail, kind = one_line(failure.detail, LONGEST), one_line(failure.kind, LONGEST_KIND)
        entry = self.kinds.setdefault(
            kind,
            {
                "kind": kind,
                "count": 0,
                "first_round": failure.round,
                "last_round": failure.round,
                "example": ("" if failure.client < 0 else f"client {failure.client}, ")
                + f"round {failure.round}"
                + (f": {detail}" if detail else ""),
                "clients": IntsByClient(),
                "details": {},
            },
        )
        entry["count"] += 1
        entry["last_round"] = failure.round
        if failure.client >= 0:
            entry["clients"][failure.client] = entry["clients"].get(failure.client, 0) + 1
        if detail and (detail in entry["details"] or len(entry["details"]) < DETAILS):
            entry["details"][detail] = entry["details"].get(detail, 0) + 1

    def noted(self, client: ClientId, kind: str) -> bool:
        """Say whether there was an event of a kind at a client."""
        return self.times(client, kind) > 0

    def times(self, client: ClientId, kind: str) -> int:
        """Return how many events of a kind there were at a client."""
        return int(self.kinds.get(kind, {}).get("clients", {}).get(client, 0))

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(entry["count"] for entry in self.kinds.values())

    def entries(self) -> list[dict[str, Any]]:
        """Return all of them as plain data, as results have them."""
        return [
            {**entry, "clients": {str(c): n for c, n in entry["clients"].items()}, "details": dict(entry["details"])}
            for entry in self.kinds.values()
        ]

    def save(self) -> list[dict[str, Any]]:
        """Return the state for a checkpoint: of many clients, those that changed."""
        return [
            {**entry, "clients": entry["clients"].save(), "details": dict(entry["details"])}
            for entry in self.kinds.values()
        ]

    def load(self, saved: Iterable[Mapping[str, Any]]) -> None:
        """Restore what `save` returned, also of earlier versions."""
        self.kinds = {
            entry["kind"]: {**entry, "clients": IntsByClient.load(entry["clients"]), "details": dict(entry["details"])}
            for entry in saved
        }

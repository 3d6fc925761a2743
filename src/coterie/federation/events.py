"""What went wrong without stopping the run: counted, and one example kept of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.messages import Failure


class Events:
    """Failures by kind."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[str, Any]] = {}

    def note(self, failure: Failure) -> None:
        """Enter one failure."""
        entry = self.kinds.setdefault(
            failure.kind,
            {
                "kind": failure.kind,
                "count": 0,
                "first_round": failure.round,
                "last_round": failure.round,
                "example": ("" if failure.client < 0 else f"client {failure.client}, ")
                + f"round {failure.round}"
                + (f": {failure.detail}" if failure.detail else ""),
            },
        )
        entry["count"] += 1
        entry["last_round"] = failure.round

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(entry["count"] for entry in self.kinds.values())

    def save(self) -> list[dict[str, Any]]:
        """Return the entries as plain data."""
        return list(self.kinds.values())

    def load(self, saved: Iterable[Mapping[str, Any]]) -> None:
        """Take over the entries that `save` returned."""
        self.kinds = {entry["kind"]: dict(entry) for entry in saved}

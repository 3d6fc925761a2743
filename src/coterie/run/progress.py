"""What a run tells while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Progress(Protocol):
    """Listens to a run."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Rounds are about to start; `done` were run before."""
        ...

    def phase(self, text: str) -> None:
        """Say what takes a while before or after the rounds."""
        ...

    def clients(self, done: int, total: int) -> None:
        """Note that so many clients of the present exchange have answered."""
        ...

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Note that a round is over; `row` holds the accuracies where they were measured."""
        ...

    def end(self) -> None:
        """Note that the run is over, well or not."""
        ...


class Silent:
    """Says nothing."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Say nothing."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def clients(self, done: int, total: int) -> None:
        """Say nothing."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""

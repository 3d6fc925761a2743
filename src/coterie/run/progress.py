"""What a run reports while it goes on."""

from collections.abc import Mapping
from typing import Any


class Progress:
    """Listens to a run; this one ignores everything, and others override what they show."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Rounds are about to start; `done` of them were run before."""

    def phase(self, text: str) -> None:
        """Something that takes a while before or after the rounds has started."""

    def clients(self, done: int, total: int) -> None:
        """So many clients of the present exchange have answered."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """A round is over; `row` holds the accuracies where they were measured."""

    def end(self) -> None:
        """The run is over, well or not."""

"""What a run reports while it goes on."""

from collections.abc import Callable, Mapping
from typing import Any


class Progress:
    """Listens to a run; this one ignores everything, and others override what they show."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Rounds are about to start; `done` of them were run before."""

    def phase(self, text: str) -> None:
        """Something that takes a while before or after the rounds has started."""

    def clients(self, done: int, total: int) -> None:
        """`done` of the `total` clients asked have answered."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """A round is over; `row` holds the accuracies where they were measured."""

    def end(self) -> None:
        """The run is over, well or not."""


class RoundProgress(Progress):
    """Passes on how many rounds are done, of how many, and the accuracies where they were measured."""

    def __init__(self, pass_on: Callable[[int, int, Mapping[str, Any] | None], None]) -> None:
        self.pass_on, self.rounds = pass_on, 0

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Remember how many there are."""
        self.rounds = rounds
        self.pass_on(done, rounds, None)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Pass it on."""
        self.pass_on(round, self.rounds, row)

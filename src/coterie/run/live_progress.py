"""A run shown as it goes on."""

import time
from collections.abc import Mapping
from typing import Any

from coterie.results.protocols import accuracies_text
from coterie.run.progress import Progress
from coterie.run.screen import Screen, make_screen, somebody_looks


def listener(progress: Progress | bool | None) -> Progress:
    """Return what listens to a run: as given; True shows it, False does not, None does where somebody looks."""
    if isinstance(progress, Progress):
        return progress
    shown = somebody_looks() if progress is None else progress
    return LiveProgress(make_screen()) if shown else Progress()


class LiveProgress(Progress):
    """Shows a run: two bars, or a line for each evaluation."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.began, self.answered = time.monotonic(), 0
        self.total = self.first = self.done = 0
        self.latest = ""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Start the clock."""
        self.began, self.total, self.first, self.done = time.monotonic(), rounds, done, done
        self.phase(title + (f", going on after round {done}" if done else ""))
        self.screen.show("rounds ", total=rounds, completed=done)

    def phase(self, text: str) -> None:
        """Print it."""
        self.screen.say(text)

    def clients(self, done: int, total: int) -> None:
        """Count answers."""
        self.answered += 1
        self.screen.show("clients", total=total, completed=done, news=self.pace)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Show the accuracies where they were measured."""
        self.done = round
        if row is not None:
            self.latest = accuracies_text(row)
            if not self.screen.has_bars:
                loss = "" if row["loss"] is None else f"  loss {row['loss']:.3f}"
                self.screen.say(f"round {round}/{self.total}  {self.latest}{loss}  {self.pace}  {self.left}")
        self.screen.show("rounds ", completed=round, news=f"{self.latest}  {self.left}")

    def end(self) -> None:
        """Leave the last accuracies on the screen."""
        self.screen.clear()
        if self.latest and self.screen.has_bars:
            self.screen.say(f"round {self.done}: {self.latest}")

    @property
    def pace(self) -> str:
        """Clients per second."""
        return f"{self.answered / max(time.monotonic() - self.began, 1e-9):.1f} clients/s"

    @property
    def left(self) -> str:
        """How long the rest will take."""
        run = self.done - self.first
        if run == 0:
            return "left -:--"
        minutes, seconds = divmod(int((time.monotonic() - self.began) / run * (self.total - self.done)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"left {hours}:{minutes:02}:{seconds:02}" if hours else f"left {minutes}:{seconds:02}"

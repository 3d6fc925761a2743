"""Progress of a run: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from coterie.run.progress import Progress, Silent


def make_progress(quiet: bool = False) -> Progress:
    """Choose by where the messages go."""
    if quiet:
        return Quiet()
    return Live() if sys.stderr.isatty() else Lines()


class Interruption:
    """Remembers Ctrl-C: raised while Python tidies up, a KeyboardInterrupt is printed and lost."""

    def __init__(self) -> None:
        self.came = False

    def note(self, *_: object) -> None:
        """Handle the signal as Python does, and remember it."""
        self.came = True
        raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise what may have been lost."""
        if self.came:
            raise KeyboardInterrupt


INTERRUPTION = Interruption()
"""Of this process; heeded after every round."""


class Quiet(Silent):
    """Says nothing."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Only stop if that is wished."""
        INTERRUPTION.heed()


def accuracies(row: Mapping[str, Any]) -> str:
    """Write the accuracies of a row, each under its protocol."""
    shown = (f"{p} {100 * row[p]:.2f} %" for p in ("L", "C", "G") if row[p] is not None)
    return "  ".join(shown)


class Pace:
    """How fast clients are worked on, and how long the rest will take."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.answered = 0
        self.total = self.done = self.first = 0

    def begin(self, rounds: int, done: int) -> None:
        self.began, self.total, self.first, self.done = time.monotonic(), rounds, done, done

    @property
    def per_second(self) -> float:
        return self.answered / max(time.monotonic() - self.began, 1e-9)

    @property
    def left(self) -> str:
        run = self.done - self.first
        if run == 0:
            return "-:--"
        seconds = int((time.monotonic() - self.began) / run * (self.total - self.done))
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class Lines:
    """A line for each evaluation and each phase, on standard error."""

    def __init__(self) -> None:
        self.pace = Pace()

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Say what runs."""
        self.pace.begin(rounds, done)
        self._say(title + (f", going on after round {done}" if done else ""))

    def phase(self, text: str) -> None:
        """Say what takes a while."""
        self._say(text)

    def clients(self, done: int, total: int) -> None:
        """Count answers."""
        self.pace.answered += 1

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Print the accuracies where they were measured."""
        INTERRUPTION.heed()
        self.pace.done = round
        if row is not None:
            loss = "" if row["loss"] is None else f"  loss {row['loss']:.3f}"
            self._say(
                f"round {round}/{self.pace.total}  {accuracies(row)}{loss}  "
                f"{self.pace.per_second:.1f} clients/s  left {self.pace.left}"
            )

    def end(self) -> None:
        """Nothing is open."""

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Live:
    """A bar of rounds with the latest accuracies, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        self.pace = Pace()
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}", markup=False),
            console=Console(stderr=True, markup=False),
            transient=True,
        )
        self._rounds = self._cohort = None  # type: Any
        self._latest = ""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Show the bar."""
        self.pace.begin(rounds, done)
        self._bars.console.print(title + (f", going on after round {done}" if done else ""), highlight=False)
        self._rounds = self._bars.add_task("rounds ", total=rounds, completed=done, news="")
        self._cohort = self._bars.add_task("clients", total=1, news="")
        self._bars.start()

    def phase(self, text: str) -> None:
        """Say what takes a while."""
        self._bars.console.print(text, highlight=False)

    def clients(self, done: int, total: int) -> None:
        """Move the lower bar."""
        self.pace.answered += 1
        self._bars.update(self._cohort, total=total, completed=done, news=f"{self.pace.per_second:.1f} clients/s")

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Move the upper bar."""
        INTERRUPTION.heed()
        self.pace.done = round
        if row is not None:
            self._latest = accuracies(row)
        self._bars.update(self._rounds, completed=round, news=f"{self._latest}  left {self.pace.left}")

    def end(self) -> None:
        """Leave the last accuracies on the screen."""
        self._bars.stop()
        if self._latest:
            self._bars.console.print(f"round {self.pace.done}: {self._latest}", highlight=False)

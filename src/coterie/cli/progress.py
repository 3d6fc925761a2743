"""Progress of a run: live on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from coterie.cli.interrupts import INTERRUPTION
from coterie.results.protocols import accuracies_text
from coterie.run.progress import Progress


def make_progress(quiet: bool = False) -> Progress:
    """Choose by where the messages go."""
    if quiet:
        return QuietProgress()
    return LiveProgress() if sys.stderr.isatty() else LineProgress()


def say(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


class QuietProgress(Progress):
    """Shows nothing, but stops after Ctrl-C."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Stop if Ctrl-C came."""
        INTERRUPTION.heed()


class Pace:
    """How fast clients are worked on, and how long the rest will take."""

    def __init__(self) -> None:
        self.answered = 0
        self.begin(0, 0)

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


class LineProgress(QuietProgress):
    """A line for each evaluation and each phase, on standard error."""

    def __init__(self) -> None:
        self.pace = Pace()

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Print what runs."""
        self.pace.begin(rounds, done)
        say(title + (f", going on after round {done}" if done else ""))

    def phase(self, text: str) -> None:
        """Print it."""
        say(text)

    def clients(self, done: int, total: int) -> None:
        """Count answers."""
        self.pace.answered += 1

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Print the accuracies where they were measured."""
        super().round(round, row)
        self.pace.done = round
        if row is not None:
            loss = "" if row["loss"] is None else f"  loss {row['loss']:.3f}"
            say(
                f"round {round}/{self.pace.total}  {accuracies_text(row)}{loss}  "
                f"{self.pace.per_second:.1f} clients/s  left {self.pace.left}"
            )


class LiveProgress(QuietProgress):
    """A bar of rounds with the latest accuracies, on a terminal."""

    def __init__(self) -> None:
        self.pace = Pace()
        self._bars = make_bars()
        self._rounds = self._cohort = None  # type: Any
        self._latest = ""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Show the bar."""
        self.pace.begin(rounds, done)
        self.phase(title + (f", going on after round {done}" if done else ""))
        self._rounds = self._bars.add_task("rounds ", total=rounds, completed=done, news="")
        self._cohort = self._bars.add_task("clients", total=1, news="")
        self._bars.start()

    def phase(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, highlight=False)

    def clients(self, done: int, total: int) -> None:
        """Move the lower bar."""
        self.pace.answered += 1
        self._bars.update(self._cohort, total=total, completed=done, news=f"{self.pace.per_second:.1f} clients/s")

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Move the upper bar."""
        super().round(round, row)
        self.pace.done = round
        if row is not None:
            self._latest = accuracies_text(row)
        self._bars.update(self._rounds, completed=round, news=f"{self._latest}  left {self.pace.left}")

    def end(self) -> None:
        """Leave the last accuracies on the screen."""
        self._bars.stop()
        if self._latest:
            self.phase(f"round {self.pace.done}: {self._latest}")


def make_bars(elapsed: bool = False) -> Any:
    """Return Rich's bars on standard error: description, bar, count, perhaps the time, and the field `news`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        *([TimeElapsedColumn()] if elapsed else []),
        TextColumn("{task.fields[news]}", markup=False),
        console=Console(stderr=True, markup=False),
        transient=True,
    )

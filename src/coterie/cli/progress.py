"""Progress of a run, and of many, on standard error: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Hashable, Mapping
from typing import Any

from coterie.cli.interrupts import INTERRUPTION
from coterie.compare.jobs import BatchProgress, RunJob
from coterie.errors import one_line
from coterie.results.protocols import accuracies_text
from coterie.run.progress import Progress


class Screen:
    """Standard error: lines, and on a terminal bars below them; nothing if `quiet`."""

    def __init__(self, quiet: bool, elapsed: bool = False) -> None:
        self.quiet = quiet
        self.bars = _make_bars(elapsed) if sys.stderr.isatty() and not quiet else None
        self._tasks: dict[Hashable, Any] = {}

    def say(self, text: str) -> None:
        """Print a line, above the bars if there are any."""
        text = one_line(text)
        if self.bars is not None:
            self.bars.console.print(text, highlight=False)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def show(self, bar: Hashable, **changes: Any) -> None:
        """Change a bar, which is added if it is new: `total`, `completed`, `news`."""
        if self.bars is None:
            return
        if bar in self._tasks:
            self.bars.update(self._tasks[bar], **changes)
        else:
            self._tasks[bar] = self.bars.add_task(str(bar), **{"total": None, "news": "", **changes})
            self.bars.start()

    def remove(self, bar: Hashable) -> None:
        """Take a bar away, if it is there."""
        if self.bars is not None and bar in self._tasks:
            self.bars.remove_task(self._tasks.pop(bar))

    def clear(self) -> None:
        """Take all bars away."""
        if self.bars is not None:
            self.bars.stop()
        for bar in [*self._tasks]:
            self.remove(bar)


class ConsoleProgress(Progress):
    """Shows a run: two bars, or a line for each evaluation. Stops it after Ctrl-C, also if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.screen = Screen(quiet)
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
        INTERRUPTION.heed()
        self.done = round
        if row is not None:
            self.latest = accuracies_text(row)
            if self.screen.bars is None:
                loss = "" if row["loss"] is None else f"  loss {row['loss']:.3f}"
                self.screen.say(f"round {round}/{self.total}  {self.latest}{loss}  {self.pace}  {self.left}")
        self.screen.show("rounds ", completed=round, news=f"{self.latest}  {self.left}")

    def end(self) -> None:
        """Leave the last accuracies on the screen."""
        self.screen.clear()
        if self.latest and self.screen.bars is not None:
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


class ConsoleBatchProgress(BatchProgress):
    """Shows many runs: a line for each that ends, and on a terminal a bar for all and one for each that goes on."""

    def __init__(self, quiet: bool = False) -> None:
        self.screen = Screen(quiet, elapsed=True)
        self.total = self.done = 0

    def begin(self, title: str, runs: int, finished: int) -> None:
        """Print how many runs there are."""
        self.total, self.done = runs, finished
        self.note(f"{title}: {runs} runs" + (f", {finished} of them finished" if finished else ""))
        self.screen.show("runs", total=runs, completed=finished)

    def note(self, text: str) -> None:
        """Print it."""
        self.screen.say(text)

    def started(self, job: RunJob) -> None:
        """Add a bar."""
        self.screen.show(job)

    def round(self, job: RunJob, done: int, rounds: int, row: Mapping[str, Any] | None) -> None:
        """Move its bar."""
        INTERRUPTION.heed()
        self.screen.show(job, total=rounds, completed=done, **({} if row is None else {"news": accuracies_text(row)}))

    def finished(self, job: RunJob, accuracy: Mapping[str, float | None]) -> None:
        """Count it, with its accuracies."""
        self.done += 1
        self.screen.remove(job)
        self.screen.show("runs", completed=self.done)
        self.note(f"{self.done}/{self.total}  {job}: {accuracies_text(accuracy)}")

    def failed(self, job: RunJob, why: str) -> None:
        """Print why."""
        self.screen.remove(job)
        self.note(f"{job}, failed: {why}")

    def end(self) -> None:
        """Take the bars away."""
        self.screen.clear()


def _make_bars(elapsed: bool) -> Any:
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

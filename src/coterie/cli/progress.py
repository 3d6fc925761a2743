"""Progress of a run, and of many: live on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from coterie.cli.interrupts import INTERRUPTION
from coterie.compare.jobs import BatchProgress, RunJob
from coterie.results.protocols import accuracies_text
from coterie.run.progress import Progress

Accuracy = Mapping[str, float | None]


def make_progress(quiet: bool = False) -> Progress:
    """Choose by where the messages go."""
    if quiet:
        return QuietProgress()
    return LiveProgress() if sys.stderr.isatty() else LineProgress()


def make_batch_progress(quiet: bool = False) -> BatchProgress:
    """Choose by where the messages go."""
    if quiet:
        return BatchProgress()
    return LiveBatchProgress() if sys.stderr.isatty() else LineBatchProgress()


def say(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


class QuietProgress(Progress):
    """Shows nothing, but stops after Ctrl-C, and knows how fast clients are worked on."""

    def __init__(self) -> None:
        self.began, self.answered = time.monotonic(), 0
        self.total = self.first = self.done = 0

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Start the clock."""
        self.began, self.total, self.first, self.done = time.monotonic(), rounds, done, done
        self.phase(title + (f", going on after round {done}" if done else ""))

    def clients(self, done: int, total: int) -> None:
        """Count answers."""
        self.answered += 1

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Stop if Ctrl-C came."""
        INTERRUPTION.heed()
        self.done = round

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


class LineProgress(QuietProgress):
    """A line for each evaluation and each phase, on standard error."""

    def phase(self, text: str) -> None:
        """Print it."""
        say(text)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Print the accuracies where they were measured."""
        super().round(round, row)
        if row is not None:
            loss = "" if row["loss"] is None else f"  loss {row['loss']:.3f}"
            say(f"round {round}/{self.total}  {accuracies_text(row)}{loss}  {self.pace}  {self.left}")


class LiveProgress(QuietProgress):
    """A bar of rounds with the latest accuracies, on a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._bars = make_bars()
        self._rounds = self._cohort = None  # type: Any
        self._latest = ""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Show the bars."""
        super().begin(title, rounds, done)
        self._rounds = self._bars.add_task("rounds ", total=rounds, completed=done, news="")
        self._cohort = self._bars.add_task("clients", total=1, news="")
        self._bars.start()

    def phase(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, highlight=False)

    def clients(self, done: int, total: int) -> None:
        """Move the lower bar."""
        super().clients(done, total)
        self._bars.update(self._cohort, total=total, completed=done, news=self.pace)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Move the upper bar."""
        super().round(round, row)
        if row is not None:
            self._latest = accuracies_text(row)
        self._bars.update(self._rounds, completed=round, news=f"{self._latest}  {self.left}")

    def end(self) -> None:
        """Leave the last accuracies on the screen."""
        self._bars.stop()
        if self._latest:
            self.phase(f"round {self.done}: {self._latest}")


class LineBatchProgress(BatchProgress):
    """A line for each run that ends, on standard error."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def begin(self, title: str, runs: int, finished: int) -> None:
        """Print how many runs there are."""
        self.total, self.done = runs, finished
        say(f"{title}: {runs} runs" + (f", {finished} of them finished" if finished else ""))

    def note(self, text: str) -> None:
        """Print it."""
        say(text)

    def finished(self, job: RunJob, accuracy: Accuracy) -> None:
        """Count it, with its accuracies."""
        self.done += 1
        say(f"{self.done}/{self.total}  {job}: {accuracies_text(accuracy)}")

    def failed(self, job: RunJob, why: str) -> None:
        """Print why."""
        say(f"{job}, failed: {why}")


class LiveBatchProgress(BatchProgress):
    """A bar for all runs, and one for each that is going on."""

    def __init__(self) -> None:
        self._bars = make_bars(elapsed=True)
        self._all: Any = None
        self._tasks: dict[RunJob, Any] = {}

    def begin(self, title: str, runs: int, finished: int) -> None:
        """Show the bar of all runs."""
        self.note(title)
        self._all = self._bars.add_task("runs", total=runs, completed=finished, news="")
        self._bars.start()

    def note(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, highlight=False)

    def of_run(self, job: RunJob) -> Progress:
        """Add a bar."""
        task = self._tasks[job] = self._bars.add_task(str(job), total=None, news="")
        return _RunBar(self._bars, task)

    def finished(self, job: RunJob, accuracy: Accuracy) -> None:
        """Move the bar of all runs, and leave the accuracies on the screen."""
        self._close(job)
        self._bars.advance(self._all)
        self.note(f"{job}: {accuracies_text(accuracy)}")

    def failed(self, job: RunJob, why: str) -> None:
        """Print why."""
        self._close(job)
        self.note(f"{job}, failed: {why}")

    def end(self) -> None:
        """Take the bars away."""
        self._bars.stop()

    def _close(self, job: RunJob) -> None:
        if job in self._tasks:
            self._bars.remove_task(self._tasks.pop(job))


class _RunBar(Progress):
    """The bar of one run."""

    def __init__(self, bars: Any, task: Any) -> None:
        self.bars, self.task = bars, task

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.bars.update(self.task, total=rounds, completed=done)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        self.bars.update(self.task, completed=round, **({} if row is None else {"news": accuracies_text(row)}))


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

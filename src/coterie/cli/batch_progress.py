"""Progress of many runs: live on a terminal, a line per run elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from coterie.compare.jobs import BatchProgress, RunJob, SilentBatchProgress
from coterie.run.progress import Progress, Silent

Accuracy = Mapping[str, float | None]


def make_watcher(quiet: bool = False) -> BatchProgress:
    """Choose by where the messages go."""
    if quiet:
        return SilentBatchProgress()
    return LiveBatchProgress() if sys.stderr.isatty() else Lines()


def shown(accuracy: Accuracy) -> str:
    """Write accuracies, each under its protocol."""
    heads = {"L": "L", "C": "C", "G": "G", "plus": "+"}
    known = ((head, accuracy.get(key)) for key, head in heads.items())
    return "  ".join(f"{head} {100 * value:.2f} %" for head, value in known if value is not None)


class Lines:
    """A line for each run that ends, on standard error."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def begin(self, title: str, trials: int, finished: int) -> None:
        """Say how many runs there are."""
        self.total, self.done = trials, finished
        self._say(f"{title}: {trials} runs" + (f", {finished} of them finished" if finished else ""))

    def note(self, text: str) -> None:
        """Say it."""
        self._say(text)

    def progress(self, trial: RunJob) -> Progress:
        """Show nothing of single rounds."""
        return Silent()

    def finished(self, trial: RunJob, accuracy: Accuracy) -> None:
        """Count it, with its accuracies."""
        self.done += 1
        self._say(f"{self.done}/{self.total}  {trial}: {shown(accuracy)}")

    def failed(self, trial: RunJob, why: str) -> None:
        """Say why."""
        self._say(f"{trial}, failed: {why}")

    def end(self) -> None:
        """Nothing is open."""

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class LiveBatchProgress:
    """A bar for all runs, and one for each that is going on."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[news]}", markup=False),
            console=Console(stderr=True, markup=False),
            transient=True,
        )
        self._all: Any = None
        self._tasks: dict[RunJob, Any] = {}

    def begin(self, title: str, trials: int, finished: int) -> None:
        """Show the bar of all runs."""
        self._bars.console.print(title, highlight=False)
        self._all = self._bars.add_task("runs", total=trials, completed=finished, news="")
        self._bars.start()

    def note(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, highlight=False)

    def progress(self, trial: RunJob) -> Progress:
        """Add a bar."""
        task = self._tasks[trial] = self._bars.add_task(str(trial), total=None, news="")
        return _Bar(self._bars, task)

    def finished(self, trial: RunJob, accuracy: Accuracy) -> None:
        """Move the bar of all runs, and leave the accuracies on the screen."""
        self._close(trial)
        self._bars.advance(self._all)
        self.note(f"{trial}: {shown(accuracy)}")

    def failed(self, trial: RunJob, why: str) -> None:
        """Say why."""
        self._close(trial)
        self.note(f"{trial}, failed: {why}")

    def end(self) -> None:
        """Take the bars away."""
        self._bars.stop()

    def _close(self, trial: RunJob) -> None:
        if trial in self._tasks:
            self._bars.remove_task(self._tasks.pop(trial))


class _Bar(Silent):
    """One run's bar."""

    def __init__(self, bars: Any, task: Any) -> None:
        self.bars, self.task = bars, task

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.bars.update(self.task, total=rounds, completed=done)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        self.bars.update(self.task, completed=round, **({} if row is None else {"news": shown(row)}))

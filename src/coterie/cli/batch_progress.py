"""Progress of many runs: live on a terminal, a line per run elsewhere."""

import sys
from collections.abc import Mapping
from typing import Any

from coterie.cli.progress import make_bars, say
from coterie.compare.jobs import BatchProgress, RunJob
from coterie.results.protocols import accuracies_text
from coterie.run.progress import Progress

Accuracy = Mapping[str, float | None]


def make_batch_progress(quiet: bool = False) -> BatchProgress:
    """Choose by where the messages go."""
    if quiet:
        return BatchProgress()
    return LiveBatchProgress() if sys.stderr.isatty() else LineBatchProgress()


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

"""Many runs shown as they go on."""

from collections.abc import Mapping
from typing import Any

from coterie.compare.jobs import BatchProgress, RunJob
from coterie.errors import counted
from coterie.results.protocols import accuracies_text
from coterie.run.screen import Screen, make_screen, somebody_looks


def batch_listener(progress: BatchProgress | bool | None) -> BatchProgress:
    """Return what listens to many runs: as given; True shows them, False does not, None does where somebody looks."""
    if isinstance(progress, BatchProgress):
        return progress
    shown = somebody_looks() if progress is None else progress
    return LiveBatchProgress(make_screen(elapsed=True)) if shown else BatchProgress()


class LiveBatchProgress(BatchProgress):
    """Shows many runs: a line for each that ends; where there are bars, one for all and one for each that goes on."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.total = self.done = 0

    def begin(self, title: str, runs: int, finished: int) -> None:
        """Print how many runs there are."""
        self.total, self.done = runs, finished
        self.note(f"{title}: {counted(runs, 'run')}" + (f", {finished} of them finished" if finished else ""))
        self.screen.show("runs", total=runs, completed=finished)

    def note(self, text: str) -> None:
        """Print it."""
        self.screen.say(text)

    def started(self, job: RunJob) -> None:
        """Add a bar."""
        self.screen.show(job)

    def round(self, job: RunJob, done: int, rounds: int, row: Mapping[str, Any] | None) -> None:
        """Move its bar."""
        self.screen.show(job, total=rounds, completed=done, **({} if row is None else {"news": accuracies_text(row)}))

    def finished(self, job: RunJob, accuracy: Mapping[str, float | None]) -> None:
        """Count it, with its accuracies."""
        self.done += 1
        self.screen.remove(job)
        self.screen.show("runs", completed=self.done)
        reached = accuracies_text({**accuracy, "metric": job.config.evaluation.metric})
        self.note(f"{self.done}/{self.total}  {job}: {reached}")

    def failed(self, job: RunJob, why: str) -> None:
        """Print why."""
        self.screen.remove(job)
        self.note(f"{job}, failed: {why}")

    def end(self) -> None:
        """Take the bars away."""
        self.screen.clear()

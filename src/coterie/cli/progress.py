"""Progress of a run, and of many, on standard error: bars on a terminal, plain lines elsewhere."""

from collections.abc import Mapping
from typing import Any

from coterie.cli.interrupts import INTERRUPTION
from coterie.compare.jobs import RunJob
from coterie.compare.live_progress import LiveBatchProgress
from coterie.run.live_progress import LiveProgress
from coterie.run.screen import Screen, make_screen


class ConsoleProgress(LiveProgress):
    """Shows a run, unless `quiet`, and stops it after Ctrl-C."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(Screen() if quiet else make_screen())

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Show it, unless the run is to stop."""
        INTERRUPTION.heed()
        super().round(round, row)


class ConsoleBatchProgress(LiveBatchProgress):
    """Shows many runs, unless `quiet`, and stops them after Ctrl-C."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(Screen() if quiet else make_screen(elapsed=True))

    def round(self, job: RunJob, done: int, rounds: int, row: Mapping[str, Any] | None) -> None:
        """Show it, unless the runs are to stop."""
        INTERRUPTION.heed()
        super().round(job, done, rounds, row)

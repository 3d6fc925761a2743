"""Weights & Biases, offline: files, which ``wandb sync`` sends if and when you want it to."""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.files import make_folder, remove_tree
from coterie.results.run_folder import WANDB
from coterie.tracking.tracker import Row, TrackedRun, Tracker, scalars

PROJECT = "coterie"


class WandbTracker(Tracker):
    """Writes an offline run: settings as its configuration, rows as its history, final accuracies in its summary."""

    def __init__(self, folder: Path | None) -> None:
        import wandb

        self.folder, self.wandb = folder, wandb

    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        """Begin an offline run in place of the one that this run had, if it goes on or is told again."""
        place = self.folder or Path(str(run.folder))
        own = f"{zlib.crc32(run.identity.encode()):08x}"
        for earlier in (place / WANDB).glob(f"offline-run-*-{own}"):
            remove_tree(earlier)
        make_folder(place)
        self.made = self.wandb.init(
            mode="offline",
            dir=str(place),
            project=PROJECT,
            id=own,
            name=run.name,
            config=dict(run.settings),
            settings=self.wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True
            ),
            reinit="create_new",
        )
        for row in rows:
            self.row(row)

    def row(self, row: Row) -> None:
        """Log its numbers at its round."""
        self.made.log(scalars(row), step=int(row["round"]))

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Set the summary, and finish the run."""
        if result is not None:
            self.made.summary.update({f"result/{name}": value for name, value in scalars(result["accuracy"]).items()})
        self.made.finish(exit_code=0 if result is not None else 1, quiet=True)

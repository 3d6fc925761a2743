"""All trackers of a run: one that fails is left out, and the run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, one_line, suggestion
from coterie.tracking.to_mlflow import MLflowTracker
from coterie.tracking.to_tensorboard import TensorBoardTracker
from coterie.tracking.to_wandb import WandbTracker
from coterie.tracking.tracker import Row, TrackedRun, Tracker

BUILT_IN: dict[str, Callable[[Path | None], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "mlflow": MLflowTracker,
    "wandb": WandbTracker,
}
"""By name. Their packages are imported when one is made."""


def check_tracker(choice: Mapping[str, Any]) -> None:
    """Refuse a tracker that there is not, or options that it does not have; packages are not looked for."""
    name, options = choice["name"], {key: value for key, value in choice.items() if key != "name"}
    if name not in BUILT_IN:
        raise CoterieError(f"there is no tracker '{name}': {suggestion(name, BUILT_IN)}")
    for key, value in options.items():
        if key != "folder" or not isinstance(value, str):
            raise CoterieError(
                f"'{key} = {value!r}' is no option of a tracker: write {name}:folder=DIR, or leave it out"
            )


def make_tracker(name: str, folder: str | os.PathLike[str] | None = None) -> Tracker:
    """Return a tracker by name; refuse one whose package is not installed.

    It writes into `folder`, or else into the folder of the run.
    """
    check_tracker({"name": name})
    try:
        return BUILT_IN[name](None if folder is None else Path(folder))
    except ImportError as error:
        missing = f"tracker '{name}' needs a package that is not installed here ({one_line(str(error))})"
        raise CoterieError(f"{missing}: pip install 'coterie[{name}]'") from None


class Trackers(Tracker):
    """Passes all on to several trackers; says once that one fails, and leaves it out."""

    def __init__(self, trackers: Sequence[Tracker], say: Callable[[str], None]) -> None:
        self.trackers, self.say, self.ended = [*trackers], say, False

    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        """Pass it on."""
        self._tell(lambda tracker: tracker.begin(run, rows))

    def row(self, row: Row) -> None:
        """Pass it on."""
        self._tell(lambda tracker: tracker.row(row))

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Pass on the first end: that of a run that failed behind its result is none."""
        if not self.ended:
            self.ended = True
            self._tell(lambda tracker: tracker.end(result))

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        for tracker in [*self.trackers]:
            try:
                what(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                name, why = type(tracker).__name__, one_line(f"{type(error).__name__}: {error}")
                self.say(f"warning: {name} failed and is told nothing more, the run goes on ({why})")

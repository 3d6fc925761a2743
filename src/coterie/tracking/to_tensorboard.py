"""TensorBoard: event files, which ``tensorboard --logdir runs`` shows."""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from coterie.files import make_folder, remove, write_whole
from coterie.results.run_folder import TENSORBOARD
from coterie.tracking.tracker import Row, TrackedRun, Tracker, scalars

OWNER = "coterie-run.txt"


class TensorBoardTracker(Tracker):
    """Writes a scalar for each number of a row; at the end the settings as hparams, with the accuracies."""

    def __init__(self, folder: Path | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder, self.make_writer = folder, SummaryWriter

    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        """Write the rows of earlier anew: of a run that goes on, some may have been written by a killed process."""
        place = Path(str(run.folder)) / TENSORBOARD if self.folder is None else own_place(self.folder, run)
        for file in place.glob("events.out.tfevents.*"):
            remove(file)
        self.run, self.writer = run, self.make_writer(str(place), flush_secs=10)
        text = "\n".join(f"    {key} = {json.dumps(value)}" for key, value in run.settings.items())
        self.writer.add_text("settings", text, walltime=run.began)
        for row in rows:
            self.row(row)

    def row(self, row: Row) -> None:
        """Write its numbers at its round."""
        for name, value in scalars(row).items():
            if name != "round":
                self.writer.add_scalar(name, value, row["round"], self.run.time_of(row))

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Write the settings with the accuracies, and close the file."""
        if result is not None:
            plain = {k: v if isinstance(v, bool | int | float | str) else str(v) for k, v in self.run.settings.items()}
            accuracy = {f"result/{protocol}": value for protocol, value in scalars(result["accuracy"]).items()}
            self.writer.add_hparams(plain, accuracy, run_name=".")
        self.writer.close()


def own_place(folder: Path, run: TrackedRun) -> Path:
    """Return the folder of a run among those of others, one of which may have its name; a file says whose it is."""
    owner = run.identity.encode()
    for number in count(1):
        place = folder / (run.name if number == 1 else f"{run.name}-{number}")
        said = place / OWNER
        if not place.exists():
            make_folder(place)
            write_whole(said, owner)
        if said.is_file() and said.read_bytes() == owner:
            return place
    raise AssertionError

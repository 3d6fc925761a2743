"""The run folder: what a run leaves behind, and goes on from."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from coterie.errors import CoterieError
from coterie.federation.loop import due
from coterie.files import name_path_in_errors, write_whole
from coterie.run.config import Config
from coterie.run.toml import read_toml, to_toml
from coterie.run.validation import make_config

PARTS = (
    *("config.toml", "metrics.jsonl", "result.json", "checkpoint.safetensors", "views.safetensors"),
    *("expert.safetensors", "accuracy.png", "sites.json"),
)
PATIENCE = 10.0
"""Seconds to wait for workers of a process that was killed, which end by themselves."""


@contextmanager
def locked(path: Path, patience: float = 0.0) -> Iterator[IO[str]]:
    """Keep other processes out of a folder, after waiting so many seconds for one that ends.

    The lock ends with the process, however that happens; workers that are given the file hold it too, so that it is
    free only when all have ended.
    """
    with (path / "lock").open("w") as file:
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - began >= patience:
                    raise CoterieError(f"another process is working on '{path}'") from None
                time.sleep(0.05)
        yield file


class RunFolder:
    """``config.toml``, ``metrics.jsonl``, ``result.json``, the checkpoint and the clients' states."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file, self.metrics_file = path / "config.toml", path / "metrics.jsonl"
        self.result_file, self.checkpoint = path / "result.json", path / "checkpoint.safetensors"
        self.clients, self.views = path / "clients", path / "views.safetensors"
        self.sites_file = path / "sites.json"

    def check_free(self, overwrite: bool) -> None:
        """Refuse a path that holds something, unless it is a run to overwrite."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise CoterieError(f"'{path}' is a file: choose another --out")
        if path.exists() and any(path.iterdir()):
            if not self.config_file.exists():
                raise CoterieError(f"'{path}' exists and is not a run: choose another --out")
            if not overwrite:
                state = "an unfinished run: go on with 'coterie resume"
                if self.finished:
                    state = "a finished run: look at it with 'coterie report"
                raise CoterieError(
                    f"'{path}' holds {state} {path}', choose another --out, or replace it by --overwrite"
                )

    def make(self) -> None:
        """Make the folder, if it is not there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoterieError(f"the run folder '{self.path}' can't be made: {error.strerror}") from None

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the folder of a run that was started."""
        folder = cls(path)
        if not folder.config_file.is_file():
            raise CoterieError(f"'{path}' is not a run folder: it has no config.toml")
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.result_file.exists()

    @property
    def deployed(self) -> bool:
        """Whether the clients are sites with data and models of their own, elsewhere."""
        return self.sites_file.exists()

    def clear(self) -> None:
        """Remove what a run wrote, and nothing else."""
        for name in PARTS:
            (self.path / name).unlink(missing_ok=True)
        for file in self.path.glob("checkpoint-*.safetensors"):
            file.unlink()
        shutil.rmtree(self.clients, ignore_errors=True)
        shutil.rmtree(self.path / ".clients-shared", ignore_errors=True)  # which a killed simulation left

    def clear_traces(self) -> None:
        """Remove what an attempt left that was killed before its first checkpoint."""
        self.metrics_file.unlink(missing_ok=True)
        shutil.rmtree(self.clients, ignore_errors=True)

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Keep a second process out; the lock ends with this one, however that happens."""
        with locked(self.path, patience):
            yield

    def write_config(self, config: Config) -> None:
        """Write the complete configuration; it reruns the run."""
        write_whole(self.config_file, to_toml(config).encode())

    def read_config(self) -> Config:
        """Read the configuration back."""
        return make_config(read_toml(self.config_file), str(self.config_file))

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add the row of an evaluated round."""
        with name_path_in_errors(self.metrics_file), self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of all evaluated rounds; one that a kill cut short is left out."""
        rows = []
        if self.metrics_file.exists():
            for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
                try:
                    rows.append(json.loads(line))
                except json.JSONDecodeError:
                    break
        return rows

    def cut_metrics(self, last: int) -> list[dict[str, Any]]:
        """Drop the rows of rounds after `last`, which will be run again."""
        rows = [row for row in self.read_metrics() if row["round"] <= last]
        write_whole(self.metrics_file, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return rows

    def check_metrics(self, rows: Sequence[Mapping[str, Any]], rounds: int, every: int, done: int) -> None:
        """Refuse rows that are not those of all rounds up to `done` in which accuracies were due."""
        wanted = [t for t in range(1, done + 1) if due(t, rounds, every)]
        if [row.get("round") for row in rows] != wanted:
            raise CoterieError(
                f"'{self.metrics_file}' is damaged: it has {len(rows)} whole rows for {len(wanted)} evaluated rounds: "
                f"remove '{self.path}' and run it again"
            )

    def write_result(self, fields: Mapping[str, Any]) -> None:
        """Write the result; with it the run is finished."""
        write_whole(self.result_file, (json.dumps(fields, indent=1) + "\n").encode())


def new_path(algorithm: str, dataset: str, seed: int) -> Path:
    """Choose a run folder that is not there yet."""
    return unused(f"{algorithm}-{Path(dataset).stem}-seed{seed}")


def unused(stem: str) -> Path:
    """Choose a folder under runs/ that is not there yet."""
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path

"""The run folder: what a run leaves behind, and goes on from. No other module knows the names of its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from coterie.bounded import (
    LARGEST_JSON,
    LARGEST_TOML,
    check_header,
    parse_json,
    parse_toml,
    read_bytes,
    read_tensors,
    read_text,
)
from coterie.errors import CoterieError, one_line
from coterie.files import (
    UNSEALED,
    Flush,
    extend,
    flush_folder,
    make_folder,
    part_of,
    remove,
    remove_tree,
    seal,
    sealed,
    write_whole,
)
from coterie.results import client_columns
from coterie.results.checks import (
    error_in_arrays,
    error_in_config,
    error_in_result,
    error_in_row,
    without_odd_values,
)
from coterie.results.folder_hints import inside, like_it
from coterie.results.folder_lock import LOCK
from coterie.results.formats import PAGE, PLAIN_RESULT, RESULT_FORMAT, error_in_format
from coterie.results.schema import SitesFile, cleaned, error_in

CONFIG, METRICS, RESULT = "config.toml", "metrics.jsonl", "result.json"
ARRAYS, SITES, COLUMNS = "views.safetensors", "sites.json", "clients.safetensors"
CHECKPOINT, EXPERT, PICTURE, JOURNAL = "checkpoint.safetensors", "expert.safetensors", "accuracy.png", "journal.jsonl"
WRITTEN = (RESULT, CHECKPOINT, JOURNAL, METRICS, ARRAYS, EXPERT, PICTURE, PAGE, SITES)
"""Files that a run writes beside its configuration, and `RunFolder.clear` removes, in this order."""
TENSORBOARD, MLFLOW, WANDB = "tensorboard", "mlflow.db", "wandb"
"""What trackers write, where they write into the run folder."""
BEFORE_CONFIG = (LOCK, f"{CONFIG}.part", f"{SITES}.part")
"""What a run leaves that was killed before it had begun."""
NEEDED = {"accuracy": dict, "per_client": dict, "traffic": dict, "events": list}
"""What a result must have, and of which type."""
FREE = {
    ("run", "out"),
    ("run", "plugins"),
    ("run", "durable"),
    ("run", "track"),
    ("engine", "workers"),
    ("engine", "state"),
    ("engine", "address"),
    ("engine", "gpu_share"),
    ("model", "initial_digest"),  # which is checked against the file
}
"""Keys of a configuration that do not change the numbers of a run."""
ArrayName = Literal["label_counts", "grouped", "proximity", "tree", "labels", "sample_pool", "client_pool"]
PlotArrays = dict[ArrayName, npt.NDArray[Any]]
"""What pictures need beside the numbers, in ``views.safetensors``.

`label_counts` (clients, classes) are training samples, at the end where data drift; known in a simulation only. Where
clients were grouped by proximities: `grouped` are who, then `proximity`, `tree` and `labels` of these. With a
curriculum, `sample_pool` is the share of a client's samples over a local training, `client_pool` the number of clients
by round.
"""
LARGEST_METRICS, MOST_METRICS = 2**26, 600_000
"""Bytes and values of ``metrics.jsonl``: those of 40,000 evaluated rounds."""


@dataclass(frozen=True)
class SiteSummary:
    """A client that is a real machine."""

    name: str
    samples: int
    """To train on, as it said when it last came."""


class RunFolder:
    """``config.toml``, ``metrics.jsonl``, ``result.json``, the checkpoint and the clients' states."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file, self.metrics_file, self.result_file = path / CONFIG, path / METRICS, path / RESULT
        self.checkpoint, self.clients, self.arrays_file = path / CHECKPOINT, path / "clients", path / ARRAYS
        self.sites_file, self.expert_file, self.picture = path / SITES, path / EXPERT, path / PICTURE
        self.journal, self.columns_file = path / JOURNAL, path / COLUMNS

    @property
    def error_file(self) -> Path:
        """Where the traceback of a failure is kept: beside the folder, which a new attempt needs empty."""
        return self.path.with_name(f"{self.path.name}.error.txt")

    def model_file(self, name: str, format: str) -> Path:
        """Return where a model is exported to by default, called by whose it is."""
        return self.path / f"{name}.{format}"

    def check_free(self, overwrite: bool) -> None:
        """Refuse a path that holds something, unless it is a run to overwrite, or one that was killed unbegun."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise CoterieError(f"'{path}' is a file: choose another --out")
        if path.exists() and self.other_files:
            if not self.config_file.exists():
                raise CoterieError(f"'{path}' exists and is not a run: choose another --out")
            if not overwrite:
                state = "an unfinished run: go on with 'coterie resume"
                if self.finished:
                    state = "a finished run: look at it with 'coterie report"
                raise CoterieError(
                    f"'{path}' holds {state} {path}', choose another --out, or replace it by --overwrite"
                )

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the folder of a run that was started."""
        folder = cls(path)
        if not path.exists():
            raise CoterieError(f"'{path}' is not a run folder: it does not exist{like_it(path)}")
        if not folder.exists:
            begun = path.is_dir() and any(path.iterdir()) and not folder.other_files
            hint = ", since the run was ended before it had begun: give the same command again" if begun else ""
            raise CoterieError(f"'{path}' is not a run folder: it has no {CONFIG}{hint or inside(path, CONFIG)}")
        return folder

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.result_file.exists()

    @property
    def deployed(self) -> bool:
        """Whether the clients are sites with data and models of their own, elsewhere."""
        return self.sites_file.exists()

    @property
    def other_files(self) -> list[str]:
        """What is in the folder beside traces of a run that was killed before it had begun."""
        return sorted(item.name for item in self.path.iterdir() if item.name not in BEFORE_CONFIG)

    def write_error(self, trace: str) -> None:
        """Keep the traceback of a failure."""
        make_folder(self.error_file.parent)
        write_whole(self.error_file, trace.encode(errors="replace"), "nothing")

    def clear(self) -> None:
        """Remove what a run wrote but its configuration, and nothing else.

        The configuration stays until another takes its place, and goes on without a checkpoint from the beginning: so
        the folder can be gone on with wherever this ends.
        """
        for name in WRITTEN:
            remove(self.path / name)
            if name == CHECKPOINT:
                flush_folder(self.path)  # what follows must not reach the disk before
        for file in self.path.glob(part_of(self.checkpoint, "*").name):
            remove(file)
        client_columns.remove_all(self.columns_file)
        remove_tree(self.clients)
        remove_tree(shared_beside(self.clients))  # which a killed simulation left
        remove_tree(ledgers_in(self.path))
        for name in (TENSORBOARD, MLFLOW, WANDB):
            remove_tree(self.path / name)
        self.remove_parts()

    def clear_traces(self) -> None:
        """Remove what an attempt left that was killed before its first checkpoint."""
        self.remove_parts()
        remove(self.metrics_file)
        remove(self.journal)
        remove_tree(self.clients)

    def remove_parts(self) -> None:
        """Remove the halves of files that a killed process left."""
        for name in (CONFIG, *WRITTEN, part_of(self.checkpoint, "*").name, part_of(self.columns_file, "*").name):
            for part in self.path.glob(f"{name}.part"):
                remove(part)

    def write_config(self, text: str) -> None:
        """Write the complete configuration, as TOML; it reruns the run."""
        write_whole(self.config_file, text.encode())

    def go_on(self, config: str) -> None:
        """Let a run go on with another configuration; until that is there, it goes on with the old one to the old end.

        So wherever this ends, the folder holds no result of another configuration than its own.
        """
        if self.finished:
            remove(self.result_file)
            flush_folder(self.path)
        self.write_config(config)

    def read_config(self) -> dict[str, Any]:
        """Return the tables of the configuration."""
        try:
            return parse_toml(self.config_text())
        except ValueError as error:
            raise CoterieError(f"'{self.config_file}' is damaged: {one_line(str(error))}") from None

    def shown_config(self) -> dict[str, dict[str, Any]]:
        """Return the tables of the configuration to look at; refuse those that can't be of a run."""
        tables = self.read_config()
        if error := error_in_config(tables):
            raise CoterieError(f"'{self.config_file}' is damaged ({error}): put it right, or put back a copy")
        shown: dict[str, dict[str, Any]] = cleaned(tables)
        return shown

    def config_text(self) -> str:
        """Return the configuration as it stands in the file."""
        try:
            return read_text(self.config_file, LARGEST_TOML)
        except UnicodeDecodeError:
            raise CoterieError(f"'{self.config_file}' is damaged: it is not text") from None
        except ValueError as error:
            raise CoterieError(f"'{self.config_file}' is damaged: {error}") from None

    def append_metrics(self, row: Mapping[str, Any], flush: Flush = "nothing") -> None:
        """Add the row of an evaluated round."""
        extend(self.metrics_file, (json.dumps(row) + "\n").encode(), flush=flush)

    def read_metrics(self) -> tuple[list[dict[str, Any]], str | None]:
        """Return the rows of evaluated rounds up to the first that can't be right, and say if there is such a row."""
        if not self.metrics_file.exists():
            return [], f"There is no {METRICS}: nothing is known of single rounds."
        rows: list[dict[str, Any]] = []
        odd: list[str] = []
        try:
            content = read_bytes(self.metrics_file, LARGEST_METRICS)
            check_header(content, MOST_METRICS)
        except ValueError as error:
            return [], f"{METRICS} can't be read ({error}): nothing is known of single rounds."
        lines = content.splitlines()
        for number, line in enumerate(lines, 1):
            try:
                row = parse_json(line)
                error_text = error_in_row(row, rows[-1]["round"] if rows else None)
            except ValueError as error:
                error_text = one_line(str(error))
            if error_text:
                left = "it is left out" if number == len(lines) else "it and all after it are left out"
                return rows, f"Line {number} of {METRICS} is cut short or damaged ({error_text}): {left}."
            odd += [f"'{one_line(key)}' in line {number}" for key in without_odd_values(row)]
            rows.append(cleaned(row))
        shown = ", ".join(odd[:3]) + (f" and {len(odd) - 3} more" if len(odd) > 3 else "")
        return rows, f"{METRICS} is damaged: {shown} is no number: it is shown as not measured." if odd else None

    def rewrite_metrics(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write all rows anew."""
        write_whole(self.metrics_file, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def check_metrics(self, rows: Sequence[Mapping[str, Any]], evaluated: Sequence[int]) -> None:
        """Refuse rows that are not those of the rounds in which accuracies were measured."""
        if [row.get("round") for row in rows] != [*evaluated]:
            raise CoterieError(
                f"'{self.metrics_file}' is damaged: it has {len(rows)} whole rows for {len(evaluated)} evaluated "
                f"rounds: remove '{self.path}' and run it again"
            )

    def write_result(self, fields: Mapping[str, Any], durable: bool = False) -> None:
        """Write the result; with it the run is finished. If `durable`, all else reaches the disk before it."""
        content, columns = client_columns.split(fields)
        file = client_columns.write(columns, self.columns_file)
        content |= {"format": PLAIN_RESULT} if file is None else {client_columns.FILE: file, "format": RESULT_FORMAT}
        text = json.dumps(content, indent=1) + "\n"
        write_whole(self.result_file, text.encode(), "system" if durable else "folder")
        client_columns.remove_all(self.columns_file, but=file)

    def read_result(self) -> dict[str, Any] | None:
        """Return the fields of the result; None if the run is not finished."""
        file = self.result_file
        if not file.exists():
            return None
        again = f"remove it, then 'coterie resume {self.path}'"
        try:
            content = parse_json(read_bytes(file, LARGEST_JSON))
        except ValueError as error:
            raise CoterieError(f"'{file}' is damaged ({one_line(str(error))}): {again}") from None
        for key, kind in NEEDED.items():
            if not isinstance(content, dict) or not isinstance(content.get(key), kind):
                raise CoterieError(f"'{file}' is not the result of a run: it has no '{key}'")
        if error_text := error_in_format(content, RESULT_FORMAT):
            raise CoterieError(f"'{file}' {error_text}")
        try:
            content = client_columns.joined(cleaned(content), self.columns_file)
            error_text = error_in_result(content)
        except ValueError as error:
            error_text = str(error)
        if error_text:
            raise CoterieError(f"'{file}' is damaged ({error_text}): {again}")
        return {key: value for key, value in content.items() if key != "format"}

    def write_arrays(self, arrays: PlotArrays) -> None:
        """Write what pictures need beside the numbers."""
        from safetensors.numpy import save

        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=UNSEALED)
        write_whole(self.arrays_file, sealed(content)[0], "file")

    def read_arrays(self) -> tuple[PlotArrays, str | None]:
        """Return what pictures need beside the numbers, and say if it can't be read."""
        lost = "labels and proximities are not shown."
        if not self.arrays_file.exists():
            return {}, f"There is no {ARRAYS} (older versions wrote none): {lost}"
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            content = read_tensors(self.arrays_file)
            seal(content, required=False)
            stored = load(content)
            arrays = {name: np.asarray(stored[name]) for name in get_args(ArrayName) if name in stored}
            if error_text := error_in_arrays(arrays):
                raise ValueError(error_text)
            return arrays, None
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            return {}, f"{ARRAYS} is damaged ({one_line(str(error))}): {lost}"

    def write_expert(self, params: Mapping[str, npt.NDArray[Any]], settings: str) -> None:
        """Keep the model that judges samples, with the settings that it was made by."""
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(array) for name, array in params.items()}
        write_whole(self.expert_file, sealed(save(arrays, metadata={"coterie": settings, **UNSEALED}))[0])

    def expert_settings(self) -> str | None:
        """Return the settings that the kept expert was made by; None if there is none, or it does not say."""
        from safetensors import SafetensorError, safe_open

        try:
            seal(read_tensors(self.expert_file))  # one that is damaged is made again
            with safe_open(self.expert_file, framework="numpy") as content:
                return (content.metadata() or {}).get("coterie")
        except (OSError, ValueError, SafetensorError):
            return None

    def read_sites(self) -> tuple[dict[int, SiteSummary], str | None]:
        """Return the clients that are real machines, and say if they can't be read."""
        if not self.deployed:
            return {}, None
        try:
            content = parse_json(read_bytes(self.sites_file, LARGEST_JSON))
            if error_text := error_in(content, SitesFile):
                raise ValueError(error_text)
        except ValueError as error:
            return {}, f"{SITES} is damaged ({one_line(str(error))}): the names of sites are not shown."
        sites = cleaned(content["sites"]).items()
        return {site["client"]: SiteSummary(name, site.get("samples", 0)) for name, site in sites}, None


def shared_beside(states: Path) -> Path:
    """Return the folder, beside clients' states, in which a simulation of several processes keeps their data."""
    return states.with_name(f".{states.name}-shared")


def ledgers_in(run: Path) -> Path:
    """Return the folder in which simulated clients with a privacy limit keep account, a folder for each."""
    return run / "ledgers"


def changed_settings(
    stored: Mapping[str, Mapping[str, Any]],
    asked: Mapping[str, Mapping[str, Any]],
    free: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """Say which keys of two configurations differ, of those that change a run's numbers and are not `free`.

    >>> changed_settings({"training": {"lr": 0.1}}, {"training": {"lr": 0.2}})
    ['training.lr was 0.1, is 0.2']
    """
    ignored = {*FREE, *free}
    before, after = (json.loads(json.dumps(tables)) for tables in (stored, asked))  # tuples and lists are alike
    return [
        f"{section}.{key} was {table.get(key)!r}, is {after[section].get(key)!r}"
        for section, table in before.items()
        for key in table | after[section]
        if (section, key) not in ignored and table.get(key) != after[section].get(key)
    ]


def unused(stem: str) -> Path:
    """Choose a folder under runs/ that is not there yet."""
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path

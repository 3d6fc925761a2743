"""The folder of a comparison or a sweep. No other module knows the names of its files.

It holds `comparison.toml` (what was asked), a run folder per cell and seed (`<cell>/seed-<k>`), those of tuning
(`tuning/<cell>/<values>/seed-<k>`), and at the end `comparison.json` and the tables.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.errors import CoterieError, one_line
from coterie.files import remove, write_whole
from coterie.results.checks import error_in_plan
from coterie.results.folder_lock import LOCK
from coterie.results.formats import COMPARISON_FORMAT, TABLE_FILES, TableFormat, error_in_format, read_toml, toml_value
from coterie.results.metrics import ACCURACY, scale
from coterie.results.protocols import COMPARED
from coterie.results.run_folder import RunFolder
from coterie.results.schema import ComparisonFields, cleaned, error_in

PLAN, DATA = "comparison.toml", "comparison.json"
Changes = Mapping[str, Any]
"""From paths like ``training.lr`` to values."""
Tables = Mapping[str, Mapping[str, Any]]
"""Sections with their keys, as in a configuration file."""
RESERVED = ("tuning", "lock")
"""What else is in the folder of a comparison."""
LONGEST = 80
"""Letters of a folder's name."""


@dataclass(frozen=True)
class Tuning:
    """Settings to choose for each cell by itself, on part of the clients' training samples."""

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    share: float = 0.2

    def tries(self, changes: Changes) -> list[dict[str, Any]]:
        """Return all combinations for a cell; keys that it sets itself stay as they are."""
        free = {path: values for path, values in self.grid.items() if path not in changes}
        return [dict(zip(free, values, strict=True)) for values in itertools.product(*free.values())] if free else []


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison or a sweep as it was asked for."""

    base: Tables
    cells: Mapping[str, Changes]
    """By label."""
    seeds: tuple[int, ...]
    kind: Literal["compare", "sweep"] = "compare"
    baseline: str | None = None
    """The label to which differences are taken, or a method's name that only one label has; the first cell if None."""
    protocol: str = "L"
    """By which settings are chosen, and which a target means that names none."""
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        if self.baseline is not None and self.baseline not in self.cells:
            meant = [label for label in self.cells if label.partition(":")[0] == self.baseline]
            if len(meant) == 1:
                object.__setattr__(self, "baseline", meant[0])

    @property
    def noun(self) -> str:
        """What a cell is."""
        return "method" if self.kind == "compare" else "setting"

    @property
    def targets(self) -> list[str]:
        """The accuracies to note the round and bytes of."""
        return list(self.base.get("evaluation", {}).get("targets", []))

    @property
    def metric(self) -> str:
        """What all its runs are measured by."""
        return str(self.base.get("evaluation", {}).get("metric", ACCURACY))

    def folder(self, label: str) -> str:
        """Return the name of a cell's folder, which no other has."""
        name = slug(label)
        alike = next(other for other in self.cells if slug(other).lower() == name.lower())
        return name if alike == label and name not in RESERVED else f"{name}-{zlib.crc32(label.encode()):08x}"

    def run_place(self, label: str, seed: int) -> str:
        """Return where in the folder a run is."""
        return f"{self.folder(label)}/seed-{seed}"

    def to_toml(self) -> str:
        """Write it; `read` reads it back, and ``coterie compare FILE`` runs it."""
        head = {
            "kind": self.kind,
            "seeds": self.seeds,
            "baseline": self.baseline,
            "protocol": self.protocol,
            "tune": self.tuning.grid or None,
            "tune_seeds": self.tuning.seeds or None,
            "tune_share": self.tuning.share,
        }
        tables = {"comparison": head}
        tables |= {f"base.{section}": dict(table) for section, table in self.base.items() if table}
        tables |= {f"cells.{toml_value(label)}": dict(changes) for label, changes in self.cells.items()}
        lines = []
        for name, table in tables.items():
            lines.append(f"[{name}]")
            lines += [f"{_key(key)} = {toml_value(value)}" for key, value in table.items() if value is not None]
            lines.append("")
        return "\n".join(lines)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read what `to_toml` wrote."""
        tables = read_toml(file)
        if error := error_in_plan(tables):
            raise CoterieError(f"'{file}' is damaged ({error}): put it right, or put back a copy")
        head = tables["comparison"]
        return cls(
            base=tables.get("base", {}),
            cells={label: dict(changes) for label, changes in tables["cells"].items()},
            seeds=tuple(head["seeds"]),
            kind=head["kind"],
            baseline=head.get("baseline"),
            protocol=head["protocol"],
            tuning=Tuning(head.get("tune", {}), tuple(head.get("tune_seeds", ())), head["tune_share"]),
        )


@dataclass(frozen=True)
class Tuned:
    """What was chosen for a cell, and how every candidate scored on validation samples."""

    chosen: Mapping[str, Any]
    scores: Sequence[tuple[Mapping[str, Any], float | None]]
    """None where a candidate failed or the protocol is not defined."""

    @classmethod
    def best(cls, scores: Sequence[tuple[Mapping[str, Any], float | None]], metric: str = ACCURACY) -> Self | None:
        """Choose the values with the best score; of equals the first; None if there is no score."""
        best = scale(metric).best_of(score for _, score in scores)
        return None if best is None else cls(next(values for values, score in scores if score == best), scores)

    def text(self, label: str, plan: ComparisonPlan) -> str:
        """Say what was chosen, from what, and by what."""
        tuning = plan.tuning
        scores = ", ".join(
            f"{' '.join(toml_value(value) for value in values.values())}: "
            + ("none" if score is None else scale(plan.metric).written(score))
            for values, score in self.scores
        )
        edge = [key for key, value in self.chosen.items() if _at_the_edge(value, tuning.grid[key])]
        return (
            f"{label}: {values_text(self.chosen)}, chosen by {COMPARED[plan.protocol]} on {tuning.share:.0%} of each "
            f"client's training samples, {seeds_text(tuning.seeds)} ({scores})"
            + (f"; at the edge of the values tried for {', '.join(edge)}" if edge else "")
        )


def _at_the_edge(value: Any, values: Sequence[Any]) -> bool:
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in values)
    return numbers and len(values) > 2 and value in (min(values), max(values))


def mean_score(accuracies: Sequence[float | None]) -> float | None:
    """Return the mean of accuracies; None unless all are finite."""
    finite = [value for value in accuracies if value is not None and math.isfinite(value)]
    return math.fsum(finite) / len(finite) if len(finite) == len(accuracies) else None


def candidate_name(values: Mapping[str, Any]) -> str:
    """Name values that are tried, like ``lr=0.1``."""
    return ", ".join(f"{key.partition('.')[2]}={toml_value(value)}" for key, value in values.items())


def values_text(values: Mapping[str, Any]) -> str:
    """Write settings with their values."""
    return ", ".join(f"{key} = {toml_value(value)}" for key, value in values.items())


def seeds_text(seeds: Sequence[int]) -> str:
    """Name seeds.

    >>> seeds_text([0, 1])
    'seeds 0, 1'
    """
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def slug(label: str) -> str:
    """Make a folder's name of a label.

    >>> slug("pacfl:groups=4, lr=0.1")
    'pacfl-groups=4-lr=0.1'
    """
    name = re.sub(r"[^\w.=+-]+", "-", label).strip("-.") or "cell"
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{zlib.crc32(label.encode()):08x}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


class ComparisonFolder:
    """What was asked for, the runs, and the numbers that they give."""

    def __init__(self, path: Path) -> None:
        self.path, self.plan_file, self.data_file = path, path / PLAN, path / DATA

    @classmethod
    def open(cls, path: Path) -> ComparisonFolder:
        """Open the folder of a comparison that was started."""
        folder = cls(path)
        if not folder.exists:
            raise CoterieError(f"'{path}' is not a comparison: it has no {PLAN}")
        return folder

    @property
    def exists(self) -> bool:
        """Whether a comparison was started here."""
        return self.plan_file.is_file()

    def check_free(self) -> None:
        """Refuse a path that holds something else than a comparison."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise CoterieError(f"'{path}' is a file: choose another --out")
        if not path.exists() or self.exists:
            return
        if RunFolder(path).exists:
            raise CoterieError(f"'{path}' holds a single run, not a comparison: choose another --out")
        if any(item.name not in (LOCK, f"{PLAN}.part") for item in path.iterdir()):
            raise CoterieError(f"'{path}' exists and is not a comparison: choose another --out")

    def remove_empty(self) -> None:
        """Remove a folder in which nothing was begun."""
        remove(self.path / LOCK)
        self.path.rmdir()

    def run(self, plan: ComparisonPlan, label: str, seed: int) -> RunFolder:
        """Return the folder of a run that is compared."""
        return RunFolder(self.path / plan.run_place(label, seed))

    def candidate(self, plan: ComparisonPlan, label: str, values: Mapping[str, Any], seed: int) -> RunFolder:
        """Return the folder of a run that scores values to choose from."""
        return RunFolder(self.path / "tuning" / plan.folder(label) / slug(candidate_name(values)) / f"seed-{seed}")

    def write(self, fields: Mapping[str, Any], tables: Mapping[TableFormat, str]) -> None:
        """Write the numbers, and the tables by format."""
        content = {**fields, "format": COMPARISON_FORMAT}
        write_whole(self.data_file, (json.dumps(content, indent=1) + "\n").encode())
        for format, text in tables.items():
            write_whole(self.path / TABLE_FILES[format], text.encode())

    def read_failures(
        self, accuracies: Mapping[tuple[str, int], Mapping[str, Any]]
    ) -> tuple[dict[tuple[str, int], str], str | None]:
        """Return why runs failed, by label and seed; say if the numbers are damaged, or not those of these runs."""
        again = f"this page is made from the runs, and `coterie resume {self.path}` writes it anew."
        if not self.data_file.is_file():
            return {}, None
        try:
            content = parse_json(read_bytes(self.data_file, LARGEST_JSON))
            if error_text := error_in(content, ComparisonFields):
                raise ValueError(error_text)
        except ValueError as error:
            return {}, f"{DATA} is damaged ({one_line(str(error))}); {again}"
        cells = {cell["label"]: cell for cell in cleaned(content["cells"])}
        failed = {(label, run["seed"]): run["why"] for label, cell in cells.items() for run in cell["failed"]}
        written = {(label, run["seed"]): run["accuracy"] for label, cell in cells.items() for run in cell["runs"]}
        if newer := error_in_format(content, COMPARISON_FORMAT):
            raise CoterieError(f"'{self.data_file}' {newer}")
        if json.dumps(sorted(written.items())) != json.dumps(sorted(accuracies.items())):
            return failed, f"{DATA} and the tables beside it are of other runs than those in the folder; {again}"
        return failed, None

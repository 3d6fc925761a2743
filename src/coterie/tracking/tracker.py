"""The protocol of trackers, and what they are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

Row: TypeAlias = Mapping[str, Any]
"""A line of ``metrics.jsonl``."""
MOST = 100
"""Numbers of a row under one key: more would be a chart for each client."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run at first."""

    name: str
    """That of the run folder; of a run of a comparison, also the method's: ``fedavg/seed-0``."""
    settings: Mapping[str, Any]
    """The whole configuration, by ``section.key``."""
    began: float
    """When, in seconds since 1970, the run would have begun had it never been interrupted."""
    folder: Path | None = None
    """The run folder, if there is one."""

    @cached_property
    def identity(self) -> str:
        """By which a tracker finds what it has of the run: its folder. Without one it is new each time it is made."""
        return uuid4().hex if self.folder is None else str(self.folder.absolute())

    def time_of(self, row: Row) -> float:
        """Return when a row was measured, in seconds since 1970."""
        return self.began + float(row["seconds"])


class Tracker:
    """Is told how a run goes on; this one ignores everything, and others override what they keep."""

    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        """A run begins, or goes on: then `rows` are those of earlier, of which a tracker was told before."""

    def row(self, row: Row) -> None:
        """A round was evaluated; the row is the one of ``metrics.jsonl``."""

    def end(self, result: Mapping[str, Any] | None) -> None:
        """The run is over: the fields of ``result.json``, or None if it was interrupted."""


class Callback(Tracker):
    """Passes rows on to a function."""

    def __init__(self, function: Callable[[Row], Any]) -> None:
        self.function = function

    def row(self, row: Row) -> None:
        """Pass it on."""
        self.function(row)


def scalars(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among some fields, by names that say where they are; None and texts are left out.

    >>> scalars({"round": 5, "L": 0.5, "G": None, "unadapted": {"L": 0.25}, "by_true_group": {"L": [0.5, 0.75]}})
    {'round': 5.0, 'L': 0.5, 'unadapted/L': 0.25, 'by_true_group/L/0': 0.5, 'by_true_group/L/1': 0.75}
    """
    found = {key: dict(_numbers(key, value)) for key, value in fields.items()}
    return {name: number for numbers in found.values() if len(numbers) <= MOST for name, number in numbers.items()}


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        inside: Sequence[tuple[Any, Any]] = [*value.items()]
    elif isinstance(value, list | tuple):
        inside = [*enumerate(value)]
    else:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)
        return
    for key, item in inside:
        yield from _numbers(f"{name}/{key}", item)


def settings_of(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of a configuration that are set, by ``section.key``.

    >>> settings_of({"training": {"lr": 0.1, "fraction": None}, "run": {"seed": 0}})
    {'training.lr': 0.1, 'run.seed': 0}
    """
    return {f"{s}.{key}": value for s, table in tables.items() for key, value in table.items() if value is not None}


def run_name(folder: Path) -> str:
    """Return what a run in a folder is called; a seed alone would not say whose.

    >>> run_name(Path("runs/pacfl-digits-seed0")), run_name(Path("runs/compared/pacfl/seed-0"))
    ('pacfl-digits-seed0', 'pacfl/seed-0')
    """
    path = folder.absolute()
    return f"{path.parent.name}/{path.name}" if path.name.startswith("seed-") else path.name

"""What a user asks for: which seeds, how long, which data sets and methods."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.data.catalogue import CATALOGUE, advice, is_here
from coterie.errors import CoterieError, suggestion
from coterie.registry import same_name
from coterie.reproduce.books import BookColumn, Tables
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.graphs import STORED, how_to_store, stored
from coterie.results.comparison_folder import slug
from coterie.results.reproductions import run_path
from coterie.results.run_folder import RunFolder

TRAINED = ("accuracy", "newcomers", "target", "statistics", "sweep", "curves", "pruning")
"""Kinds that are read from runs."""
LENGTHS = {
    **dict.fromkeys((*TRAINED, "layers"), "published rounds"),
    "graph-labels": "graph network's epochs",
    "graph-distances": "numbers of nodes",
}
"""What --rounds-scale shortens, by kind."""
SEEDLESS = ("proximity", "super-clusters", "costs", "sizes", "flops", "pacing")
"""Kinds without anything random."""
ONE_SEED = ("client-distances", "clustering-error", "agreement", "update-measures", "coreset")
"""Kinds that are made for one seed."""


@dataclass(frozen=True)
class ReproductionRequest:
    """How a table is narrowed; nothing given means as published."""

    rounds_scale: float = 1.0
    seeds: tuple[int, ...] | None = None
    datasets: tuple[str, ...] | None = None
    algorithms: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rounds_scale <= 1:
            raise CoterieError(f"rounds scale {self.rounds_scale:g} is not valid: use a number above 0, up to 1")
        if self.seeds is not None and (not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds)):
            raise CoterieError(
                f"seeds {','.join(map(str, self.seeds))} are not valid: use different whole numbers from 0, like 0,1,2"
            )
        for what, names in (("data set", self.datasets), ("method", self.algorithms)):
            if names is not None and not any(names):
                raise CoterieError(f"no {what} is named: name some of the table's, or leave the option out for all")

    def checked(self, item: Reproducible) -> ReproductionRequest:
        """Return the request with names as a table has them; refuse data sets and methods that it does not have."""
        columns = {name for column in item.columns() for name in names_of(item, column)}
        methods = {name for cell in item.cells() for name in methods_of(cell)}
        named: list[tuple[str, ...] | None] = []
        for what, names, offered in (("data set", self.datasets, columns), ("method", self.algorithms, methods)):
            named.append(None if names is None else tuple(same_name(name, offered) for name in names))
            for name in named[-1] or ():
                if name not in offered:
                    hint = suggestion(name, offered) if offered else "it has none to choose from"
                    hint = (_mixed(item, name) if what == "data set" else None) or hint
                    raise CoterieError(f"{item.name} has no {what} '{name}': {hint}")
        request = replace(self, datasets=named[0], algorithms=named[1])
        if named != [None, None] and not request.asked(item):
            raise CoterieError(f"nothing of {item.name} is left by --datasets and --algorithms: name others")
        return request

    def asked(self, item: Reproducible) -> list[Cell]:
        """Return the cells that are asked for, whether or not their data are here."""
        columns = {column.label for column in item.columns() if self.wants(item, column)}
        methods = None if self.algorithms is None else set(self.algorithms)
        return [
            cell
            for cell in item.cells()
            if cell.column in columns and (methods is None or methods & set(methods_of(cell)))
        ]

    def wants(self, item: Reproducible, column: BookColumn) -> bool:
        """Whether a column is asked for."""
        return self.datasets is None or bool(set(self.datasets) & set(names_of(item, column)))

    def cells(self, item: Reproducible, place: Path | None = None) -> list[Cell]:
        """Return the cells that are asked for and whose data are here, or whose runs are finished in a folder."""
        absent = {column.label for column in item.columns() if missing(item, column)}
        asked = self.asked(item)
        return [cell for cell in asked if cell.column not in absent or self.is_finished(item, cell, place)]

    def runs(self, item: Reproducible, cell: Cell, place: Path) -> list[Path]:
        """Return the folders of the runs of a cell, by seed."""
        tables = self.scaled(cell.settings)
        return [run_path(place, tables, seed) for seed in self.seeds_of(item)]

    def is_finished(self, item: Reproducible, cell: Cell, place: Path | None) -> bool:
        """Whether all runs of a cell are finished: then its data are not needed any more."""
        if place is None or item.entry.kind not in TRAINED:
            return False
        return all(RunFolder(run).finished for run in self.runs(item, cell, place))

    def folder_name(self, item: Reproducible) -> str:
        """Return where the result goes: what is less than the whole table has a folder of its own.

        >>> from coterie.reproduce.catalogue import catalogue
        >>> table = catalogue()["pacfl-table2"]
        >>> ReproductionRequest().folder_name(table), ReproductionRequest(0.5, (0,), ("svhn",)).folder_name(table)
        ('pacfl-table2', 'pacfl-table2-part-svhn-rounds-0.5-seeds-0')
        """
        parts = [*(self.datasets or ()), *(self.algorithms or ())]
        if self.rounds_scale < 1 and item.entry.kind in LENGTHS:
            parts.append(f"rounds-{self.rounds_scale:g}")
        if (seeds := self.seeds_of(item)) != ReproductionRequest().seeds_of(item):
            parts.append(f"seeds-{'-'.join(map(str, seeds))}")
        return slug("-".join([item.name, "part", *parts])) if parts else item.name

    def seeds_of(self, item: Reproducible) -> tuple[int, ...]:
        """Return the seeds that are used: those that are asked for, or the table's; some kinds use one, or none."""
        seeds = item.entry.seeds if self.seeds is None else self.seeds
        return () if item.entry.kind in SEEDLESS else seeds[:1] if item.entry.kind in ONE_SEED else seeds

    def shortened(self, item: Reproducible) -> list[str]:
        """Say how what is asked for is less than what was published."""
        notes, used = [], self.seeds_of(item)
        unit = LENGTHS.get(item.entry.kind)
        if self.rounds_scale < 1 and unit:
            notes.append(f"{self.rounds_scale:g} of the {unit} (--rounds-scale)")
        if len(used) < len(ReproductionRequest().seeds_of(item)):
            plural = "s" if len(used) > 1 else ""
            notes.append(f"{len(used)} seed{plural} instead of {len(item.entry.seeds)} (--seeds)")
        return notes

    def without_effect(self, item: Reproducible) -> list[str]:
        """Say which options were given that change nothing here."""
        kind, notes = item.entry.kind, []
        if self.rounds_scale < 1 and kind not in LENGTHS:
            notes.append("--rounds-scale has no effect here: there are no rounds to shorten.")
        if self.seeds is not None and kind in SEEDLESS:
            notes.append("--seeds has no effect here: nothing is random.")
        if self.seeds is not None and kind in ONE_SEED and len(self.seeds) > 1:
            notes.append(f"Of --seeds only the first, {self.seeds[0]}, is used here.")
        return notes

    def narrowed(self) -> list[str]:
        """Say which part was asked for."""
        parts = [f"data {', '.join(self.datasets)} (--datasets)"] if self.datasets else []
        return parts + ([f"methods {', '.join(self.algorithms)} (--algorithms)"] if self.algorithms else [])

    def scaled(self, settings: Tables) -> Tables:
        """Return settings with fewer rounds; clients that train alone train for a part of their epochs, too."""
        tables = copy.deepcopy(settings)
        training, algorithm = tables.setdefault("training", {}), tables.get("algorithm", {})
        if self.rounds_scale < 1:
            training["rounds"] = max(1, round(self.rounds_scale * training.get("rounds", 50)))
            if algorithm.get("name") == "solo" and algorithm.get("epochs"):
                algorithm["epochs"] = max(1, round(self.rounds_scale * algorithm["epochs"]))
        return tables


def names_of(item: Reproducible, column: BookColumn) -> list[str]:
    """Return the names by which a user may ask for a column."""
    needs = item.needs(column) if column.data else []
    made_of_one = needs if len(needs) == 1 else []
    named = item.book.data[column.data].settings.get("data", {}).get("name") if column.data else None
    names = [column.data, named, *made_of_one]
    return list(dict.fromkeys(str(name) for name in (*names, column.options.get("dataset")) if name))


def _mixed(item: Reproducible, name: str) -> str | None:
    """Say of a data set that is only part of a table's what that is called."""
    for column in item.columns():
        if column.data and name in (needs := item.needs(column)):
            return f"its '{column.data}' is made of {', '.join(needs)}: write {column.data}, or leave the option out"
    return None


def methods_of(cell: Cell) -> list[str]:
    """Return the names by which a user may ask for a row: its key, the book's name, and the method's."""
    method = str(cell.settings.get("algorithm", {}).get("name", "")) if cell.method else ""
    return list(dict.fromkeys(name for name in (cell.row, cell.method or "", method) if name))


def skipped(item: Reproducible, request: ReproductionRequest, place: Path) -> list[str]:
    """Say what is left out because its data are not here, and how to get them."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    made = {(cell.column, cell.row) for cell in request.cells(item, place)}
    whole = {cell.column for cell in request.asked(item)}
    whole -= {cell.column for cell in request.asked(item) if (cell.column, cell.row) not in made}
    for column in item.columns():
        if request.wants(item, column) and column.label not in whole and (names := missing(item, column)):
            lacking.setdefault(tuple(names), []).append(column.label)
    return [f"{', '.join(labels)}: {how_to_get(names)}" for names, labels in lacking.items()]


def data_of(item: Reproducible, request: ReproductionRequest) -> list[str]:
    """Return the names of the data sets that are asked for."""
    columns = [column for column in item.columns() if request.wants(item, column)]
    needed = [name for column in columns for name in item.needs(column)]
    return list(dict.fromkeys([*needed, *(str(c.options["dataset"]) for c in columns if "dataset" in c.options)]))


def missing(item: Reproducible, column: BookColumn) -> list[str]:
    """Return the data sets that a column needs and that are not here."""
    named = column.options.get("dataset")
    return not_here([named] if named else item.needs(column))


def not_here(names: Iterable[str]) -> list[str]:
    """Return those of some data sets that are not here.

    >>> not_here(["digits", "synthetic"])
    []
    """
    return [
        name for name in names if (name in CATALOGUE and not is_here(name)) or (name in STORED and stored(name) is None)
    ]


def how_to_get(names: Sequence[str]) -> str:
    """Say how to get data sets."""
    return "; ".join(f"'{name}' is not here: {(how_to_store if name in STORED else advice)(name)}" for name in names)

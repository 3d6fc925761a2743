"""Comparisons and sweeps: many runs in one folder, and the tables that they give.

The folder holds `comparison.toml` (what was asked), a run folder per cell and seed (`<cell>/seed-<k>`), those of
tuning (`tuning/<cell>/<try>/seed-<k>`), and at the end `comparison.json` and the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coterie.compare.design import Design, seeds_text
from coterie.compare.existing_runs import ExistingRuns
from coterie.compare.jobs import RunJob
from coterie.compare.tuning import Tuned, chosen_so_far, compared_jobs
from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.results.comparison_table import ComparisonTable, group_count, make_table, reached
from coterie.results.formats import COMPARISON_FORMAT, TABLE_FILES, TableFormat
from coterie.run.result import Result

FILE, DATA = "comparison.toml", "comparison.json"
APART = {
    "data": "data",
    "partition": "partitions",
    "newcomers": "newcomers",
    "model": "initial models",
    "training.fraction": "cohorts",
}
"""What cells of a seed share unless these keys differ."""


@dataclass(frozen=True)
class Comparison:
    """What was asked, and what came of it."""

    design: Design
    results: Mapping[str, Mapping[int, Result]]
    """By label and seed."""
    failed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Why there is no result, by label and seed."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    folder: Path | None = None

    def table(self) -> ComparisonTable:
        """Count it: means, spreads, paired differences to the baseline, and who is the best where that is clear."""
        results = {
            label: {seed: runs[seed].to_json() for seed in self.design.seeds if seed in runs}
            for label, runs in self.results.items()
        }
        notes = [f"{label}, seed {seed}, failed: {why}" for (label, seed), why in self.failed.items()]
        notes += [f"{tuned.text(label, self.design)}." for label, tuned in self.tuned.items()]
        notes += [f"{label}: {', '.join(own)} as set, not chosen." for label, own in _set(self.design).items()]
        apart = differing(self.design)
        if apart:
            notes.append(f"Not the same for all: {', '.join(apart)}. Seeds are paired all the same.")
        return make_table(
            results,
            self.design.seeds,
            title=_title(self),
            what=self.design.noun,
            baseline=self.design.baseline,
            notes=notes,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields of comparison.json."""
        design = self.design
        return {
            "format": COMPARISON_FORMAT,
            "kind": design.kind,
            "title": _title(self),
            "seeds": list(design.seeds),
            "protocol": design.protocol,
            "targets": design.targets,
            "cells": [
                {
                    "label": label,
                    "folder": design.folder(label),
                    "changes": dict(changes),
                    "tuned": None
                    if label not in self.tuned
                    else {
                        "chosen": dict(self.tuned[label].chosen),
                        "scores": [[dict(tried), score] for tried, score in self.tuned[label].scores],
                    },
                    "runs": [_run(seed, result, design, label) for seed, result in self.results[label].items()],
                    "failed": [{"seed": k, "why": why} for (cell, k), why in self.failed.items() if cell == label],
                }
                for label, changes in design.cells.items()
            ],
            "table": self.table().to_json(),
        }

    def save(self) -> None:
        """Write comparison.json and the tables into the folder."""
        if self.folder is None:
            return
        write_whole(self.folder / DATA, (json.dumps(self.to_json(), indent=1) + "\n").encode())
        for format, name in TABLE_FILES.items():
            write_whole(self.folder / name, self.report(format).encode())

    def report(self, format: TableFormat = "text") -> str:
        """Return the tables as text, Markdown, CSV or LaTeX."""
        return self.table().report(format)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read a comparison, finished or not, with the results that are there."""
        path = Path(folder)
        if not (path / FILE).is_file():
            raise CoterieError(f"'{path}' is not a comparison: it has no {FILE}")
        design = Design.read(path / FILE)
        runs = ExistingRuns()
        tuned = chosen_so_far(design, path, runs)
        results = runs.results(compared_jobs(design, path, tuned))
        return cls(design, results_by_label(design, results), {}, tuned, path)


def _set(design: Design) -> dict[str, list[str]]:
    """Return the keys that are chosen for other cells, but that a cell sets itself."""
    own = {label: [key for key in design.tuning.grid if key in changes] for label, changes in design.cells.items()}
    return {label: keys for label, keys in own.items() if keys}


def results_by_label(design: Design, results: Mapping[RunJob, Result]) -> dict[str, dict[int, Result]]:
    """Return finished runs by label and seed, with the targets of the design."""
    by_label: dict[str, dict[int, Result]] = {label: {} for label in design.cells}
    for job, result in results.items():
        targets = [reached(target, result.history) for target in design.targets]
        by_label[job.label][job.seed] = replace(result, targets=targets)
    return by_label


def _run(seed: int, result: Result, design: Design, label: str) -> dict[str, Any]:
    """Return what comparison.json says of a run."""
    traffic = result.traffic
    return {
        "seed": seed,
        "folder": f"{design.folder(label)}/seed-{seed}",
        "accuracy": result.accuracy,
        "groups": group_count(result.to_json()),
        "ari": result.ari,
        "up_bytes": traffic["up_bytes"],
        "down_bytes": traffic["down_bytes"],
        "targets": result.targets,
        "seconds": result.seconds,
    }


def _title(comparison: Comparison) -> str:
    """Say what all runs have in common."""
    results = [result for runs in comparison.results.values() for result in runs.values()]
    parts: list[tuple[str | None, ...]] = [
        tuple(r.data for r in results),
        tuple(f"{len(r.per_client['L'])} clients" for r in results),
        tuple(r.partition for r in results),
        tuple(r.model for r in results),
        tuple(f"{r.rounds} rounds" for r in results),
    ]
    if comparison.design.kind == "sweep":
        parts.insert(0, tuple(r.algorithm for r in results))
    shared = [texts[0] for texts in parts if len(set(texts)) == 1 and texts[0]]
    return ", ".join([*map(str, shared), seeds_text(comparison.design.seeds)])


def differing(design: Design) -> list[str]:
    """Say which of data, partitions, newcomers, initial models and cohorts differ between cells of a seed."""
    configs = [design.config(label, design.seeds[0]) for label in design.cells]
    found = []
    for path, what in APART.items():
        section, _, key = path.partition(".")
        values = [getattr(config, section).model_dump() for config in configs]
        values = [value[key] if key else value for value in values]
        if any(value != values[0] for value in values):
            found.append(what)
    return found

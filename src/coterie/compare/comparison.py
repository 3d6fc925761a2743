"""Comparisons and sweeps: which runs they consist of, what is chosen on the way, and the tables that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.arguments import checked, in_keywords
from coterie.compare.design import Design
from coterie.compare.jobs import RunJob
from coterie.errors import counted
from coterie.results.comparison_folder import (
    ComparisonFolder,
    ComparisonPlan,
    Tables,
    Tuned,
    candidate_name,
    seeds_text,
)
from coterie.results.comparison_table import ComparisonTable, reached, shortened_list
from coterie.results.comparisons import comparison_table, comparison_title, read_comparison
from coterie.results.formats import TABLE_FORMATS, TableFormat, TableOptions
from coterie.results.metrics import ACCURACY
from coterie.results.protocols import COMPARED
from coterie.results.statistics import group_count
from coterie.run.result import Result
from coterie.run.values import split_list

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Comparison:
    """What was asked, and what came of it.

    Examples:
        >>> import coterie
        >>> coterie.compare(algorithms="fedavg,solo", seeds=[0, 1], dataset="digits", clients=5, rounds=1, jobs=1)
        Comparison(2 methods, seeds 0, 1: L of fedavg ... %, solo ... %)
    """

    design: Design
    results: Mapping[str, Mapping[int, Result]]
    """By label and seed."""
    failed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Why there is no result, by label and seed."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    folder: Path | None = None
    configs: Mapping[str, Tables] | None = None
    """A configuration of each cell, where the comparison was read; nothing is imported to look at it."""

    def table(self) -> ComparisonTable:
        """Count it: means, spreads, paired differences to the baseline, and who is the best where that is clear."""
        configs = self.design.tables() if self.configs is None else self.configs
        return comparison_table(self.design, self._fields(), self.failed, self.tuned, configs)

    def _fields(self) -> dict[str, dict[int, dict[str, Any]]]:
        return {label: {seed: run.to_json() for seed, run in runs.items()} for label, runs in self.results.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the fields of comparison.json."""
        design = self.design
        return {
            "kind": design.kind,
            "title": comparison_title(design, self._fields()),
            "seeds": list(design.seeds),
            "protocol": design.protocol,
            "targets": design.targets,
            "cells": [
                {
                    "label": label,
                    "folder": design.folder(label),
                    "changes": dict(changes),
                    "tuned": asdict(self.tuned[label]) if label in self.tuned else None,
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
        tables = {format: self.report(format) for format in TABLE_FORMATS}
        ComparisonFolder(self.folder).write(self.to_json(), tables)

    @in_keywords
    def report(
        self,
        format: TableFormat = "text",
        *,
        columns: str | Sequence[str] = (),
        caption: str | None = None,
        label: str | None = None,
        p_values: bool = False,
    ) -> str:
        """Return the tables as text, Markdown, CSV or LaTeX.

        `columns`, such as ``"L,C,groups"``, or a list, are those of the one table to write; by default there are
        several, with all columns. `caption`, `label` and `p_values`, columns of p values beside accuracies, are for
        LaTeX.
        """
        names = split_list(columns) if isinstance(columns, str) else columns
        return self.table().report(format, TableOptions(tuple(names), caption, label, p_values))

    def __repr__(self) -> str:
        design, table = self.design, self.table()
        accuracy, shown = {row.label: row.accuracy[design.protocol] for row in table.rows}, table.scale
        means = [
            f"{label} {shown.text(shown.factor * spread.mean, 1)}"
            for label, spread in accuracy.items()
            if spread is not None
        ]
        failed = f"; {counted(len(self.failed), 'run')} failed" if self.failed else ""
        metric = "" if table.metric == ACCURACY else f"{table.metric} "
        what = f"{metric}{COMPARED[design.protocol]} of {shortened_list(means)}" if means else "nothing measured"
        return f"Comparison({len(design.cells)} {design.noun}s, {seeds_text(design.seeds)}: {what}{failed})"

    def _repr_html_(self) -> str:
        from coterie.report.comparison import comparison_html

        return comparison_html(self.table())

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy over rounds with matplotlib: means over seeds, with a standard deviation to each side.

        Args:
            ax: The axes to draw on; by default those of a new figure, which a notebook shows.

        Returns:
            The axes; ``comparison.plot().figure.savefig("comparison.pdf")`` writes the picture.
        """
        from coterie.report.notebook import comparison_chart, draw

        histories = {label: [run.history for run in runs.values()] for label, runs in self.results.items()}
        table = self.table()
        return draw(comparison_chart(histories, self.design.protocol, table.title, table.metric), ax)

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each run: accuracies, groups, bytes and seconds."""
        from coterie.report.notebook import frame

        rows = [
            {
                self.design.noun: label,
                "seed": seed,
                **result.accuracy,
                "groups": group_count(result.groups),
                "ari": result.ari,
                "up_bytes": result.traffic["up_bytes"],
                "down_bytes": result.traffic["down_bytes"],
                "seconds": result.seconds,
            }
            for label, runs in self.results.items()
            for seed, result in runs.items()
        ]
        return frame(rows, [self.design.noun, "seed"])

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> Comparison:
        """Read a comparison, finished or not, with the results that are there."""
        stored = read_comparison(Path(folder))
        results = {
            label: {seed: _with_targets(Result.load(run.path), stored.plan) for seed, run in runs.items()}
            for label, runs in stored.runs.items()
        }
        return cls(Design(**vars(stored.plan)), results, stored.failed, stored.tuned, stored.path, stored.configs)


def results_by_label(design: Design, results: Mapping[RunJob, Result]) -> dict[str, dict[int, Result]]:
    """Return finished runs by label and seed, with the targets of the design."""
    by_label: dict[str, dict[int, Result]] = {label: {} for label in design.cells}
    for job, result in results.items():
        by_label[job.label][job.seed] = _with_targets(result, design)
    return by_label


def _with_targets(result: Result, plan: ComparisonPlan) -> Result:
    """Return a result with the targets of a comparison, which may have been asked for later."""
    return replace(result, targets=[reached(target, result.history, result.metric) for target in plan.targets])


def _run(seed: int, result: Result, design: Design, label: str) -> dict[str, Any]:
    """Return what comparison.json says of a run."""
    return {
        "seed": seed,
        "folder": design.run_place(label, seed),
        "accuracy": result.accuracy,
        "groups": group_count(result.groups),
        "ari": result.ari,
        "up_bytes": result.traffic["up_bytes"],
        "down_bytes": result.traffic["down_bytes"],
        "targets": result.targets,
        "seconds": result.seconds,
    }


def candidate_jobs(design: Design, folder: ComparisonFolder) -> list[RunJob]:
    """Return the runs on validation samples that score what is tried for each cell, at their end only."""
    jobs = []
    for label, changes in design.cells.items():
        for values in design.tuning.tries(changes):
            name = f"{label} with {candidate_name(values)}"
            more = values | {"evaluation.every": 0, "evaluation.targets": []}
            more["evaluation.validation"] = design.tuning.share
            folders = {seed: folder.candidate(design, label, values, seed).path for seed in design.tuning.seeds}
            jobs += [RunJob(name, design.config(label, seed, out, more)) for seed, out in folders.items()]
    return jobs


def compared_jobs(design: Design, folder: ComparisonFolder, tuned: Mapping[str, Tuned]) -> list[RunJob]:
    """Return the runs that are compared, of cells whose settings are set or chosen."""
    jobs = []
    for label, changes in design.cells.items():
        if label in tuned or not design.tuning.tries(changes):
            more = tuned[label].chosen if label in tuned else {}
            folders = {seed: folder.run(design, label, seed).path for seed in design.seeds}
            jobs += [RunJob(label, design.config(label, seed, out, more)) for seed, out in folders.items()]
    return jobs

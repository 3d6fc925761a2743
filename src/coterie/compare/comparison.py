"""Comparisons and sweeps: many runs in one folder, and the tables that they give.

The folder holds `comparison.toml` (what was asked), a run folder per cell and seed (`<cell>/seed-<k>`), those of
tuning (`tuning/<cell>/<try>/seed-<k>`), and at the end `comparison.json` and the tables.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from coterie.compare.design import Design, slug
from coterie.compare.existing_runs import finished_runs
from coterie.compare.jobs import BatchProgress, RunJob, ended, run_jobs
from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.results.comparison_table import ComparisonTable, group_count, make_table, reached
from coterie.results.formats import COMPARISON_FORMAT, TABLE_FILES, TableFormat
from coterie.results.protocols import COMPARED
from coterie.results.run_folder import PATIENCE, locked
from coterie.run.config import Config
from coterie.run.plugins import home
from coterie.run.result import Result
from coterie.run.toml import toml_value

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
class Tuned:
    """What was chosen for a cell, and how every try scored on validation samples."""

    chosen: Mapping[str, Any]
    scores: Sequence[tuple[Mapping[str, Any], float | None]]
    """None where a try failed or the protocol is not defined."""

    def text(self, label: str, design: Design) -> str:
        """Say what was chosen, from what, and by what."""
        tuning = design.tuning
        what = ", ".join(f"{key} = {toml_value(value)}" for key, value in self.chosen.items())
        scores = ", ".join(
            f"{' '.join(toml_value(value) for value in tried.values())}: "
            + ("none" if score is None else f"{100 * score:.2f}")
            for tried, score in self.scores
        )
        edge = [key for key, value in self.chosen.items() if _at_the_edge(value, tuning.grid[key])]
        seeds = f"seed{'s' if len(tuning.seeds) > 1 else ''} {', '.join(map(str, tuning.seeds))}"
        return (
            f"{label}: {what}, chosen by {COMPARED[design.protocol]} on {tuning.share:.0%} of each client's training "
            f"samples, {seeds} ({scores})"
            + (f"; at the edge of the values tried for {', '.join(edge)}" if edge else "")
        )


def _at_the_edge(value: Any, values: Sequence[Any]) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    return numbers and len(values) > 2 and value in (min(values), max(values))


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
            what=_what(self.design),
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
        tuned = _all_chosen(design, path)
        return cls(design, _results(design, _trials(design, path, tuned)), {}, tuned, path)


def run_design(
    design: Design, out: str | Path | None = None, *, jobs: int | None = None, progress: BatchProgress | None = None
) -> Comparison:
    """Make all runs of a design that are not finished, and return what came of them.

    A folder that holds a comparison is gone on with; what is asked anew is added to it. Runs that fail are in `failed`.
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="coterie-") as place:
            return replace(run_design(design, Path(place) / "comparison", jobs=jobs, progress=progress), folder=None)
    if jobs is not None and jobs < 1:
        raise CoterieError(f"jobs = {jobs} is not valid: at least one run is made at a time")
    path = Path(out)
    _check_place(path)
    asked = Design.read(path / FILE).extended(design, path) if (path / FILE).exists() else design
    if path.exists():
        finished_runs(_trials(asked, path, _all_chosen(asked, path)))  # what is there fits, before anything is written
    new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoterieError(f"the folder '{path}' can't be made: {error.strerror}") from None
    try:
        with locked(path, PATIENCE) as lock, ended(progress or BatchProgress()) as watching:
            write_whole(path / FILE, asked.to_toml().encode())
            comparison = _Runner(asked, path, jobs, watching, lock).run()
            comparison.save()
            return comparison
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with 'coterie resume {path}'") from None
    except CoterieError:
        if new and not (path / FILE).exists():
            (path / "lock").unlink(missing_ok=True)
            path.rmdir()
        raise


class _Runner:
    """Makes the runs of a design: those of tuning first, then the others."""

    def __init__(self, design: Design, path: Path, jobs: int | None, progress: BatchProgress, lock: IO[str]) -> None:
        self.design, self.path, self.progress, self.lock = design, path, progress, lock
        self.imports, here = _homes([design.config(label, design.seeds[0]) for label in design.cells])
        if here and jobs not in (None, 1):
            raise CoterieError(f"{here} is defined in this session only: put it into a file and name it as plugin")
        if here:
            progress.note(f"{here} is defined in this session: runs are made one after the other")
        self.jobs = 1 if here else jobs
        self.tried = {label: _tries(design, label, path) for label in design.cells}

    def run(self) -> Comparison:
        design, path = self.design, self.path
        first = [trial for tries in self.tried.values() for _, trials in tries for trial in trials]
        last = [trial for label in design.cells if not self.tried[label] for trial in _final(design, label, path, {})]
        results = finished_runs(last)
        known = sum(trial.folder.finished for trial in first) + len(results)
        later = len(design.seeds) * sum(map(bool, self.tried.values()))
        self.progress.begin(f"{len(design.cells)} {_cells(design)}", len(first) + len(last) + later, known)
        self._make(first)
        tuned: dict[str, Tuned] = {}
        failed: dict[tuple[str, int], str] = {}
        for label, tries in self.tried.items():
            if not tries:
                continue
            found = _chosen(design, tries)
            if found is None:
                why = f"no value of {', '.join(tries[0][0])} gave a {COMPARED[design.protocol]} on validation samples"
                failed |= {(label, seed): why for seed in design.seeds}
                continue
            self.progress.note(found.text(label, design))
            tuned[label] = found
        last = _trials(design, path, tuned)
        finished_runs(last)  # those of tuned cells too fit what is asked
        failed |= {(trial.label, trial.seed): why for trial, why in self._make(last).items()}
        done = [trial for trial in last if (trial.label, trial.seed) not in failed]
        order = [(label, seed) for label in design.cells for seed in design.seeds]
        failed = {key: failed[key] for key in order if key in failed}
        return Comparison(design, _results(design, done), failed, tuned, path)

    def _make(self, trials: Sequence[RunJob]) -> dict[RunJob, str]:
        """Make runs, each with its share of the cores."""
        waiting = [trial for trial in trials if not trial.folder.finished]
        cores = os.cpu_count() or 1
        jobs = max(1, min(self.jobs or cores, len(waiting)))
        for trial in waiting:
            engine = trial.config.engine
            engine.workers = engine.workers or max(1, cores // jobs)
        return run_jobs(waiting, jobs, self.progress, self.lock, self.imports)


def _what(design: Design) -> str:
    return "method" if design.kind == "compare" else "setting"


def _set(design: Design) -> dict[str, list[str]]:
    """Return the keys that are chosen for other cells, but that a cell sets itself."""
    own = {label: [key for key in design.tuning.grid if key in changes] for label, changes in design.cells.items()}
    return {label: keys for label, keys in own.items() if keys}


def _cells(design: Design) -> str:
    return f"{_what(design)}s, seed{'s' if len(design.seeds) > 1 else ''} {', '.join(map(str, design.seeds))}"


def _all_chosen(design: Design, path: Path) -> dict[str, Tuned]:
    """Return what was chosen for the cells whose tries are all finished."""
    found = {}
    for label in design.cells:
        tries = _tries(design, label, path)
        done = [finished_runs(trials) for _, trials in tries]
        whole = bool(tries) and all(len(results) == len(design.tuning.seeds) for results in done)
        chosen = _chosen(design, tries) if whole else None
        if chosen is not None:
            found[label] = chosen
    return found


def _trials(design: Design, path: Path, tuned: Mapping[str, Tuned]) -> list[RunJob]:
    """Return all runs that are compared, of cells whose settings are chosen."""
    return [trial for label in design.cells for trial in _final(design, label, path, tuned)]


def _final(design: Design, label: str, path: Path, tuned: Mapping[str, Tuned]) -> list[RunJob]:
    """Return the runs that are compared."""
    if design.tuning.tries(design.cells[label]) and label not in tuned:
        return []
    more = tuned[label].chosen if label in tuned else {}
    place = path / design.folder(label)
    return [RunJob(label, design.config(label, seed, place / f"seed-{seed}", more)) for seed in design.seeds]


def _tries(design: Design, label: str, path: Path) -> list[tuple[dict[str, Any], list[RunJob]]]:
    """Return the values to choose from for a cell, each with its runs on validation samples, scored at the end only."""
    found = []
    for tried in design.tuning.tries(design.cells[label]):
        name = ", ".join(f"{key.partition('.')[2]}={toml_value(value)}" for key, value in tried.items())
        place = path / "tuning" / design.folder(label) / slug(name)
        more = {**tried, "evaluation.validation": design.tuning.share, "evaluation.every": 0, "evaluation.targets": []}
        trials = [
            RunJob(f"{label} with {name}", design.config(label, seed, place / f"seed-{seed}", more))
            for seed in design.tuning.seeds
        ]
        found.append((tried, trials))
    return found


def _chosen(design: Design, tries: Sequence[tuple[Mapping[str, Any], Sequence[RunJob]]]) -> Tuned | None:
    """Choose the values with the highest mean accuracy; of equals the first; None if no try has a score."""
    scores: list[tuple[Mapping[str, Any], float | None]] = []
    for tried, trials in tries:
        results = finished_runs(trials)
        values = [results[trial].accuracy[design.protocol] for trial in trials if trial in results]
        known = [value for value in values if value is not None and math.isfinite(value)]
        scores.append((tried, math.fsum(known) / len(known) if len(known) == len(trials) else None))
    best = max((score for _, score in scores if score is not None), default=None)
    if best is None:
        return None
    return Tuned(next(tried for tried, score in scores if score == best), scores)


def _results(design: Design, trials: Iterable[RunJob]) -> dict[str, dict[int, Result]]:
    """Return the finished runs by label and seed, with the targets of the design."""
    found: dict[str, dict[int, Result]] = {label: {} for label in design.cells}
    for trial, result in finished_runs(trials).items():
        targets = [reached(target, result.history) for target in design.targets]
        found[trial.label][trial.seed] = replace(result, targets=targets)
    return found


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
    said = [texts[0] for texts in parts if len(set(texts)) == 1 and texts[0]]
    seeds = comparison.design.seeds
    return ", ".join([*map(str, said), f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"])


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


def _check_place(path: Path) -> None:
    """Refuse a path that holds something else than a comparison."""
    if path.exists() and not path.is_dir():
        raise CoterieError(f"'{path}' is a file: choose another --out")
    if not path.exists() or (path / FILE).is_file():
        return
    if (path / "config.toml").exists():
        raise CoterieError(f"'{path}' holds a single run, not a comparison: choose another --out")
    if any(item.name not in ("lock", f"{FILE}.part") for item in path.iterdir()):
        raise CoterieError(f"'{path}' exists and is not a comparison: choose another --out")


def _homes(configs: Iterable[Config]) -> tuple[list[str], str | None]:
    """Return the modules that register what is used, beside ours and plugins; and what no worker could import."""
    from coterie.algorithms import ALGORITHMS
    from coterie.data import DATASETS, PARTITIONS
    from coterie.models import MODELS

    registries: dict[str, Any] = {
        "algorithm": ALGORITHMS, "model": MODELS, "data": DATASETS, "partition": PARTITIONS,
    }  # fmt: skip
    modules: set[str] = set()
    for config in configs:
        for section, registry in registries.items():
            name = getattr(config, section).name
            if name is None or name not in registry:
                continue
            module, can_be_imported = home(registry[name])
            if not can_be_imported:
                return [], f"{registry.kind} '{name}'"
            if module is not None:
                modules.add(module)
    return sorted(modules), None

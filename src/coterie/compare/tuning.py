"""Choosing settings for each cell of a comparison by itself, on part of the clients' training samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.compare.design import Design, seeds_text, slug
from coterie.compare.existing_runs import ExistingRuns
from coterie.compare.jobs import RunJob
from coterie.results.protocols import COMPARED
from coterie.results.toml import toml_value


@dataclass(frozen=True)
class Candidate:
    """Values tried for a cell, and the runs on validation samples that score them."""

    values: Mapping[str, Any]
    jobs: Sequence[RunJob]


@dataclass(frozen=True)
class Tuned:
    """What was chosen for a cell, and how every candidate scored on validation samples."""

    chosen: Mapping[str, Any]
    scores: Sequence[tuple[Mapping[str, Any], float | None]]
    """None where a candidate failed or the protocol is not defined."""

    def text(self, label: str, design: Design) -> str:
        """Say what was chosen, from what, and by what."""
        tuning = design.tuning
        what = ", ".join(f"{key} = {toml_value(value)}" for key, value in self.chosen.items())
        scores = ", ".join(
            f"{' '.join(toml_value(value) for value in values.values())}: "
            + ("none" if score is None else f"{100 * score:.2f}")
            for values, score in self.scores
        )
        edge = [key for key, value in self.chosen.items() if _at_the_edge(value, tuning.grid[key])]
        return (
            f"{label}: {what}, chosen by {COMPARED[design.protocol]} on {tuning.share:.0%} of each client's training "
            f"samples, {seeds_text(tuning.seeds)} ({scores})"
            + (f"; at the edge of the values tried for {', '.join(edge)}" if edge else "")
        )


def _at_the_edge(value: Any, values: Sequence[Any]) -> bool:
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in values)
    return numbers and len(values) > 2 and value in (min(values), max(values))


def candidates(design: Design, path: Path) -> dict[str, list[Candidate]]:
    """Return what is tried for each cell that has something to choose; runs are scored at their end only."""
    by_label: dict[str, list[Candidate]] = {}
    for label, changes in design.cells.items():
        for values in design.tuning.tries(changes):
            name = ", ".join(f"{key.partition('.')[2]}={toml_value(value)}" for key, value in values.items())
            place = path / "tuning" / design.folder(label) / slug(name)
            more = values | {
                "evaluation.validation": design.tuning.share,
                "evaluation.every": 0,
                "evaluation.targets": [],
            }
            jobs = [
                RunJob(f"{label} with {name}", design.config(label, seed, place / f"seed-{seed}", more))
                for seed in design.tuning.seeds
            ]
            by_label.setdefault(label, []).append(Candidate(values, jobs))
    return by_label


def choose(design: Design, tried: Sequence[Candidate], runs: ExistingRuns) -> Tuned | None:
    """Choose the values with the highest mean accuracy; of equals the first; None if no candidate has a score."""
    scores: list[tuple[Mapping[str, Any], float | None]] = []
    for candidate in tried:
        accuracies = [result.accuracy[design.protocol] for result in runs.results(candidate.jobs).values()]
        finite = [value for value in accuracies if value is not None and math.isfinite(value)]
        scores.append(
            (candidate.values, math.fsum(finite) / len(finite) if len(finite) == len(candidate.jobs) else None)
        )
    best = max((score for _, score in scores if score is not None), default=None)
    return None if best is None else Tuned(next(values for values, score in scores if score == best), scores)


def chosen_so_far(design: Design, path: Path, runs: ExistingRuns) -> dict[str, Tuned]:
    """Return what was chosen for the cells whose candidates are all finished."""
    tuned = {}
    for label, tried in candidates(design, path).items():
        jobs = [job for candidate in tried for job in candidate.jobs]
        if len(runs.results(jobs)) == len(jobs) and (best := choose(design, tried, runs)) is not None:
            tuned[label] = best
    return tuned


def compared_jobs(design: Design, path: Path, tuned: Mapping[str, Tuned]) -> list[RunJob]:
    """Return the runs that are compared, of cells whose settings are set or chosen."""
    jobs = []
    for label, changes in design.cells.items():
        if label in tuned or not design.tuning.tries(changes):
            more = tuned[label].chosen if label in tuned else {}
            place = path / design.folder(label)
            jobs += [RunJob(label, design.config(label, seed, place / f"seed-{seed}", more)) for seed in design.seeds]
    return jobs

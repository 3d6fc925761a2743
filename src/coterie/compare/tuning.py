"""Choosing settings for each cell of a comparison by itself, on part of the clients' training samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.compare.design import Design
from coterie.compare.existing_runs import ExistingRuns
from coterie.compare.jobs import RunJob
from coterie.results.comparison_folder import ComparisonFolder
from coterie.results.comparison_plan import Tuned, candidate_name, choose, mean_score


@dataclass(frozen=True)
class Candidate:
    """Values tried for a cell, and the runs on validation samples that score them."""

    values: Mapping[str, Any]
    jobs: Sequence[RunJob]


def candidates(design: Design, folder: ComparisonFolder) -> dict[str, list[Candidate]]:
    """Return what is tried for each cell that has something to choose; runs are scored at their end only."""
    by_label: dict[str, list[Candidate]] = {}
    for label, changes in design.cells.items():
        for values in design.tuning.tries(changes):
            folders = {seed: folder.candidate(design, label, values, seed).path for seed in design.tuning.seeds}
            more = values | {
                "evaluation.validation": design.tuning.share,
                "evaluation.every": 0,
                "evaluation.targets": [],
            }
            jobs = [
                RunJob(f"{label} with {candidate_name(values)}", design.config(label, seed, out, more))
                for seed, out in folders.items()
            ]
            by_label.setdefault(label, []).append(Candidate(values, jobs))
    return by_label


def choose_candidate(design: Design, tried: Sequence[Candidate], runs: ExistingRuns) -> Tuned | None:
    """Choose the values with the highest mean accuracy; None if no candidate has a score."""
    scores = []
    for candidate in tried:
        accuracies = [result.accuracy[design.protocol] for result in runs.results(candidate.jobs).values()]
        scores.append((candidate.values, mean_score(accuracies, len(candidate.jobs))))
    return choose(scores)


def chosen_so_far(design: Design, folder: ComparisonFolder, runs: ExistingRuns) -> dict[str, Tuned]:
    """Return what was chosen for the cells whose candidates are all finished."""
    tuned = {}
    for label, tried in candidates(design, folder).items():
        jobs = [job for candidate in tried for job in candidate.jobs]
        if len(runs.results(jobs)) == len(jobs) and (best := choose_candidate(design, tried, runs)) is not None:
            tuned[label] = best
    return tuned


def compared_jobs(design: Design, folder: ComparisonFolder, tuned: Mapping[str, Tuned]) -> list[RunJob]:
    """Return the runs that are compared, of cells whose settings are set or chosen."""
    jobs = []
    for label, changes in design.cells.items():
        if label in tuned or not design.tuning.tries(changes):
            more = tuned[label].chosen if label in tuned else {}
            folders = {seed: folder.run(design, label, seed).path for seed in design.seeds}
            jobs += [RunJob(label, design.config(label, seed, out, more)) for seed, out in folders.items()]
    return jobs

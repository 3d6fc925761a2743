"""Runs that are over are told to a tracker as if they went on now."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from coterie.errors import CoterieError
from coterie.results.comparison_folder import ComparisonFolder, ComparisonPlan
from coterie.results.run_folder import RunFolder
from coterie.tracking.several import make_tracker
from coterie.tracking.tracker import TrackedRun, run_name, settings_of


def track_folders(paths: Sequence[Path], to: str, folder: Path | None = None) -> list[str]:
    """Tell a tracker of finished runs, or of all runs of comparisons; return their names.

    It writes into `folder`, or else into that of each run, or of each comparison.
    """
    make_tracker(to)  # refused before anything is written
    return [_track(run, to, folder or common) for path in paths for run, common in _runs(path)]


def _runs(path: Path) -> Iterator[tuple[RunFolder, Path | None]]:
    """Yield the runs of a folder, and where runs are tracked together."""
    comparison = ComparisonFolder(path)
    if not comparison.exists:
        yield RunFolder.open(path), None
        return
    plan = ComparisonPlan.read(comparison.plan_file)
    runs = [comparison.run(plan, label, seed) for label in plan.cells for seed in plan.seeds]
    if waiting := [run for run in runs if not run.finished]:
        done = f"{len(runs) - len(waiting)} of {len(runs)} runs are"
        raise CoterieError(f"'{path}' is not finished, {done}: go on with 'coterie resume {path}'")
    yield from ((run, path) for run in runs)


def _track(folder: RunFolder, to: str, place: Path | None) -> str:
    result, (rows, damage) = folder.read_result(), folder.read_metrics()
    if result is None:
        raise CoterieError(f"'{folder.path}' is not finished: go on with 'coterie resume {folder.path}'")
    if damage:
        raise CoterieError(f"'{folder.path}' can't be tracked: {damage}")
    began = os.path.getmtime(folder.result_file) - float(result["seconds"])
    run = TrackedRun(run_name(folder.path), settings_of(folder.shown_config()), began, folder.path)
    tracker = make_tracker(to, place)
    tracker.begin(run, rows)
    tracker.end(result)
    return run.name

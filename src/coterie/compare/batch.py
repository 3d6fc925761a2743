"""Making all runs of a design that are not there yet."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from coterie.compare.comparison import Comparison, candidate_jobs, compared_jobs, results_by_label
from coterie.compare.design import Design
from coterie.compare.existing_runs import ExistingRuns
from coterie.compare.jobs import BatchProgress, RunJob, run_jobs
from coterie.errors import CoterieError
from coterie.files import make_folder, write_whole
from coterie.results.comparison_folder import ComparisonFolder, seeds_text
from coterie.results.comparisons import choose_settings
from coterie.results.folder_lock import PATIENCE, locked
from coterie.results.protocols import COMPARED
from coterie.run.plugins import Permission, as_flags, modules_to_import, registered_things


def run_design(
    design: Design,
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    progress: BatchProgress | None = None,
    trust: bool = False,
) -> Comparison:
    """Make all runs of a design that are not finished, and return what came of them.

    A folder that holds a comparison is gone on with; what is asked anew is added to it. Runs that fail are in `failed`.
    Of the plugins that the folder names those of the design are imported, or with `trust` all.
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="coterie-") as place:
            made = run_design(design, Path(place) / "comparison", jobs=jobs, progress=progress)
            results = {
                label: {seed: replace(run, folder=None) for seed, run in runs.items()}
                for label, runs in made.results.items()
            }
            return replace(made, folder=None, results=results)
    if jobs is not None and jobs < 1:
        raise CoterieError(f"jobs = {jobs} is not valid: at least one run is made at a time")
    path = Path(out)
    folder = ComparisonFolder(path)
    folder.check_free()
    runs = ExistingRuns()
    permission = Permission(tuple(design.base.get("run", {}).get("plugins", [])), trust)
    extended = _extended(folder, design, permission)
    if path.exists():  # what does not fit is refused before anything is written
        runs.results(candidate_jobs(extended, folder))
        runs.results(compared_jobs(extended, folder, choose_settings(folder, extended, runs.read_result)))
    new = not path.exists()
    make_folder(path)
    try:
        with locked(path, PATIENCE) as lock, progress or BatchProgress() as listening:
            folder.check_free()  # again: another process may have had the folder in between
            extended = _extended(folder, design, permission)
            write_whole(folder.plan_file, extended.to_toml().encode())
            comparison = _make_runs(extended, folder, jobs, runs, listening, lock)
            comparison.save()
            return comparison
    except KeyboardInterrupt:
        flags = as_flags(extended.base.get("run", {}).get("plugins", []))
        raise KeyboardInterrupt(f"go on with 'coterie resume {path}{flags}'") from None
    except CoterieError:
        if new and not folder.exists:
            folder.remove_empty()
        raise


def _extended(folder: ComparisonFolder, design: Design, permission: Permission) -> Design:
    """Return what the folder holds, and what is asked anew; of the plugins that it names only what is permitted."""
    if not folder.exists:
        return design
    return Design.read(folder.plan_file).permitted(permission, folder.plan_file).extended(design, folder.path)


def _make_runs(
    design: Design,
    folder: ComparisonFolder,
    jobs: int | None,
    existing: ExistingRuns,
    progress: BatchProgress,
    lock: IO[str],
) -> Comparison:
    """Make the runs of a design that are not finished: those of tuning first, then the others."""
    configs = [
        design.config(label, design.seeds[0], more=values)
        for label, changes in design.cells.items()
        for values in design.tuning.tries(changes) or [{}]
    ]
    imports, missing = modules_to_import(thing for config in configs for thing in registered_things(config))
    if missing and jobs not in (None, 1):
        raise CoterieError(f"{missing} is defined in this session only: put it into a file and name it as plugin")
    if missing:
        progress.note(f"{missing} is defined in this session: runs are made one after the other")

    def make(jobs_wanted: Sequence[RunJob]) -> dict[RunJob, str]:
        """Make the runs that are not finished, and return why some failed."""
        finished = existing.results(jobs_wanted)
        waiting = [job for job in jobs_wanted if job not in finished]
        return run_jobs(waiting, 1 if missing else jobs, progress, lock, imports)

    first, last = candidate_jobs(design, folder), compared_jobs(design, folder, {})
    to_choose = {label: tries[0] for label, changes in design.cells.items() if (tries := design.tuning.tries(changes))}
    total = len(first) + len(last) + len(design.seeds) * len(to_choose)
    title = f"{len(design.cells)} {design.noun}s, {seeds_text(design.seeds)}"
    progress.begin(title, total, len(existing.results([*first, *last])))
    make(first)
    existing.results(first)
    tuned = choose_settings(folder, design, existing.read_result, all_finished=False)
    failed: dict[tuple[str, int], str] = {}
    for label, values in to_choose.items():
        if label in tuned:
            progress.note(tuned[label].text(label, design))
        else:
            why = f"no value of {', '.join(values)} gave a {COMPARED[design.protocol]} on validation samples"
            failed |= {(label, seed): why for seed in design.seeds}
    last = compared_jobs(design, folder, tuned)
    failed |= {(job.label, job.seed): why for job, why in make(last).items()}
    results = existing.results(job for job in last if (job.label, job.seed) not in failed)
    order = [(label, seed) for label in design.cells for seed in design.seeds]
    failed = {key: failed[key] for key in order if key in failed}
    return Comparison(design, results_by_label(design, results), failed, tuned, folder.path)

"""Runs that were finished before: read only if they are whole, and the ones that are asked for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coterie.compare.jobs import RunJob
from coterie.errors import CoterieError
from coterie.federation.loop import evaluated_rounds
from coterie.results.run_folder import RunFolder
from coterie.run.plugins import NotPermitted, Permission, contents
from coterie.run.result import Result
from coterie.run.validation import differences, read_run_config

FREE = (("data", "clients"), ("evaluation", "targets"))
"""What the data decide, and what changes no numbers."""


class ExistingRuns:
    """Results of finished runs; each folder is read once."""

    def __init__(self) -> None:
        self._results: dict[Path, Result] = {}

    def results(self, jobs: Iterable[RunJob]) -> dict[RunJob, Result]:
        """Return the results of jobs that are finished; refuse folders that hold other runs, or damaged ones."""
        finished = {}
        for job in jobs:
            path = job.folder.path
            if path not in self._results and (result := _read(job)) is not None:
                self._results[path] = result
            if path in self._results:
                finished[job] = self._results[path]
        return finished

    def read_result(self, folder: RunFolder) -> dict[str, Any] | None:
        """Return the fields of a result that `results` has read; None if there is none."""
        result = self._results.get(folder.path)
        return None if result is None else result.to_json()


def _edited(result: Result, plugins: Iterable[str]) -> str | None:
    """Name a plugin whose file is not what it was; earlier versions did not note what it was."""
    now = contents(plugins)
    return next((name for name, digest in now.items() if result.versions.get(name, digest) != digest), None)


def _read(job: RunJob) -> Result | None:
    """Return the result of a job if it is finished; refuse a folder that does not belong to it."""
    folder, path = job.folder, job.folder.path
    if not path.exists():
        return None
    if not path.is_dir():
        raise CoterieError(f"'{path}' is a file, where a run folder should be: remove it")
    if not folder.exists:
        if other_files := folder.other_files:
            raise CoterieError(
                f"'{path}' is not a run, but holds {', '.join(other_files[:3])}: remove it to run it again"
            )
        return None
    try:
        permission = Permission(tuple(job.config.run.plugins))
        asked, stored = job.config, read_run_config(folder, permission, files=not folder.finished)
        if asked.model.name is None:  # the data decided
            asked = asked.model_copy(update={"model": stored.model})
        if changed := differences(stored, asked, FREE):
            more = f"; and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise CoterieError(f"'{path}' holds a run with another configuration ({'; '.join(changed[:3])}{more})")
        result = Result.load(path) if folder.finished else None
        if result is not None and (edited := _edited(result, job.config.run.plugins)):
            raise CoterieError(f"{edited} has changed since the run in '{path}' was made")
    except NotPermitted:
        raise
    except CoterieError as error:
        raise CoterieError(f"{error}: remove '{path}' to run it again, or choose another --out") from None
    if result is not None:
        evaluated = evaluated_rounds(result.rounds, job.config.evaluation.every, result.rounds)
        folder.check_metrics(result.history, evaluated)
    return result

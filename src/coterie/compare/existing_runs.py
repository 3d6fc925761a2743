"""Runs that were finished before: read only where they are whole, and those that are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.compare.jobs import RunJob
from coterie.errors import CoterieError
from coterie.run.config import Config
from coterie.run.result import Result
from coterie.run.validation import differences


def finished_runs(trials: Iterable[RunJob]) -> dict[RunJob, Result]:
    """Read the runs that are finished; refuse folders that hold other runs, or damaged ones."""
    found = {}
    for trial in trials:
        folder = trial.folder
        if not folder.config_file.exists():
            if folder.path.exists() and not folder.path.is_dir():
                raise CoterieError(f"'{folder.path}' is a file, where a run folder should be: remove it")
            left = {"lock", "config.toml.part"}  # of a run that was killed before it began
            odd = [item.name for item in folder.path.iterdir() if item.name not in left] if folder.path.exists() else []
            if odd:
                raise CoterieError(
                    f"'{folder.path}' is not a run, but holds {', '.join(sorted(odd)[:3])}: remove it to run it again"
                )
            continue
        try:
            stored = folder.read_config()
        except CoterieError as error:
            raise CoterieError(f"{error}: remove '{folder.path}' to run it again") from None
        changed = _changed(trial.config, stored)
        if changed:
            more = f"; and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise CoterieError(
                f"'{folder.path}' holds a run with another configuration ({'; '.join(changed[:3])}{more}): remove it "
                "to run it again, or choose another --out"
            )
        if not folder.finished:
            continue
        try:
            result = Result.load(folder.path)
        except CoterieError as error:
            raise CoterieError(f"{error}: remove '{folder.path}' to run it again") from None
        folder.check_metrics(result.history, result.rounds, trial.config.evaluation.every, result.rounds)
        found[trial] = result
    return found


def _changed(asked: Config, stored: Config) -> list[str]:
    """Say what differs, but for what the data decided and the targets, which change no numbers."""
    asked = asked.model_copy(deep=True)
    asked.data.clients, asked.evaluation.targets = stored.data.clients, stored.evaluation.targets
    if asked.model.name is None:
        asked.model = stored.model
    return differences(stored, asked)

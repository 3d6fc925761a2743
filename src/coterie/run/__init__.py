"""Runs: configuration, building a federation, running, recording, the result.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.run.cluster import ClusterResult
    from coterie.run.progress import Progress
    from coterie.run.result import Result

__all__ = ["cluster", "resume", "run"]


def run(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    trust: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Result:
    """Run an experiment and return its result.

    `config` is a TOML file or nested tables. The keywords are the flags of ``coterie run`` with underscores
    (``algorithm``, ``dataset``, ``partition``, ``rounds``, ``batch_size``, ...), and ``algorithm_options``,
    ``dataset_options``, ``partition_options``, ``model_options`` for what these choices offer. A run folder is
    written if ``out`` names one. With `trust`, plugins that a run folder given as ``expert`` names are imported too.

    >>> result = run(algorithm="solo", dataset="digits", clients=5, rounds=2, epochs=1)
    >>> result.accuracy["C"] is None
    True
    """
    from coterie.run.runner import start
    from coterie.run.settings import settings_to_config

    checked = settings_to_config(config, settings, trust=trust)
    return start(checked, write=checked.run.out is not None, overwrite=overwrite, progress=progress)


def cluster(
    config: str | Path | Mapping[str, Any] | None = None, *, progress: Progress | None = None, **settings: Any
) -> ClusterResult:
    """Form groups of clients without training; settings as for `run`, the method `pacfl` if none is named.

    >>> groups = cluster(dataset="digits-rotated", clients=8)
    >>> groups.grouping.labels
    array([0, 1, 2, 3, 0, 1, 2, 3])
    """
    from coterie.run.cluster import DEFAULT, form_groups
    from coterie.run.settings import settings_to_config

    return form_groups(settings_to_config(config, settings, method=DEFAULT), progress)


def resume(
    folder: str | Path,
    progress: Progress | None = None,
    *,
    rounds: int | None = None,
    admit: str | Path | Sequence[str | Path] = (),
    plugins: Sequence[str] = (),
    trust: bool = False,
) -> Result:
    """Go on with a run that was interrupted; of a finished one, return the result.

    With `rounds`, finished or not, it goes on to this round, to the numbers of a run that had so many from the start;
    it is refused where what was done depends on how many there are. With `admit`, the clients whose data are in these
    files or folders join when training is over. Of the plugins that its folder names those in `plugins` are imported,
    or with `trust` all.
    """
    from coterie.run import runner
    from coterie.run.plugins import Permission

    paths = [admit] if isinstance(admit, str | Path) else admit
    return runner.resume(Path(folder), progress, Permission(tuple(plugins), trust), rounds, [*map(str, paths)])

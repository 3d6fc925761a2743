"""Comparisons and sweeps: many runs in one folder, and the tables that they give.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from coterie.arguments import in_keywords
from coterie.errors import CoterieError, whole_number
from coterie.run.keywords import MethodSettings, SharedSettings
from coterie.run.signatures import shows

if TYPE_CHECKING:
    import os

    from coterie.compare.comparison import Comparison
    from coterie.compare.jobs import BatchProgress
    from coterie.results.protocols import ComparedProtocol
    from coterie.run.result import Result

__all__ = ["compare", "load", "sweep"]


@in_keywords
@shows(SharedSettings)
def compare(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    algorithms: str | Sequence[str],
    seeds: Iterable[int] = (0, 1, 2),
    methods: Mapping[str, Mapping[str, Any]] | None = None,
    baseline: str | None = None,
    protocol: ComparedProtocol = "L",
    tune: Mapping[str, Sequence[Any]] | None = None,
    tune_seeds: Iterable[int] = (),
    tune_share: float = 0.2,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    trust: bool = False,
    progress: BatchProgress | bool | None = None,
    **settings: Unpack[SharedSettings],
) -> Comparison:
    """Run methods side by side on the same data, and compare them.

    Args:
        config: A TOML file or nested dictionaries; keywords override them.
        algorithms: The methods, each with its own settings behind its name, ``"fedavg,pacfl:groups=4,lr=0.01"``.
        seeds: Each method is run with each seed.
        methods: Settings of some methods, by name.
        baseline: The method that others are compared with; by default the first.
        protocol: The accuracy by which settings are chosen, and which plots show.
        tune: Hyperparameter values to choose from, like ``{"lr": [0.1, 0.01]}``: the best for each method, on held-out
            training samples of the clients.
        tune_seeds: The seeds to tune on; by default the first.
        tune_share: The share of the training samples to hold out for that.
        out: The folder; a comparison in it is continued. By default nothing is kept on disk.
        jobs: How many runs at a time; by default one per core.
        trust: Whether to import the plugins named by a folder: `out`, if it is continued, or that of an expert.
        progress: As for `run`; an object is of a subclass of `coterie.BatchProgress`.
        **settings: The settings of `run`, for all methods.

    Examples:
        >>> comparison = compare(algorithms="fedavg,solo", seeds=[0, 1], dataset="digits", clients=5, rounds=1, jobs=1)
        >>> comparison.table()["solo"].accuracy["L"].n
        2
    """
    from coterie.compare.batch import run_design
    from coterie.compare.live_progress import batch_listener
    from coterie.compare.make_design import comparison_design
    from coterie.run.expert import trust_expert
    from coterie.run.given import named, plain
    from coterie.run.overlay import take_settings_of_method
    from coterie.run.settings import as_tables, settings_to_tables

    with named(settings) as given:
        tables = as_tables(config)
        of_method = take_settings_of_method(tables)
        base, _ = settings_to_tables(tables, given)
        if trust:
            trust_expert(base)
        design = comparison_design(
            base, algorithms, plain(seeds), methods=plain(methods), of_method=of_method, baseline=baseline,
            protocol=protocol, tune=plain(tune), tune_seeds=plain(tune_seeds), tune_share=tune_share,
        )  # fmt: skip
        return run_design(design, out, jobs=whole_number(jobs, "jobs"), progress=batch_listener(progress), trust=trust)


@in_keywords
@shows(MethodSettings)
def sweep(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    vary: Mapping[str, Sequence[Any]],
    seeds: Iterable[int] = (0, 1, 2),
    baseline: str | None = None,
    protocol: ComparedProtocol = "L",
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    trust: bool = False,
    progress: BatchProgress | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Comparison:
    """Run all combinations of some settings' values, and compare them.

    Args:
        config: A TOML file or nested dictionaries; keywords override them.
        vary: Values by setting, like ``{"lr": [0.1, 0.01]}``.
        seeds: Each combination is run with each seed.
        baseline: The combination that others are compared with, by its label; by default the first.
        protocol: The accuracy that plots show.
        out: As for `compare`.
        jobs: As for `compare`.
        trust: As for `compare`.
        progress: As for `compare`.
        **settings: The settings of `run`, for all combinations.

    Examples:
        >>> comparison = sweep(vary={"lr": [0.01, 0.1]}, seeds=[0], dataset="digits", clients=5, rounds=1, jobs=1)
        >>> list(comparison.results)
        ['lr=0.01', 'lr=0.1']
    """
    from coterie.compare.batch import run_design
    from coterie.compare.live_progress import batch_listener
    from coterie.compare.make_design import sweep_design
    from coterie.run.expert import trust_expert
    from coterie.run.given import named, plain
    from coterie.run.settings import settings_to_tables

    with named(settings) as given:
        base, _ = settings_to_tables(config, given)
        if trust:
            trust_expert(base)
        design = sweep_design(base, plain(vary), plain(seeds), baseline=baseline, protocol=protocol)
        return run_design(design, out, jobs=whole_number(jobs, "jobs"), progress=batch_listener(progress), trust=trust)


@in_keywords
def load(folder: str | os.PathLike[str]) -> Result | Comparison:
    """Read what a folder holds: the result of a run, or a comparison or sweep.

    Args:
        folder: The folder of a run that is finished, or of a comparison, finished or not.

    Examples:
        >>> import coterie, tempfile
        >>> place = tempfile.TemporaryDirectory()
        >>> result = coterie.run(dataset="digits", clients=5, rounds=2, epochs=1, out=f"{place.name}/run")
        >>> load(f"{place.name}/run") == result
        True
        >>> place.cleanup()
    """
    from coterie.compare.comparison import Comparison
    from coterie.results.comparison_folder import DATA, PLAN
    from coterie.results.run_folder import CONFIG, RunFolder
    from coterie.run.result import Result

    path = Path(folder)
    if RunFolder(path).exists:
        return Result.load(path)
    if (path / PLAN).is_file() or (path / DATA).is_file():
        return Comparison.load(path)
    what = "holds no run or comparison" if path.exists() else "does not exist"
    raise CoterieError(f"'{path}' {what}: name a folder with a {CONFIG} or {PLAN}, as out= made it")

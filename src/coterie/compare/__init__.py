"""Comparisons and sweeps: many runs in one folder, and the tables that they give.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.compare.comparison import Comparison
    from coterie.compare.jobs import BatchProgress
    from coterie.results.protocols import ComparedProtocol

__all__ = ["compare", "sweep"]


def compare(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    algorithms: str | Sequence[str],
    seeds: Iterable[int] = (0, 1, 2),
    methods: Mapping[str, Mapping[str, Any]] | None = None,
    baseline: str | None = None,
    protocol: ComparedProtocol = "L",
    tune: Mapping[str, Sequence[Any]] | None = None,
    tune_seeds: Iterable[int] = (),
    tune_share: float = 0.2,
    out: str | Path | None = None,
    jobs: int | None = None,
    trust: bool = False,
    progress: BatchProgress | None = None,
    **settings: Any,
) -> Comparison:
    """Run methods side by side on the same data, and compare them.

    Settings are those of `run`, for all methods. A method's own stand behind its name, ``pacfl:groups=4,lr=0.01``, or
    in `methods`, by name. Values in `tune`, like ``{"lr": [0.1, 0.01]}``, are chosen for each method on part of the
    clients' training samples. Without `out` nothing is kept on disk. With `trust`, plugins that a folder names (a
    comparison in `out` that is gone on with, or an expert) are imported too.

    >>> comparison = compare(algorithms="fedavg,solo", seeds=[0, 1], dataset="digits", clients=5, rounds=1, jobs=1)
    >>> comparison.table()["solo"].accuracy["L"].n
    2
    """
    from coterie.compare.batch import run_design
    from coterie.compare.make_design import comparison_design
    from coterie.run.expert import trust_expert
    from coterie.run.settings import settings_to_tables

    base, _ = settings_to_tables(config, settings)
    if trust:
        trust_expert(base)
    design = comparison_design(
        base, algorithms, seeds,
        methods=methods, baseline=baseline, protocol=protocol, tune=tune, tune_seeds=tune_seeds, tune_share=tune_share,
    )  # fmt: skip
    return run_design(design, out, jobs=jobs, progress=progress, trust=trust)


def sweep(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    vary: Mapping[str, Sequence[Any]],
    seeds: Iterable[int] = (0, 1, 2),
    baseline: str | None = None,
    protocol: ComparedProtocol = "L",
    out: str | Path | None = None,
    jobs: int | None = None,
    trust: bool = False,
    progress: BatchProgress | None = None,
    **settings: Any,
) -> Comparison:
    """Run all combinations of some settings' values, and compare them; other settings are those of `run`.

    >>> comparison = sweep(vary={"lr": [0.01, 0.1]}, seeds=[0], dataset="digits", clients=5, rounds=1, jobs=1)
    >>> list(comparison.results)
    ['lr=0.01', 'lr=0.1']
    """
    from coterie.compare.batch import run_design
    from coterie.compare.make_design import sweep_design
    from coterie.run.expert import trust_expert
    from coterie.run.settings import settings_to_tables

    base, _ = settings_to_tables(config, settings)
    if trust:
        trust_expert(base)
    design = sweep_design(base, vary, seeds, baseline=baseline, protocol=protocol)
    return run_design(design, out, jobs=jobs, progress=progress, trust=trust)

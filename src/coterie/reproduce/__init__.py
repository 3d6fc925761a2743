"""The papers' tables and figures: settings and published numbers as data, and what reproduces them.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coterie.arguments import in_keywords
from coterie.errors import listed, whole_number

if TYPE_CHECKING:
    from coterie.compare.jobs import BatchProgress
    from coterie.results.reproductions import Reproduction

__all__ = ["reproduce"]


@in_keywords
def reproduce(
    name: str,
    *,
    rounds_scale: float = 1.0,
    seeds: str | Iterable[int] | None = None,
    datasets: str | Sequence[str] | None = None,
    algorithms: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: BatchProgress | bool | None = None,
    book: str | os.PathLike[str] | None = None,
) -> Reproduction:
    """Reproduce a table or figure of a paper: run or compute it, with the published numbers beside ours.

    Runs are kept in `out`/runs and shared by all tables that are made there; finished ones are not run again. The
    result is written into `out`/NAME.

    Args:
        name: The table or figure, such as ``"pacfl-table2"``; ``coterie reproduce`` lists them.
        rounds_scale: Share of the published rounds to run.
        seeds: By default as many as published.
        datasets: Only these data sets of the table.
        algorithms: Only these methods of the table.
        out: The folder of all reproductions; by default ``runs/reproduce``.
        jobs: How many runs at a time; by default one per core.
        progress: As for `compare`.
        book: A catalogue of your own, a TOML file.

    Returns:
        The published numbers with ours beside them; ``report()`` is the table.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     made = reproduce("sub-fedavg-costs", out=place)
        >>> made.lines[0].published, round(made.lines[0].ours.mean, 2)
        ('2.48', 2.48)
    """
    from coterie.compare.live_progress import batch_listener
    from coterie.compare.make_design import read_seeds
    from coterie.reproduce.reproducing import reproduce as make
    from coterie.reproduce.request import ReproductionRequest
    from coterie.run.given import plain
    from coterie.run.values import split_names

    def names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
        return None if given is None else tuple(split_names(given)) if isinstance(given, str) else listed(given)

    numbers = None if seeds is None else read_seeds(plain(seeds))
    request = ReproductionRequest(rounds_scale, numbers, names(datasets), names(algorithms))
    return make(name, request, out, whole_number(jobs, "jobs"), batch_listener(progress), book)

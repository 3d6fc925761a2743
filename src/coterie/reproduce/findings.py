"""What a table comes to, and where it is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.compare.jobs import BatchProgress
from coterie.reproduce.catalogue import Cell
from coterie.reproduce.request import ReproductionRequest
from coterie.results.charts import Chart
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReproductionSession:
    """What is asked for, the folder that holds the runs of all tables, and who is told of progress."""

    request: ReproductionRequest
    place: Path
    progress: BatchProgress
    jobs: int | None = None


@dataclass(frozen=True)
class Findings:
    """What a kind of table comes to."""

    lines: Sequence[NumberPair]
    charts: Sequence[Chart] = ()
    remarks: Sequence[str] = ()
    failed: Sequence[str] = ()
    runs: Sequence[str] = ()


def beside_published(
    cell: Cell, ours: float | Spread | None, digits: int = 2, quantity: str | None = None
) -> NumberPair:
    """Put a number of ours beside the published one."""
    published = cell.published
    return NumberPair(
        column=cell.column,
        row=cell.label,
        quantity=cell.quantity if quantity is None else quantity,
        published="" if published is None else published.text,
        paper=None if published is None else published.value,
        paper_spread=None if published is None else published.spread,
        ours=Spread(1, float(ours), None) if isinstance(ours, float | int) else ours,
        grade=cell.grade,
        notes=cell.notes,
        digits=digits,
    )

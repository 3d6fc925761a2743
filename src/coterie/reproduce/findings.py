"""What a table comes to, and where it is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.compare.jobs import BatchProgress
from coterie.reproduce.catalogue import Cell
from coterie.reproduce.request import ReproductionRequest
from coterie.results.charts import Chart, HeatMap, Point, Scatter, classical_mds, values
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


def heat_map(
    title: str,
    names: Sequence[str],
    matrix: Floats,
    unit: str,
    groups: npt.NDArray[np.int64] | None = None,
    limits: tuple[float, float] | None = None,
) -> HeatMap:
    """Draw a matrix, with the members of a group side by side."""
    order = np.arange(len(matrix)) if groups is None else np.argsort(groups, kind="stable")
    labels = tuple(str(names[i]) for i in order)
    return HeatMap(
        title=title,
        rows=labels,
        columns=labels,
        values=tuple(values(row) for row in matrix[np.ix_(order, order)]),
        unit=unit,
        groups=() if groups is None else tuple(int(groups[i]) for i in order),
        limits=limits,
    )


def map_of(title: str, names: Sequence[str], distances: Floats, groups: npt.NDArray[np.int64]) -> Scatter:
    """Draw things as points that keep their distances where they can, coloured by group."""
    places = classical_mds(distances)
    points = [
        Point(name=str(name), x=float(x), y=float(y), group=int(group))
        for name, (x, y), group in zip(names, places, groups, strict=True)
    ]
    named = tuple(f"group {group}" for group in range(int(groups.max()) + 1))
    return Scatter(title=f"{title}, map of the angles", points=tuple(points), groups=named, map=True)

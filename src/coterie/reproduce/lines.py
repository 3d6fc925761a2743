"""A number of ours beside a published one."""

from __future__ import annotations

from coterie.reproduce.catalogue import Cell
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread


def line(cell: Cell, ours: float | Spread | None, digits: int = 2, quantity: str | None = None) -> NumberPair:
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

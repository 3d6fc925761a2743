"""Which of very many clients a page shows: a sample of them, beside summaries of all."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from coterie.results.charts import Table, values
from coterie.results.client_columns import FEW, QUANTILES, spread_of
from coterie.results.protocols import EACH_CLIENT
from coterie.results.runs import StoredRun
from coterie.streams import stream

POINTS, PLACES = 1000, 200
"""How many clients are drawn, where there are too many, as points and as places on an axis."""
ROWS = 200
"""Rows of a table of groups or clients."""
T = TypeVar("T")


def shown(items: Sequence[T], most: int = POINTS) -> list[T]:
    """Return all of a few items; of more than 2,000 some, drawn at random but always the same, in their order.

    >>> shown([3, 1, 2], most=2), len(shown(range(5000), most=7))
    ([3, 1, 2], 7)
    """
    if len(items) <= FEW:
        return [*items]
    drawn = stream(len(items), "shown clients").choice(len(items), most, replace=False)
    return [items[place] for place in np.sort(drawn)]


def drawn_of(number: int, most: int = POINTS) -> str:
    """Say that a picture shows some of so many clients only; empty where it shows all.

    >>> drawn_of(100_000), drawn_of(2000)
    ('Of 100,000 clients 1,000 are drawn, chosen at random.', '')
    """
    return f"Of {number:,} clients {most:,} are drawn, chosen at random." if number > FEW else ""


def spread_table(runs: Sequence[StoredRun]) -> list[Table]:
    """Return how the values of all clients are distributed, where a run has too many to draw them all."""
    rows: list[tuple[str | float | None, ...]] = []
    for run in runs:
        for protocol in EACH_CLIENT:
            numbers = run.per_client(protocol)
            measured = np.array([number for number in numbers if number is not None], np.float64)
            if len(numbers) > FEW and len(measured):
                found = spread_of(measured, run.scale.sign < 0)
                of = (len(measured), len(numbers), found["mean"], found["sd"])
                rows.append(
                    (run.name, protocol, *of, *values(found["quantiles"].values()), found["worst_tenth"]["mean"])
                )
    if not rows:
        return []
    names = ("least", *(f"{100 * q:g} %" for q in QUANTILES[1:-1]), "most")
    table = Table(
        title="How clients are distributed",
        columns=("run", "protocol", "evaluated", "clients", "mean", "sd", *names, "worst tenth"),
        rows=tuple(rows),
        note="In %, of all clients that were evaluated; 10 %: a tenth of them has at most this. The value of each "
        "client is in the file that `columns` in result.json names, and in `Result.per_client`.",
    )
    return [table]

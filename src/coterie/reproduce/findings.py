"""What a table comes to: the numbers of our runs that published ones measure, beside these."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.compare.jobs import BatchProgress
from coterie.reproduce.catalogue import Cell
from coterie.reproduce.request import ReproductionRequest
from coterie.results.charts import Chart
from coterie.results.costs import paper_megabits
from coterie.results.protocols import KEYS
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread, group_count, spread
from coterie.run.result import Result

_TARGET = re.compile(r"(rounds|megabits) to ((?:unadapted )?[LC]|G|W|\+)=([0-9.]+)")


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


def measure(result: Result, quantity: str, options: Mapping[str, Any]) -> float | None:
    """Return a quantity of a run; accuracies in %, None where it is not defined or was not reached."""
    if quantity in KEYS:
        return _percent(result.accuracy.get(KEYS[quantity]))
    if quantity.startswith("unadapted "):
        return _percent((result.unadapted or result.accuracy).get(quantity.removeprefix("unadapted ")))
    if quantity.startswith("group mean "):
        return _percent((result.accuracy_group_mean or {}).get(_key(quantity.removeprefix("group mean "))))
    if quantity.startswith("newcomers "):
        protocol = quantity.removeprefix("newcomers ")
        late = (result.newcomers or {}).get("accuracy", {})
        # a client without a server model has its own only
        return _percent(late.get(_key({"G": "C"}.get(protocol, protocol))))
    if quantity.startswith("client "):
        _, client, protocol = quantity.split()
        return _percent(result.per_client[protocol][int(client)])
    if target := _TARGET.fullmatch(quantity):
        unit, protocol, value = target.groups()
        reached = first_round(result.history, protocol, float(value))
        return reached if unit == "rounds" or reached is None else _megabits(result, reached, options)
    if quantity.startswith("discrepancy "):
        discrepancies = [row["discrepancy"] for row in result.history if row.get("discrepancy") is not None]
        return _statistic(quantity.removeprefix("discrepancy "), discrepancies)
    if quantity == "W median":
        return _statistic("median", [100 * row["W"] for row in result.history if row.get("W") is not None])
    if quantity == "groups":
        return group_count(result.groups)
    if quantity == "pruned":
        return _percent((result.details or {}).get("pruned"))
    raise ValueError(f"unknown quantity '{quantity}'")


def is_target(quantity: str) -> bool:
    """Whether a quantity may not be reached.

    >>> is_target("rounds to L=0.8"), is_target("L")
    (True, False)
    """
    return _TARGET.fullmatch(quantity) is not None


def first_round(history: Sequence[Mapping[str, Any]], protocol: str, value: float) -> float | None:
    """Return the first evaluated round in which an accuracy was reached."""
    accuracies = [(row["round"], accuracy_in(row, protocol)) for row in history]
    return next((float(round) for round, accuracy in accuracies if accuracy is not None and accuracy >= value), None)


def accuracy_in(row: Mapping[str, Any], protocol: str) -> float | None:
    """Return an accuracy from a row of ``metrics.jsonl``; one without adaptation is that of methods that have none.

    >>> row = {"L": 0.9, "unadapted": {"L": 0.8}}
    >>> accuracy_in(row, "L"), accuracy_in(row, "unadapted L"), accuracy_in({"L": 0.7}, "unadapted L")
    (0.9, 0.8, 0.7)
    """
    if protocol.startswith("unadapted "):
        row, protocol = row.get("unadapted", row), protocol.removeprefix("unadapted ")
    return row.get(KEYS.get(protocol, protocol))


def _key(protocol: str) -> str:
    """Return the key of a protocol's accuracies, of newcomers or of groups."""
    without = protocol.removeprefix("unadapted ")
    return KEYS.get(protocol, protocol) if without == protocol else f"{without}_unadapted"


def over_seeds(results: Sequence[Result], quantity: str, options: Mapping[str, Any]) -> Spread | None:
    """Return mean and spread of a quantity over the runs in which it is defined."""
    values = [measure(result, quantity, options) for result in results]
    return spread([value for value in values if value is not None and math.isfinite(value)])


def no_numbers(results: Sequence[Result], quantity: str, options: Mapping[str, Any]) -> list[int]:
    """Return the seeds in which a quantity, or an accuracy that a target is read from, is measured but not finite."""

    def values(result: Result) -> list[float | None]:
        if target := _TARGET.fullmatch(quantity):
            return [accuracy_in(row, target[2]) for row in result.history]
        return [measure(result, quantity, options)]

    return sorted(result.seed for result in results if not all(v is None or math.isfinite(v) for v in values(result)))


def _megabits(result: Result, rounds: float, options: Mapping[str, Any]) -> float | None:
    """Return the cost by the paper's formula: with its network's size if the catalogue knows the transfers."""
    per_round = (result.traffic.get("paper_megabits") or math.nan) / result.rounds
    if "transfers" in options:
        per_round = paper_megabits(1, 0.1, options["transfers"], options["parameters"])
    return rounds * per_round


def _statistic(name: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    if name == "mean":
        return statistics.fmean(values)
    return float(statistics.pvariance(values) if name == "variance" else statistics.median(values))


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value

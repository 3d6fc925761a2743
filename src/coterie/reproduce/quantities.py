"""What a published number measures, taken from our results."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.results.costs import paper_megabits
from coterie.results.protocols import COMPARED, KEYS
from coterie.results.statistics import Spread, spread
from coterie.run.result import Result

_TARGET = re.compile(r"(rounds|megabits) to (L|C|G|W|\+)=([0-9.]+)")


def measure(result: Result, quantity: str, options: Mapping[str, Any]) -> float | None:
    """Return a quantity of a run; accuracies in %, None where it is not defined or was not reached."""
    if quantity in KEYS:
        return _percent(result.accuracy.get(KEYS[quantity]))
    if quantity.startswith("newcomers "):
        protocol = quantity.removeprefix("newcomers ")
        late = (result.newcomers or {}).get("accuracy", {})
        # a client without a server model has its own only
        return _percent(late.get({"G": "C"}.get(protocol, protocol)))
    if quantity.startswith("client "):
        _, client, protocol = quantity.split()
        return _percent(result.per_client[protocol][int(client)])
    if target := _TARGET.fullmatch(quantity):
        unit, protocol, value = target.groups()
        reached = first_round(result.history, "W" if protocol == "W" else KEYS[protocol], float(value))
        return reached if unit == "rounds" or reached is None else _megabits(result, reached, options)
    if quantity.startswith("discrepancy "):
        apart = [row["discrepancy"] for row in result.history if row.get("discrepancy") is not None]
        return _statistic(quantity.removeprefix("discrepancy "), apart)
    if quantity == "W median":
        return _statistic("median", [100 * row["W"] for row in result.history if row.get("W") is not None])
    if quantity == "groups":
        return number_of_groups(result)
    if quantity == "pruned":
        return _percent((result.details or {}).get("pruned"))
    raise ValueError(f"unknown quantity '{quantity}'")


def is_target(quantity: str) -> bool:
    """Whether a quantity may not be reached.

    >>> is_target("rounds to L=0.8"), is_target("L")
    (True, False)
    """
    return _TARGET.fullmatch(quantity) is not None


def first_round(history: Sequence[Mapping[str, Any]], key: str, value: float) -> float | None:
    """Return the first evaluated round in which an accuracy was reached."""
    return next((float(row["round"]) for row in history if row.get(key) is not None and row[key] >= value), None)


def number_of_groups(result: Result) -> float | None:
    """Return how many groups there are at the end."""
    return None if result.groups is None else float(len({group for group in result.groups if group is not None}))


def over_seeds(results: Sequence[Result], quantity: str, options: Mapping[str, Any]) -> Spread | None:
    """Return mean and spread of a quantity over the runs in which it is defined."""
    values = [measure(result, quantity, options) for result in results]
    return spread([value for value in values if value is not None and math.isfinite(value)])


def no_numbers(results: Sequence[Result], quantity: str, options: Mapping[str, Any]) -> list[int]:
    """Return the seeds in which a quantity was measured, but is not a finite number."""
    return sorted(result.seed for result in results if not _finite(result, quantity, options))


def _finite(result: Result, quantity: str, options: Mapping[str, Any]) -> bool:
    """Whether a quantity is a number or None; of a target, whether the accuracies that it is read from are."""
    if target := _TARGET.fullmatch(quantity):
        key = "W" if target[2] == "W" else KEYS[target[2]]
        values = [row.get(key) for row in result.history]
    else:
        values = [measure(result, quantity, options)]
    return all(value is None or math.isfinite(value) for value in values)


def beside(results: Sequence[Result]) -> dict[str, Spread | None]:
    """Return what is shown beside every accuracy: all protocols, and the number of groups."""
    return {name: over_seeds(results, name, {}) for name in (*COMPARED.values(), "groups")}


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

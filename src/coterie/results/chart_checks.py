"""Whether a chart that was read from a file can be drawn: its parts fit together, and its numbers are numbers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from coterie.results import charts
from coterie.results.charts import Chart, Series
from coterie.results.schema import LARGEST

MOST_DIGITS = 15
MOST_GROUPS = 10_000


def error_in_chart(chart: Chart) -> str | None:
    """Say what is wrong with a chart; None if it can be drawn."""
    if any(math.isfinite(number) and abs(number) > LARGEST for number in _numbers(chart)):
        return f"a number in it is beyond {LARGEST:g}"
    if not 0 <= getattr(chart, "digits", 0) <= MOST_DIGITS:
        return f"digits should be 0 to {MOST_DIGITS}"
    limits = getattr(chart, "limits", None)
    if limits is not None and not limits[0] < limits[1]:
        return "limits should go from a lower to a higher number"
    return _error_in_parts(chart)


def _error_in_parts(chart: Chart) -> str | None:
    match chart:
        case charts.Lines():
            return _error_in_series(chart.series, None)
        case charts.Bars():
            return _error_in_series((*chart.series, *([chart.line] if chart.line else [])), len(chart.categories))
        case charts.HeatMap():
            if len(chart.values) != len(chart.rows) or any(len(row) != len(chart.columns) for row in chart.values):
                return f"values should be {len(chart.rows)} rows of {len(chart.columns)}"
            return _error_in_groups(chart.groups) or _unless(len(chart.groups) in (0, len(chart.rows)), "groups")
        case charts.Scatter():
            return _error_in_groups(point.group for point in chart.points)
        case charts.Dendrogram():
            return _error_in_groups(chart.leaf_groups) or _unless(len(chart.leaf_groups) == len(chart.names), "names")
        case charts.Distribution():
            right = all(len(sample.names) in (0, len(sample.values)) for sample in chart.samples)
            return _unless(right, "names") or _unless(0 <= chart.worst <= 1, "worst")
        case charts.Table():
            right = all(len(row) == len(chart.columns) for row in chart.rows)
            places = all(0 <= r < len(chart.rows) and 0 <= c < len(chart.columns) for r, c in chart.bold)
            return _unless(right, "rows") or _unless(places, "bold")
    return None


def _unless(right: bool, what: str) -> str | None:
    return None if right else f"{what} does not fit the rest of it"


def _error_in_series(series: Iterable[Series], length: int | None) -> str | None:
    """Bars have a number for each category; a line has a place for each number, and perhaps edges."""
    for each in series:
        expected = len(each.y) if length is None else length
        sizes = {"y": len(each.y), "low": len(each.low) or expected, "high": len(each.high) or expected}
        if length is None:
            sizes["x"] = len(each.x)
        if wrong := next((name for name, size in sizes.items() if size != expected), None):
            return f"{wrong} of '{each.name}' has {sizes[wrong]} numbers, not {expected}"
        if bool(each.low) != bool(each.high):
            return f"low and high of '{each.name}' belong together"
        if each.slot is not None and not 0 <= each.slot <= MOST_GROUPS:
            return f"slot of '{each.name}' should be 0 to {MOST_GROUPS}"
    return None


def _error_in_groups(groups: Iterable[int | None]) -> str | None:
    right = all(group is None or 0 <= group <= MOST_GROUPS for group in groups)
    return None if right else f"a group should be 0 to {MOST_GROUPS}"


def _numbers(part: Any) -> Iterator[float]:
    if isinstance(part, int | float) and not isinstance(part, bool):
        yield part
    elif isinstance(part, tuple | list):
        for item in part:
            yield from _numbers(item)
    elif is_dataclass(part):
        for each in fields(part):
            yield from _numbers(getattr(part, each.name))

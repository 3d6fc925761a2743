"""What each chart shows, as a table: for whoever does not see it, and for whoever wants the numbers."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.results import charts
from coterie.results.charts import Chart, Series, Table, Value, values, worst_of

WIDE = 40
"""Maps with more rows or columns than this are summarised by groups, or by rows."""

Row = tuple[str | float | None, ...]


def as_table(chart: Any) -> Table:
    """Return the numbers behind a chart, which is no text itself."""
    columns, rows = WRITERS[type(chart)](chart)
    return Table(title=chart.title, columns=columns, rows=tuple(rows), digits=chart.digits)


def _lines(chart: charts.Lines) -> tuple[tuple[str, ...], list[Row]]:
    at = sorted({x for series in chart.series for x in series.x if x is not None})
    columns, cells = _columns(chart.series)
    rows: list[Row] = [(int(x) if x == int(x) else x, *(cell(x) for cell in cells)) for x in at]
    return (chart.x_label, *columns), rows


def _bars(chart: charts.Bars) -> tuple[tuple[str, ...], list[Row]]:
    over = [] if chart.line is None else [chart.line]
    columns, cells = _columns([replace(series, x=values(range(len(series.y)))) for series in (*chart.series, *over)])
    return (chart.x_label, *columns), [
        (name, *(cell(place) for cell in cells)) for place, name in enumerate(chart.categories)
    ]


def _columns(every: Sequence[Series]) -> tuple[list[str], list[Callable[[float], Value]]]:
    """Return headings, and for each how to find its cell by x; a band has columns of its own."""
    columns: list[str] = []
    cells: list[Callable[[float], Value]] = []
    for series in every:
        for name, numbers in ((series.name, series.y), (f"{series.name}, from", series.low), ("to", series.high)):
            if numbers:
                columns.append(name)
                cells.append(dict(zip(series.x, numbers, strict=False)).get)
    return columns, cells


def _heat_map(chart: charts.HeatMap) -> tuple[tuple[str, ...], list[Row]]:
    corner = chart.row_label or "row"
    if max(len(chart.rows), len(chart.columns)) <= WIDE:
        return (corner, *chart.columns), [
            (name, *numbers) for name, numbers in zip(chart.rows, chart.values, strict=True)
        ]
    if chart.groups:
        return _between_groups(chart)
    return (corner, "least", "mean", "most"), [
        (name, min(measured), statistics.fmean(measured), max(measured)) if measured else (name, None, None, None)
        for name, numbers in zip(chart.rows, chart.values, strict=True)
        for measured in [[number for number in numbers if number is not None]]
    ]


def _between_groups(chart: charts.HeatMap) -> tuple[tuple[str, ...], list[Row]]:
    """Return the mean within and between groups."""
    members: dict[int | None, list[int]] = {}
    for place, group in enumerate(chart.groups):
        members.setdefault(group, []).append(place)

    def name(group: int | None) -> str:
        return "in no group" if group is None else f"group {group}"

    def mean(of_a: list[int], of_b: list[int]) -> Value:
        measured = [v for i in of_a for j in of_b if i != j and (v := chart.values[i][j]) is not None]
        return statistics.fmean(measured) if measured else None

    rows: list[Row] = [(name(a), *(mean(of_a, of_b) for of_b in members.values())) for a, of_a in members.items()]
    return ("mean of the pairs", *(name(group) for group in members)), rows


def _scatter(chart: charts.Scatter) -> tuple[tuple[str, ...], list[Row]]:
    named = len(chart.groups) > 0
    columns = ("name", *(["group"] if named else []), chart.x_label or "first axis", chart.y_label or "second axis")
    rows: list[Row] = []
    for point in chart.points:
        group = [] if not named else ["none" if point.group is None else chart.groups[point.group]]
        rows.append((point.name, *group, point.x, point.y))
    return columns, rows


def _dendrogram(chart: charts.Dendrogram) -> tuple[tuple[str, ...], list[Row]]:
    clients: dict[int, list[str]] = {}
    for name, group in zip(chart.names, chart.leaf_groups, strict=True):
        clients.setdefault(group, []).append(name)
    rows: list[Row] = []
    for group, names in sorted(clients.items()):
        inside = [merge.height for merge in chart.merges if merge.group == group]
        rows.append((chart.groups[group], len(names), " ".join(names), max(inside, default=None)))
    return ("group", "members", "who", f"highest merge inside ({chart.unit})"), rows


def _distribution(chart: charts.Distribution) -> tuple[tuple[str, ...], list[Row]]:
    columns = ["", "measured", "least", "lower quartile", "median", "upper quartile", "most", "mean"]
    columns += [f"mean of the worst {100 * chart.worst:g} %"] * bool(chart.worst)
    rows: list[Row] = []
    for sample in chart.samples:
        measured = [number for number in sample.values if number is not None]
        numbers: list[Value] = [None] * 6
        if measured:
            numbers = [*np.quantile(measured, (0, 0.25, 0.5, 0.75, 1)).tolist(), statistics.fmean(measured)]
        worst = [worst_of(sample.values, chart.worst)[1]] if chart.worst else []
        rows.append((sample.name, len(measured), *numbers, *worst))
    return tuple(columns), rows


WRITERS: dict[type[Chart], Callable[[Any], tuple[tuple[str, ...], list[Row]]]] = {
    charts.Lines: _lines,
    charts.Bars: _bars,
    charts.HeatMap: _heat_map,
    charts.Scatter: _scatter,
    charts.Dendrogram: _dendrogram,
    charts.Distribution: _distribution,
}

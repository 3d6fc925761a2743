"""What a sweep shows beyond a comparison: accuracy and groups over the values of one setting, or of two."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coterie.report.pages.curves import mean_series
from coterie.results.charts import Bars, Chart, HeatMap, Lines, Section, Series, Switch, Value, values
from coterie.results.comparison_table import ComparisonRow
from coterie.results.comparisons import StoredComparison
from coterie.results.metrics import capital
from coterie.results.protocols import COMPARED, PROTOCOLS
from coterie.results.statistics import Spread

SPAN = 30
"""Positive numbers whose ends are further apart than this factor stand on a logarithmic axis."""


def over_values(compared: StoredComparison) -> Section:
    """Draw accuracies over the settings that were varied."""
    keys = compared.varied
    heading = f"{capital(compared.table.metric)} over the values"
    if all(spread is None for row in compared.table.rows for spread in row.accuracy.values()):
        return Section(heading=heading, text=("No run is finished: there is nothing to draw.",))
    if len(keys) > 2:
        text = (
            f"{len(keys)} settings are varied: {', '.join(keys)}. More than two are not drawn; the table has them all."
        )
        return Section(heading=heading, text=(text,))
    variants = _one_setting(compared, keys[0]) if len(keys) == 1 else _two_settings(compared, keys[0], keys[1])
    return Section(heading=heading, blocks=(Switch(label="Protocol", variants=tuple(variants)),))


def ordered(choices: Sequence[Any]) -> list[Any]:
    """Return each value once: numbers in their order, others as they came.

    >>> ordered([8, 2, 8]), ordered(["b", "a"])
    ([2, 8], ['b', 'a'])
    """
    distinct = [value for place, value in enumerate(choices) if value not in choices[:place]]
    return sorted(distinct) if all(_is_number(value) for value in distinct) else distinct


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def written(value: Any) -> str:
    """Write a value as a configuration does.

    >>> written(True), written(0.5), written(None), written("auto")
    ('true', '0.5', 'none', 'auto')
    """
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _one_setting(compared: StoredComparison, key: str) -> list[tuple[str, Chart]]:
    """Draw accuracy as a line over bars of the number of groups (PACFL Fig. 2), or alone where there are no groups."""
    table = compared.table
    at = {row.label: compared.settings[row.label].get(key) for row in table.rows}
    rows = [row for value in ordered([*at.values()]) for row in table.rows if at[row.label] == value]
    names = tuple(written(at[row.label]) for row in rows)
    grouped = any(row.groups is not None for row in rows)
    whiskers = " Whiskers: a standard deviation over seeds." if len(table.seeds) > 1 else " One seed: no spread."
    variants: list[tuple[str, Chart]] = []
    for protocol, name in COMPARED.items():
        spreads = [row.accuracy[protocol] for row in rows]
        if all(spread is None for spread in spreads):
            continue
        line = mean_series(f"{table.metric} {name}", spreads, table.scale.factor, slot=1 if grouped else 0)
        note = f"{name}: {PROTOCOLS[protocol].sentence}.{whiskers}{_fewer_seeds(rows, protocol, len(table.seeds))}"
        chart = Bars(
            title=f"{capital(table.metric)} {name} over {key}" + (", and the number of groups" if grouped else ""),
            x_label=key,
            y_label="groups" if grouped else f"{table.metric} {name}{table.scale.unit}",
            categories=names,
            series=(mean_series("groups", [row.groups for row in rows], slot=0),) if grouped else (line,),
            line=line if grouped else None,
            line_label=f"{table.metric} {name}{table.scale.unit}" if grouped else "",
            note=note,
        )
        variants.append((name, chart))
    numbers = [float(value) for row in rows if isinstance(value := at[row.label], int | float)]
    if len(rows) == len(numbers) and all(map(_is_number, at.values())):
        variants.append(("all", _together(compared, key, rows, numbers)))
    return variants


def _fewer_seeds(rows: Sequence[ComparisonRow], protocol: str, seeds: int) -> str:
    """Say where a mean is of some seeds only."""
    incomplete = [
        f"{row.label} {spread.n}" for row in rows if (spread := row.accuracy[protocol]) is not None and spread.n < seeds
    ]
    return f" Of {seeds} seeds, {', '.join(incomplete)} only." if incomplete else ""


def _together(compared: StoredComparison, key: str, rows: Sequence[ComparisonRow], at: Sequence[float]) -> Chart:
    """Draw all protocols over a number, with bands."""
    series, shown = list[Series](), compared.table.scale
    for slot, (protocol, name) in enumerate(COMPARED.items()):
        spreads = [row.accuracy[protocol] for row in rows]
        if any(spread is not None for spread in spreads):
            series.append(replace(mean_series(name, spreads, shown.factor, slot), x=values(at)))
    many = len(compared.table.seeds) > 1
    return Lines(
        title=f"{capital(compared.table.metric)} over {key}, all protocols",
        x_label=key,
        y_label=f"{shown.metric}{shown.unit}",
        series=tuple(series),
        log_x=min(at) > 0 and max(at) / min(at) > SPAN,
        note="Mean over seeds; the band is a standard deviation to each side." if many else "One seed: no band.",
    )


def _two_settings(compared: StoredComparison, row_key: str, column_key: str) -> list[tuple[str, Chart]]:
    """Draw a map per protocol, and one of the number of groups."""
    table = compared.table
    rows, columns = (ordered([keys.get(key) for keys in compared.settings.values()]) for key in (row_key, column_key))
    places = {
        row.label: (rows.index(keys.get(row_key)), columns.index(keys.get(column_key)))
        for row in table.rows
        for keys in [compared.settings[row.label]]
    }

    def heat_map(name: str, unit: str, spreads: dict[str, Spread | None], factor: float, note: str) -> HeatMap:
        cells: list[list[Value]] = [[None] * len(columns) for _ in rows]
        for label, (r, c) in places.items():
            spread = spreads[label]
            cells[r][c] = None if spread is None else factor * spread.mean
        return HeatMap(
            title=name,
            rows=tuple(map(written, rows)),
            columns=tuple(map(written, columns)),
            row_label=row_key,
            column_label=column_key,
            values=tuple(map(tuple, cells)),
            unit=unit,
            note=note,
        )

    mean = f"Mean over {'seeds' if len(table.seeds) > 1 else 'the one seed'}; spreads are in the table."
    variants: list[tuple[str, Chart]] = []
    for protocol, name in COMPARED.items():
        spreads = {row.label: row.accuracy[protocol] for row in table.rows}
        if any(spreads.values()):
            remark = _fewer_seeds(table.rows, protocol, len(table.seeds))
            note = f"{name}: {PROTOCOLS[protocol].sentence}. {mean}{remark}"
            shown, heading = table.scale, f"{capital(table.metric)} {name} by both settings"
            variants.append(
                (name, heat_map(heading, f"{table.metric} {name}{shown.unit}", spreads, shown.factor, note))
            )
    groups = {row.label: row.groups for row in table.rows}
    if any(groups.values()):
        variants.append(("groups", heat_map("Number of groups by both settings", "groups", groups, 1, mean)))
    return variants

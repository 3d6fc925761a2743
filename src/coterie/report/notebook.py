"""Results as notebooks show them: small tables in HTML, charts on axes of one's own, and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError, counted
from coterie.report.groups import shortened
from coterie.report.html_tables import html
from coterie.report.shown_clients import PLACES, drawn_of, shown
from coterie.report.static import PAINTERS
from coterie.report.text_table import TextTable
from coterie.results.charts import Bars, Chart, Lines, Series, values
from coterie.results.client_columns import FEW
from coterie.results.formats import data_title
from coterie.results.metrics import MetricScale, scale, scale_of
from coterie.results.names import Names
from coterie.results.protocols import AT_END, CURVES, EACH_CLIENT, PROTOCOLS, estimated, standard_errors
from coterie.results.statistics import mean, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_GROUPS = 12
"""Lines of a table of groups."""


def result_html(result: Mapping[str, Any]) -> str:
    """Return what a run came to: its accuracies with what they mean, and its groups; `result` is as in result.json."""
    clients = len(result["per_client"].get("L") or [])
    partition = f", {result['partition']}" if result["partition"] else ""
    title = f"{result['algorithm']} on {data_title(result['data'])}{partition}"
    title += f": {counted(clients, 'client')}, {counted(result['rounds'], 'round')}"
    scaled, errors = scale_of(result), standard_errors(result)
    measured = [(p, result["accuracy"].get(key), errors.get(key)) for key, p in AT_END.items()]
    rows = [[p.symbol, scaled.written(v, error=error), p.sentence] for p, v, error in measured if v is not None]
    tables = [TextTable(["protocol", f"{scaled.metric}{scaled.unit}", "of what"], rows, left=["of what"])]
    notes = [text] if (text := estimated(result)) else []
    notes += [] if result["ari"] is None else [f"Agreement with the true groups (ARI): {result['ari']:.2f}."]
    if result["groups"] is not None:
        lines = _group_rows(result["groups"], result["per_client"], scaled, Names.in_result(result))
        tables.append(TextTable(["group", "clients", "who", *_measured(result["per_client"])], lines, left=["who"]))
    sent = " and ".join(
        f"{result['traffic'][way] / 1e6:.2f} MB {word}"
        for way, word in (("down_bytes", "to clients"), ("up_bytes", "from them"))
    )
    notes.append(f"{result['model']}, seed {result['seed']}, {sent}, {result['seconds']:.1f} seconds.")
    return html(title, tables, notes)


def _measured(per_client: Mapping[str, Any]) -> list[str]:
    return [key for key in EACH_CLIENT if any(value is not None for value in per_client.get(key) or [])]


def _group_rows(
    groups: Sequence[int | None], per_client: Mapping[str, Any], shown: MetricScale, names: Names
) -> list[list[str]]:
    """Return a line per group: how many clients, who, and their mean accuracies."""
    known = sorted({group for group in groups if group is not None})
    rows = []
    for group in [*known[:MOST_GROUPS], *([None] if None in groups else [])]:
        members = [client for client, other in enumerate(groups) if other == group]
        means = [mean(per_client[key][client] for client in members) for key in _measured(per_client)]
        name = "in none" if group is None else str(group)
        rows.append([name, str(len(members)), shortened(members, names), *map(shown.written, means)])
    if len(known) > MOST_GROUPS:
        rows.insert(MOST_GROUPS, [f"… {len(known) - MOST_GROUPS} more", "", "", *("" for _ in _measured(per_client))])
    return rows


def draw(chart: Chart, axes: Axes | None) -> Axes:
    """Draw a chart on axes, by default those of a new figure."""
    painter, size = PAINTERS[type(chart)]
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(figsize=size(chart), layout="constrained")
    painter(chart, axes)
    axes.set_title(chart.title.replace("$", r"\$"), fontsize=10)
    return axes


def clients_chart(result: Mapping[str, Any], title: str) -> Bars:
    """Return the accuracy of every client, by group: under C where it is defined, else under L."""
    per_client, scaled = result["per_client"], scale_of(result)
    protocol = next((key for key in ("C", "L") if key in _measured(per_client)), "L")
    accuracies = per_client.get(protocol) or []
    groups = result["groups"] or [None] * len(accuracies)
    known = sorted({group for group in groups if group is not None})
    evaluated = [client for client, value in enumerate(accuracies) if value is not None or len(accuracies) <= FEW]
    drawn = shown(evaluated, PLACES)
    order = sorted(drawn, key=lambda client: (groups[client] is None, groups[client] or 0, client))
    series = []
    for group in [*known, *([None] if None in groups else [])]:
        name = ("in no group" if known else "clients") if group is None else f"group {group}"
        bars = (accuracies[client] if groups[client] == group else None for client in order)
        slot = None if group is None and known else group or 0
        series.append(Series(name=name, y=values(bars, scaled.factor), slot=slot))
    return Bars(
        title=title,
        x_label="client",
        y_label=f"{scaled.metric} {PROTOCOLS[protocol].symbol}{scaled.unit}",
        categories=tuple(map(str, order)),
        series=tuple(series),
        stacked=True,
        note=drawn_of(len(evaluated), PLACES),
    )


def comparison_chart(
    histories: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], protocol: str, title: str, metric: str
) -> Lines:
    """Return accuracy over rounds, mean and standard deviation over seeds; by label, the histories of its runs."""
    key, scaled = protocol if protocol in CURVES else "C", scale(metric)
    series = []
    for slot, (label, runs) in enumerate(histories.items()):
        by_round: dict[int, list[float]] = {}
        for row in (row for rows in runs for row in rows if row.get(key) is not None):
            by_round.setdefault(row["round"], []).append(row[key])
        spreads = {round: spread(numbers) for round, numbers in sorted(by_round.items())}
        known = {round: s for round, s in spreads.items() if s is not None}
        low, y, high = (
            values((s.mean + sign * (s.std or 0) for s in known.values()), scaled.factor) for sign in (-1, 0, 1)
        )
        series.append(Series(name=label, x=values(known), y=y, low=low, high=high, slot=slot))
    symbol = PROTOCOLS[key].symbol
    return Lines(title=title, x_label="round", y_label=f"{metric} {symbol}{scaled.unit}", series=tuple(series))


def frame(rows: Sequence[Mapping[str, Any]], index: str | Sequence[str]) -> DataFrame:
    """Return rows as a data frame of pandas; what is no number or text is left out."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise CoterieError("data frames need one more package: pip install 'coterie[notebook]' (or pandas)") from None
    plain = [{key: value for key, value in row.items() if not isinstance(value, dict | list)} for row in rows]
    names = [index] if isinstance(index, str) else list(index)
    return DataFrame(plain, columns=[*dict.fromkeys([*names, *(key for row in plain for key in row)])]).set_index(names)

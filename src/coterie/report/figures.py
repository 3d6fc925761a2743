"""Results as pictures: accuracy over rounds, and what is left of it when weights are pruned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coterie.report.picture_files import write_picture
from coterie.report.static import COLOURS, paint
from coterie.results.charts import Lines, Series, values
from coterie.results.display_names import display_name
from coterie.results.metrics import ACCURACY, scale
from coterie.results.metrics import title as metric_title
from coterie.results.protocols import FOLLOWED

SHOWN = 5
"""Clients whose pruning is drawn where nobody says which: those who were seen most often."""
BLACK = 6


def accuracy_plot(
    histories: Mapping[str, Sequence[Mapping[str, Any]]], title: str, path: Path, metric: str = ACCURACY
) -> None:
    """Draw accuracy, or another metric, over rounds into a file."""
    write_picture(paint(accuracy_chart(histories, title, metric)), path)


def accuracy_chart(histories: Mapping[str, Sequence[Mapping[str, Any]]], title: str, metric: str = ACCURACY) -> Lines:
    """Return accuracy, or another metric, over rounds: a colour per method, a line style per protocol."""
    series, shown = list[Series](), scale(metric)
    for number, (method, history) in enumerate(histories.items()):
        for style, protocol in enumerate(FOLLOWED):
            rows = [row for row in history if row.get(protocol) is not None]
            x, y = values(row["round"] for row in rows), values((row[protocol] for row in rows), shown.factor)
            slot = number % len(COLOURS) + style * len(COLOURS)
            series += [Series(name=f"{display_name(method)} ({protocol})", x=x, y=y, slot=slot)] if rows else []
    return Lines(title=title, x_label="round", y_label=f"{shown.metric}{shown.unit}", series=tuple(series))


def pruning_curves(history: Sequence[Mapping[str, Any]]) -> dict[int, list[tuple[float, float]]]:
    """Return by client the shares pruned and the accuracies under L, from the rows of a Sub-FedAvg run.

    >>> rows = [{"pruning": {"3": [0.1, 0.8]}}, {"pruning": {"3": [0.2, 0.9], "7": [0.1, 0.7]}}]
    >>> pruning_curves(rows)
    {3: [(0.1, 0.8), (0.2, 0.9)], 7: [(0.1, 0.7)]}
    """
    curves: dict[int, list[tuple[float, float]]] = {}
    for row in history:
        for client, (pruned, accuracy) in row.get("pruning", {}).items():
            curves.setdefault(int(client), []).append((pruned, accuracy))
    return dict(sorted(curves.items()))


def pruning_chart(
    history: Sequence[Mapping[str, Any]], title: str, clients: Sequence[int] | None = None, metric: str = ACCURACY
) -> Lines:
    """Return accuracy under L against the share of pruned weights, of some clients."""
    curves = pruning_curves(history)
    chosen = sorted(curves, key=lambda client: -len(curves[client]))[:SHOWN] if clients is None else clients
    return Lines(
        title=title,
        x_label="weights pruned (%)",
        y_label=f"{metric_title(metric)} L (%)",
        series=tuple(_pruned(f"client {client}", curves.get(client, [])) for client in sorted(chosen)),
        note=f"The {len(chosen)} clients that took part most often, at each evaluation.",
    )


def pruning_plot(
    history: Sequence[Mapping[str, Any]], title: str, path: Path, clients: Sequence[int] | None = None
) -> None:
    """Draw accuracy under L against the share of pruned weights, of some clients and on average.

    The average, of both, is over the clients that have trained by then; `history` holds the rows of a Sub-FedAvg run.
    """
    chart = pruning_chart(history, title, clients)
    rows = [(row["pruned"], row["pruned_L"]) for row in history if row.get("pruned_L") is not None]
    write_picture(paint(replace(chart, series=(*chart.series, _pruned("mean", rows, BLACK)))), path)


def _pruned(name: str, points: Sequence[tuple[float, float]], slot: int | None = None) -> Series:
    return Series(name=name, x=values((p for p, _ in points), 100), y=values((a for _, a in points), 100), slot=slot)

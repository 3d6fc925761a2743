"""Pruning as a picture: what accuracy is left when so many weights are gone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.report.curricula import GREY, canvas, finish
from coterie.report.figures import COLOURS, MARKERS

SHOWN = 5
"""Clients in the picture where nobody says how many: those who were seen most often."""


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


def pruning_plot(
    history: Sequence[Mapping[str, Any]], title: str, path: Path, clients: Sequence[int] | None = None
) -> None:
    """Draw accuracy under L against the share of pruned weights, of some clients and on average.

    The average, of both, is over the clients that have trained by then; `history` holds the rows of a Sub-FedAvg run.
    """
    curves = pruning_curves(history)
    chosen = sorted(curves, key=lambda client: -len(curves[client]))[:SHOWN] if clients is None else clients
    figure, axes = canvas(7.2)
    for number, client in enumerate(sorted(chosen)):
        axes.plot(
            *_percent(curves.get(client, ())),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4.5,
            linewidth=1.1,
            label=f"client {client}",
        )
    mean = [(row["pruned"], row["pruned_L"]) for row in history if row.get("pruned_L") is not None]
    axes.plot(*_percent(mean), color="black", linewidth=2.4, label="mean")
    axes.set(xlabel="weights pruned (%)", ylabel="accuracy L (%)", title=title)
    axes.set_xlim(left=0)
    axes.axhline(100, color=GREY, linewidth=0.6)
    finish(figure, axes, path)


def _percent(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [100 * pruned for pruned, _ in points], [100 * accuracy for _, accuracy in points]

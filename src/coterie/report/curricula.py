"""Curricula as pictures: how pools grow, what orders and pacings came to, and how alike a client's samples are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coterie.report.figures import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#6b6b6b"


def pacing_plot(curves: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draw how the pool grows: for each pacing its share of all samples at steps 0 … T−1."""
    figure, axes = canvas(6.4)
    for number, (pacing, shares) in enumerate(curves.items()):
        steps = np.arange(len(shares)) / max(len(shares), 1)
        axes.plot(
            steps,
            [100 * share for share in shares],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markevery=(number, max(len(shares) // 8, 1)),
            markersize=5,
            linewidth=1.8,
            drawstyle="steps-post" if pacing == "step" else "default",
            label=pacing,
        )
    axes.set(xlabel="step t / T", ylabel="samples in the pool (%)", title=title, xlim=(0, 1), ylim=(0, 104))
    finish(figure, axes, path)


def order_plot(
    accuracies: Mapping[str, Mapping[str, Sequence[float]]],
    vanilla: Sequence[float],
    title: str,
    path: Path,
    protocol: str = "G",
) -> None:
    """Draw accuracy by order and pacing: a column per pacing, a colour per order, the mean of seeds and their spread.

    `accuracies` are fractions, by order, then by pacing, one per seed; `vanilla` those without a curriculum.
    """
    figure, axes = canvas(7.2)
    pacings = list(dict.fromkeys(pacing for of_order in accuracies.values() for pacing in of_order))
    width = 0.8 / max(len(accuracies), 1)
    for number, (order, of_order) in enumerate(accuracies.items()):
        for place, pacing in enumerate(pacings):
            values = 100 * np.asarray(of_order.get(pacing, ()), float)
            if not len(values):
                continue
            x = place + (number - (len(accuracies) - 1) / 2) * width
            colour, first = COLOURS[number % len(COLOURS)], pacing == next(iter(of_order))
            axes.errorbar(
                x,
                values.mean(),
                yerr=_deviation(values),
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                markersize=7,
                capsize=4,
                linewidth=1.6,
                label=order if first else None,
            )
            axes.plot(np.full(len(values), x), values, ".", color=colour, alpha=0.5, markersize=5)
    if len(vanilla):
        values = 100 * np.asarray(vanilla, float)
        axes.axhline(values.mean(), color=GREY, linestyle="--", linewidth=1.4, label="vanilla")
        low, high = values.mean() - _deviation(values), values.mean() + _deviation(values)
        axes.axhspan(low, high, color=GREY, alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(pacings)), pacings)
    axes.set(xlabel="pacing", ylabel=f"accuracy {protocol} (%)", title=title, xlim=(-0.6, len(pacings) - 0.4))
    finish(figure, axes, path)


def consistency_plot(spreads: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draw how alike a client's samples are in difficulty: the standard deviation of their losses, client by client.

    Each division of the data is a colour; its clients stand in order of this number, and the line is their mean.
    """
    figure, axes = canvas(6.8)
    for number, (division, values) in enumerate(spreads.items()):
        colour, mean = COLOURS[number % len(COLOURS)], float(np.mean(values)) if len(values) else 0.0
        axes.plot(
            sorted(values),
            MARKERS[number % len(MARKERS)],
            color=colour,
            markersize=4,
            linestyle="none",
            label=f"{division} (mean {mean:.2f})",
        )
        axes.axhline(mean, color=colour, linewidth=1, alpha=0.6)
    axes.set(xlabel="clients, in order of their deviation", ylabel="deviation of a client's losses", title=title)
    axes.set_ylim(bottom=0)
    finish(figure, axes, path, beside=False)


def _deviation(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of a sample; 0 of one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def canvas(width: float) -> tuple[Figure, Axes]:
    """Return an empty picture, so many inches wide."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.0), layout="constrained")
    return figure, figure.add_subplot()


def finish(figure: Figure, axes: Axes, path: Path, beside: bool = True) -> None:
    """Write a picture; with the legend `beside` it, or within where that leaves room."""
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1) if beside else None, frameon=False)
    figure.savefig(path, dpi=130)

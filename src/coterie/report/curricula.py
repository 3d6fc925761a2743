"""Curricula as pictures: how pools grow, what orders and pacings came to, and how alike a client's samples are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from coterie.report.picture_files import write_picture
from coterie.report.static import GREY, colour, finish, marker, paint
from coterie.results.charts import Lines, Mark, Series, values
from coterie.results.statistics import spread


def pacing_plot(curves: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draw how the pool grows: for each pacing its share of all samples at steps 0 … T−1."""
    chart = Lines(
        title=title,
        x_label="step t / T",
        y_label="samples in the pool (%)",
        series=tuple(
            Series(name=pacing, x=values(np.arange(len(shares)) / max(len(shares), 1)), y=values(shares, 100))
            for pacing, shares in curves.items()
        ),
        limits=(0, 104),
    )
    write_picture(paint(chart), path)


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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot(xlabel="pacing", ylabel=f"accuracy {protocol} (%)", title=title)
    pacings = list(dict.fromkeys(pacing for by_pacing in accuracies.values() for pacing in by_pacing))
    for number, (order, by_pacing) in enumerate(accuracies.items()):
        shift = 0.8 * ((number + 0.5) / len(accuracies) - 0.5)
        for pacing, fractions in by_pacing.items():
            x, (mean, deviation) = pacings.index(pacing) + shift, _percent(fractions)
            label = order if pacing == next(iter(by_pacing)) else None
            axes.errorbar(x, mean, deviation, color=colour(number), marker=marker(number), capsize=4, label=label)
            axes.plot([x] * len(fractions), 100 * np.asarray(fractions), ".", color=colour(number), alpha=0.5)
    if len(vanilla):
        mean, deviation = _percent(vanilla)
        axes.axhline(mean, color=GREY, linestyle="--", linewidth=1.4, label="vanilla")
        axes.axhspan(mean - deviation, mean + deviation, color=GREY, alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(pacings)), pacings)
    axes.set_xlim(-0.6, len(pacings) - 0.4)
    finish(axes)
    write_picture(figure, path)


def consistency_plot(spreads: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draw how alike a client's samples are in difficulty: the standard deviation of their losses, client by client.

    Each division of the data is a colour; its clients stand in order of this number, and a level line is their mean.
    """
    means = {division: float(np.mean(stds)) if len(stds) else 0.0 for division, stds in spreads.items()}
    chart = Lines(
        title=title,
        x_label="clients, in order of their deviation",
        y_label="deviation of a client's losses",
        series=tuple(
            Series(name=f"{division} (mean {means[division]:.2f})", x=values(range(len(stds))), y=values(sorted(stds)))
            for division, stds in spreads.items()
        ),
        marks=tuple(Mark(at=mean, text=f"mean of {division}", axis="y") for division, mean in means.items()),
        limits=(0, 1.05 * max((float(number) for stds in spreads.values() for number in stds), default=1.0)),
    )
    write_picture(paint(chart), path)


def _percent(fractions: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation in %; the latter is 0 of one value."""
    over = spread([*fractions])
    return (100 * over.mean, 100 * (over.std or 0.0)) if over else (np.nan, 0.0)

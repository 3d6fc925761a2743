"""The charts of a page as picture files: PNG, SVG, PDF."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import CoterieError
from coterie.report.figures import COLOURS, MARKERS
from coterie.results.charts import (
    Bars,
    Chart,
    Dendrogram,
    Distribution,
    HeatMap,
    Lines,
    Page,
    Scatter,
    Series,
    Values,
    charts_of,
    worst_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
GREY = "#767b85"
DASHES = ("-", "--", ":", "-.")
LONG = 28
"""Names of more letters are shortened."""
NAMED = 60
"""With more than so many clients, names are left out."""


def save(page: Page, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every chart of a page into a folder, numbered in its order; return the paths. Tables are no pictures."""
    check_formats(formats)
    if folder.exists() and not folder.is_dir():
        raise CoterieError(f"'{folder}' is a file: name a folder for the pictures")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(variant, chart) for variant, chart in charts_of(page) if type(chart) in PAINTERS]
    written = []
    for number, (variant, chart) in enumerate(drawn, 1):
        figure = paint(chart)
        name = chart.title if variant in chart.title else f"{chart.title} {variant}"
        for kind in formats:
            path = folder / f"{number:02d}-{_slug(name)}.{kind}"
            figure.savefig(path, dpi=130, metadata={"Date": None} if kind == "svg" else None)
            written.append(path)
    return written


def check_formats(formats: Sequence[str]) -> Sequence[str]:
    """Return formats of pictures; refuse one that is not known, or none."""
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown or not formats:
        what = f"pictures can't be written as '{unknown[0]}'" if unknown else "say how pictures are to be written"
        raise CoterieError(f"{what}: use {', '.join(FORMATS)}")
    return formats


def paint(chart: Chart) -> Figure:
    """Draw one chart."""
    from matplotlib.figure import Figure

    painter, size = PAINTERS[type(chart)]
    figure = Figure(figsize=size(chart), layout="constrained")
    axes = figure.add_subplot()
    painter(chart, axes)
    axes.set_title(_literal(chart.title), fontsize=10)
    return figure


def colour(slot: int | None) -> str:
    """Return the colour of a group or series; grey for none."""
    return GREY if slot is None else COLOURS[slot % len(COLOURS)]


def marker(slot: int | None) -> str:
    """Return its marker, so that no two of the first 49 look alike."""
    return "o" if slot is None else MARKERS[(slot + slot // len(COLOURS)) % len(MARKERS)]


def _slug(text: str) -> str:
    """Return a text as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "chart"


def _literal(text: str) -> str:
    """Return a text that matplotlib shows as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")


def _name(text: str) -> str:
    """Return a name, shortened if it would take the room of the picture."""
    return _literal(text if len(text) <= LONG else text[: LONG - 1] + "…")


def _numbers(values: Values) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _lines(chart: Lines, axes: Axes) -> None:
    for place, series in enumerate(chart.series):
        slot = place if series.slot is None else series.slot
        x, y = _numbers(series.x), _numbers(series.y)
        axes.plot(
            x,
            y,
            color=colour(slot),
            marker=marker(slot),
            markevery=max(len(x) // 20, 1),
            markersize=4,
            linewidth=1.6,
            linestyle=DASHES[slot // len(COLOURS) % len(DASHES)],
            label=_name(series.name),
        )
        if series.low and series.high:
            axes.fill_between(
                x, _numbers(series.low), _numbers(series.high), color=colour(slot), alpha=0.2, linewidth=0
            )
    for mark in chart.marks:
        draw, place_at = (axes.axvline, (mark.at, 0.03)) if mark.axis == "x" else (axes.axhline, (0.99, mark.at))
        draw(mark.at, color="black", linestyle="--", linewidth=1)
        upright = mark.axis == "x"
        axes.annotate(
            _literal(mark.text),
            place_at,
            xycoords=("data", "axes fraction") if upright else ("axes fraction", "data"),
            xytext=(4, 0) if upright else (0, 3),
            textcoords="offset points",
            ha="left" if upright else "right",
            fontsize=8,
        )
    if chart.log_x:
        axes.set_xscale("log")
    if all(y is None for series in chart.series for y in series.y):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    if chart.limits:
        axes.set_ylim(*chart.limits)
    _whole(chart, axes)
    _finish(axes)


def _whole(chart: Lines | Bars, axes: Axes) -> None:
    """Put whole numbers only at the y axis where there are no others."""
    from matplotlib.ticker import MaxNLocator

    if chart.digits == 0:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _whiskers(series: Series) -> Any:
    if not (series.low and series.high):
        return None
    y = _numbers(series.y)
    return np.nan_to_num(np.stack([y - _numbers(series.low), _numbers(series.high) - y]))


def _bars(chart: Bars, axes: Axes) -> None:
    places, above, below = np.arange(len(chart.categories)), 0.0, 0.0
    width = 0.8 / (1 if chart.stacked else max(len(chart.series), 1))
    for place, series in enumerate(chart.series):
        y, slot = _numbers(series.y), place if series.slot is None else series.slot
        shift = 0.0 if chart.stacked else (place - (len(chart.series) - 1) / 2) * width
        axes.bar(
            places + shift,
            np.nan_to_num(y),
            width,
            bottom=np.where(np.nan_to_num(y) < 0, below, above) if chart.stacked else 0,
            yerr=_whiskers(series),
            capsize=3,
            color=colour(slot),
            alpha=(1, 0.55, 0.25)[slot // len(COLOURS) % 3],
            edgecolor="black",
            linewidth=0.4,
            label=_name(series.name),
        )
        above, below = above + np.maximum(np.nan_to_num(y), 0), below + np.minimum(np.nan_to_num(y), 0)
    _name_places(axes, chart.categories)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    axes.set_xlim(-0.6, len(places) - 0.4)
    _whole(chart, axes)
    second = None
    if chart.line is not None:
        second, slot = axes.twinx(), len(chart.series) if chart.line.slot is None else chart.line.slot
        second.errorbar(
            places,
            _numbers(chart.line.y),
            yerr=_whiskers(chart.line),
            capsize=3,
            color=colour(slot),
            marker=marker(slot),
            linewidth=1.6,
            label=_name(chart.line.name),
        )
        second.set_ylabel(_literal(chart.line_label))
        second.spines["top"].set_visible(False)
    _finish(axes, second)


def _name_places(axes: Axes, names: Sequence[str]) -> None:
    """Write names along x: level if they are short, else upright, and none of too many."""
    if len(names) > NAMED:
        axes.set_xticks([])
        return
    shown = [_name(name) for name in names]
    upright = max((len(name) for name in names), default=0) * len(names) > 70
    axes.set_xticks(range(len(names)), shown, rotation=90 if upright else 0, fontsize=7 if len(names) > 20 else 8)


def _heat_map(chart: HeatMap, axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    values = np.array([_numbers(row) for row in chart.values]).reshape(len(chart.rows), len(chart.columns))
    low, high = chart.limits or (None, None)
    square = len(chart.rows) == len(chart.columns)
    picture = axes.imshow(
        values, cmap="viridis", interpolation="nearest", vmin=low, vmax=high, aspect="equal" if square else "auto"
    )
    axes.figure.colorbar(picture, ax=axes, label=_literal(chart.unit))
    _name_places(axes, chart.columns)
    if len(chart.rows) > NAMED:
        axes.set_yticks([])
    else:
        size = 7 if len(chart.rows) > 20 else 8
        axes.set_yticks(range(len(chart.rows)), [_name(name) for name in chart.rows], fontsize=size)
    axes.set(xlabel=_literal(chart.column_label), ylabel=_literal(chart.row_label))
    start = 0
    for end in range(1, len(chart.groups) + 1):
        if end == len(chart.groups) or chart.groups[end] != chart.groups[start]:
            corner = (start - 0.5, start - 0.5)
            for edge, thick in (("black", 3.2), ("white", 1.6)):
                axes.add_patch(Rectangle(corner, end - start, end - start, fill=False, edgecolor=edge, linewidth=thick))
            start = end


def _scatter(chart: Scatter, axes: Axes) -> None:
    named: list[int | None] = [*range(len(chart.groups)), None]
    for group in named if chart.groups else [None]:
        mine = [p for p in chart.points if p.group == group and p.x is not None and p.y is not None]
        name = "in no group" if group is None else chart.groups[group]
        if mine:
            axes.scatter(
                _numbers(tuple(p.x for p in mine)),
                _numbers(tuple(p.y for p in mine)),
                color=colour(group if chart.groups else 0),
                marker=marker(group),
                edgecolor="black",
                linewidth=0.5,
                s=44,
                label=_name(name) if chart.groups else None,
            )
    for name, x, y in _apart(chart):
        axes.annotate(_name(name), (x, y), xytext=(5, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    if chart.map:
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
    _finish(axes)


def _apart(chart: Scatter) -> list[tuple[str, float, float]]:
    """Return the points whose names can be written without touching another name, roughly."""
    measured = [(p.name, p.x, p.y) for p in chart.points if p.x is not None and p.y is not None]
    if not measured:
        return []
    wide, high = (max(np.ptp([point[axis] for point in measured]), 1e-12) for axis in (1, 2))
    if chart.map:  # which has one scale for both axes
        wide = high = max(wide, high)
    chosen: list[tuple[str, float, float]] = []
    for name, x, y in measured:
        if all(abs(x - a) / wide > 0.015 * min(len(name), LONG) or abs(y - b) / high > 0.035 for _, a, b in chosen):
            chosen.append((name, x, y))
    return chosen


def _dendrogram(chart: Dendrogram, axes: Axes) -> None:
    for merge in chart.merges:
        axes.plot(
            [merge.left, merge.left, merge.right, merge.right],
            [merge.left_height, merge.height, merge.height, merge.right_height],
            color=colour(merge.group),
            linewidth=1.5,
        )
    for group, name in enumerate(chart.groups):
        places = [place for place, leaf in enumerate(chart.leaf_groups) if leaf == group]
        axes.plot(
            places,
            [0] * len(places),
            marker(group),
            color=colour(group),
            markersize=5 if len(chart.names) <= NAMED else 2.5,
            clip_on=False,
            label=_name(name),
        )
    if chart.cut is not None:
        axes.axhline(chart.cut, color="black", linestyle="--", linewidth=1)
        axes.annotate(
            f"cut: {chart.cut:.{chart.digits}f}",
            (0.995, chart.cut),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    _name_places(axes, chart.names)
    axes.set(xlabel="clients, in the order of the tree", ylabel=_literal(chart.unit))
    axes.set_ylim(bottom=0)
    _finish(axes)


def _distribution(chart: Distribution, axes: Axes) -> None:
    for row, sample in enumerate(chart.samples):
        values = _numbers(sample.values)
        measured = values[np.isfinite(values)]
        if not len(measured):
            axes.annotate("not measured", (0.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8)
            continue
        places = np.full(len(values), float(row)) + 0.28 * (np.arange(len(values)) * 0.618 % 1 - 0.5)
        worst, mean = worst_of(sample.values, chart.worst)
        others = [i for i in range(len(values)) if i not in worst]
        axes.boxplot(
            measured,
            positions=[row],
            orientation="horizontal",
            widths=0.5,
            showfliers=False,
            medianprops={"color": "black"},
            manage_ticks=False,
        )
        axes.plot(values[others], places[others], "o", color=COLOURS[0], markersize=4, alpha=0.6)
        axes.plot(values[worst], places[worst], "v", color=COLOURS[1], markersize=6)
        if mean is not None:
            label = f"the worst {100 * chart.worst:g} %, and their mean" if row == 0 else None
            axes.plot([mean, mean], [row - 0.35, row + 0.35], "--", color=COLOURS[1], linewidth=1.4, label=label)
    axes.set_yticks(range(len(chart.samples)), [_name(sample.name) for sample in chart.samples])
    axes.set_ylim(len(chart.samples) - 0.4, -0.6)
    axes.set_xlabel(_literal(chart.x_label))
    _finish(axes)


def _finish(axes: Axes, second: Axes | None = None) -> None:
    """Add the grid, and the legend beside the picture where there is more than one thing."""
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines["top"].set_visible(False)
    if second is None:
        axes.spines["right"].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    more = second.get_legend_handles_labels() if second is not None else ([], [])
    if labels or more[1]:
        axes.legend(
            [*handles, *more[0]],
            [*labels, *more[1]],
            loc="upper left",
            bbox_to_anchor=(1.1 if second is not None else 1.01, 1),
            frameon=False,
            fontsize=8,
        )


PAINTERS: dict[type[Chart], tuple[Callable[[Any, Axes], None], Callable[[Any], tuple[float, float]]]] = {
    Lines: (_lines, lambda chart: (7.2, 4.2)),
    Bars: (_bars, lambda chart: (min(max(6.4, 0.22 * len(chart.categories)), 14), 4.2)),
    HeatMap: (
        _heat_map,
        lambda chart: (6.4, 5.4) if len(chart.rows) == len(chart.columns) else (8.4, min(3 + 0.1 * len(chart.rows), 9)),
    ),
    Scatter: (_scatter, lambda chart: (6.8, 4.8)),
    Dendrogram: (_dendrogram, lambda chart: (8.4, 4.2)),
    Distribution: (_distribution, lambda chart: (7.2, 1.6 + 0.9 * len(chart.samples))),
}

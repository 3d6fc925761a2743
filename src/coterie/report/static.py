"""The charts of a page as picture files: PNG, SVG, PDF."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import CoterieError, suggestion
from coterie.files import new_files
from coterie.report.picture_files import FORMATS, check_formats, write, write_picture
from coterie.results import charts
from coterie.results.charts import Chart, Series, Values
from coterie.results.display_names import DISPLAY_NAMES, display_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

# Okabe and Ito's palette, which colour-blind people can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv*P"
GREY = "#767b85"
DASHES = ("-", "--", ":", "-.")
LONG = 28
"""Longer names are shortened."""
NAMED = 60
"""With more clients than this, names are left out."""
Style = dict[str, Any]


def save(page: charts.Page, folder: Path, formats: Sequence[str] = FORMATS, overwrite: bool = False) -> list[Path]:
    """Write every chart of a page into a folder, by the names of `figures`; return the paths. Tables are left out."""
    check_formats(formats)
    with new_files(folder, overwrite) as place:
        written = [file for name, chart in figures(page).items() for file in write(paint(chart), place / name, formats)]
    return [folder / file.name for file in written]


def save_one(page: charts.Page, file: Path, name: str | None = None) -> str:
    """Write one chart of a page into a file, by default that of the metric over rounds or values; return its name."""
    named = figures(page)
    if not named:
        raise CoterieError("there is no chart to draw yet: 'coterie report' says what is missing")
    usual = (each for each in named if "-over-rounds-" in each or "-over-the-values-" in each)
    chosen = name or next(usual, next(iter(named)))
    if chosen not in named:
        raise CoterieError(f"there is no figure '{chosen}': {suggestion(chosen, named)}")
    write_picture(paint(named[chosen]), file)
    return chosen


def figures(page: charts.Page) -> dict[str, Chart]:
    """Return the charts of a page by names for files, which papers can rely on.

    A name is made of the section's heading and of the variant, such as the protocol; of the kind of chart where there
    is none. Neither the numbers nor what else is on the page change it.
    """
    named: dict[str, Chart] = {}
    for section in page.sections:
        for block in section.blocks:
            variants = block.variants if isinstance(block, charts.Switch) else [("", block)]
            for variant, chart in variants:
                if type(chart) in PAINTERS:
                    named[_name_for(section.heading, variant, chart, named)] = chart
    return named


def _name_for(heading: str, variant: str, chart: Chart, taken: Collection[str]) -> str:
    """Return the name of a chart: with its kind, and then a number, where others have it already."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(chart).__name__)
    first, second = slug(f"{heading} {variant or kind}"), slug(f"{heading} {variant} {kind}")
    names = (first, second, *(f"{second}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def paint(chart: Chart) -> Figure:
    """Draw one chart."""
    from matplotlib.figure import Figure

    painter, size = PAINTERS[type(chart)]
    figure = Figure(figsize=size(chart), layout="constrained")
    painter(chart, figure.add_subplot(title=_literal(chart.title)))
    figure.axes[0].title.set_fontsize(10)
    return figure


def paint_grid(rows: Sequence[Sequence[Chart | None]], size: tuple[float, float]) -> Figure:
    """Draw charts in rows and columns, each of a size in inches; None leaves a place free."""
    from matplotlib.figure import Figure

    columns = len(rows[0])
    figure = Figure(figsize=(size[0] * columns, size[1] * len(rows)), layout="constrained")
    places = figure.subplots(len(rows), columns, squeeze=False)
    for axes, chart in zip(places.flat, [chart for row in rows for chart in row], strict=True):
        axes.set_visible(chart is not None)
        if chart is not None:
            PAINTERS[type(chart)][0](chart, axes)
            axes.set_title(_literal(chart.title), fontsize=9)
    return figure


def colour(slot: int | None) -> str:
    """Return the colour of a group or series; grey for none."""
    return GREY if slot is None else COLOURS[slot % len(COLOURS)]


def marker(slot: int | None) -> str:
    """Return its marker, so that no two of the first 49 look alike."""
    return "o" if slot is None else MARKERS[(slot + slot // len(COLOURS)) % len(MARKERS)]


def slug(text: str) -> str:
    """Return a text as part of a file's name."""
    words = re.sub(r"\+(?!\w)", " plus", text).lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:60] or "chart"


def _literal(text: str) -> str:
    """Return a text that matplotlib shows as it is, dollar signs included."""
    return text.replace("$", r"\$")


def _name(text: str) -> str:
    """Return a name, of a method as papers call it, shortened if it would take the room of the picture."""
    text = display_name(text) if text.partition(":")[0] in DISPLAY_NAMES else text
    return _literal(text if len(text) <= LONG else text[: LONG - 1] + "…")


def _numbers(values: Values) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _lines(chart: charts.Lines, axes: Axes) -> None:
    for place, series in enumerate(chart.series):
        slot = place if series.slot is None else series.slot
        x, y = _numbers(series.x), _numbers(series.y)
        dashes = DASHES[slot // len(COLOURS) % len(DASHES)]
        style: Style = {"color": colour(slot), "linestyle": dashes, "linewidth": 1.6, "label": _name(series.name)}
        points: Style = {"marker": marker(slot), "markevery": max(len(x) // 20, 1), "markersize": 4}
        axes.plot(x, y, **style, **points)
        if series.low and series.high:
            low, high = _numbers(series.low), _numbers(series.high)
            axes.fill_between(x, low, high, color=colour(slot), alpha=0.2, linewidth=0)
    for mark in chart.marks:
        if mark.axis == "x":
            axes.axvline(mark.at, color="black", linestyle="--", linewidth=1)
            small: Style = {"textcoords": "offset points", "fontsize": 8}
            axes.annotate(_literal(mark.text), (mark.at, 0.03), (4, 0), ("data", "axes fraction"), **small)
        else:
            _level(axes, mark.at, mark.text)
    if chart.log_x:
        axes.set_xscale("log")
    elif all(x is not None and float(x).is_integer() for series in chart.series for x in series.x):
        axes.xaxis.set_major_locator(_whole_numbers())
    if all(y is None for series in chart.series for y in series.y):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    if chart.limits:
        axes.set_ylim(*chart.limits)
    _whole(chart, axes)
    finish(axes)


def _level(axes: Axes, at: float, text: str) -> None:
    """Draw a line across at a height, with a few words at its right end."""
    axes.axhline(at, color="black", linestyle="--", linewidth=1)
    small: Style = {"textcoords": "offset points", "fontsize": 8, "ha": "right"}
    axes.annotate(_literal(text), (0.99, at), (0, 3), ("axes fraction", "data"), **small)


def _whole(chart: charts.Lines | charts.Bars, axes: Axes) -> None:
    """Put whole numbers only at the y axis where there are no others."""
    if chart.digits == 0:
        axes.yaxis.set_major_locator(_whole_numbers())


def _whole_numbers() -> MaxNLocator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)


def _whiskers(series: Series) -> Any:
    if not (series.low and series.high):
        return None
    y = _numbers(series.y)
    return np.nan_to_num(np.stack([y - _numbers(series.low), _numbers(series.high) - y]))


def _bars(chart: charts.Bars, axes: Axes) -> None:
    places, above, below = np.arange(len(chart.categories)), 0.0, 0.0
    width = 0.8 / (1 if chart.stacked else max(len(chart.series), 1))
    for place, series in enumerate(chart.series):
        y, slot = np.nan_to_num(_numbers(series.y)), place if series.slot is None else series.slot
        shift = 0.0 if chart.stacked else (place - (len(chart.series) - 1) / 2) * width
        bottom = np.where(y < 0, below, above) if chart.stacked else 0
        pale = (1, 0.55, 0.25)[slot // len(COLOURS) % 3]
        style: Style = {"color": colour(slot), "alpha": pale, "edgecolor": "black", "linewidth": 0.4, "capsize": 3}
        axes.bar(places + shift, y, width, bottom, yerr=_whiskers(series), label=_name(series.name), **style)
        above, below = above + np.maximum(y, 0), below + np.minimum(y, 0)
    _name_places(axes.xaxis, chart.categories)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    axes.set_xlim(-0.6, len(places) - 0.4)
    _whole(chart, axes)
    second = None
    if chart.line is not None:
        line, second = chart.line, axes.twinx()
        slot = len(chart.series) if line.slot is None else line.slot
        style = {"color": colour(slot), "marker": marker(slot), "linewidth": 1.6, "capsize": 3}
        second.errorbar(places, _numbers(line.y), yerr=_whiskers(line), label=_name(line.name), **style)
        second.set_ylabel(_literal(chart.line_label))
        second.spines["top"].set_visible(False)
    finish(axes, second)


def _name_places(axis: Axis, names: Sequence[str], upright: bool = True) -> None:
    """Write names along an axis: level if they are short, else upright where that is allowed, and none of too many."""
    if len(names) > NAMED:
        axis.set_ticks([])
        return
    labels = [_name(name) for name in names]
    rotation = 90 if upright and max(map(len, names), default=0) * len(names) > 70 else 0
    axis.set_ticks(range(len(names)), labels, rotation=rotation, fontsize=7 if len(names) > 20 else 8)


def _heat_map(chart: charts.HeatMap, axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    values = np.array([_numbers(row) for row in chart.values]).reshape(len(chart.rows), len(chart.columns))
    low, high = chart.limits or (None, None)
    square = len(chart.rows) == len(chart.columns)
    picture = axes.imshow(
        values, cmap="viridis", interpolation="nearest", vmin=low, vmax=high, aspect="equal" if square else "auto"
    )
    axes.figure.colorbar(picture, ax=axes, label=_literal(chart.unit))
    _name_places(axes.xaxis, chart.columns)
    _name_places(axes.yaxis, chart.rows, upright=False)
    axes.set(xlabel=_literal(chart.column_label), ylabel=_literal(chart.row_label))
    start = 0
    for end in range(1, len(chart.groups) + 1):
        if end == len(chart.groups) or chart.groups[end] != chart.groups[start]:
            corner = (start - 0.5, start - 0.5)
            for edge, thick in (("black", 3.2), ("white", 1.6)):
                axes.add_patch(Rectangle(corner, end - start, end - start, fill=False, edgecolor=edge, linewidth=thick))
            start = end


def _scatter(chart: charts.Scatter, axes: Axes) -> None:
    numbers: list[int | None] = [*range(len(chart.groups)), None]
    for group in numbers:
        places = [(p.x, p.y) for p in chart.points if p.group == group and p.x is not None and p.y is not None]
        name = "in no group" if group is None else chart.groups[group]
        style: Style = {"color": colour(group if chart.groups else 0), "marker": marker(group), "edgecolor": "black"}
        if places:
            label = _name(name) if chart.groups else None
            across, up = zip(*places, strict=True)
            axes.scatter(across, up, 44, linewidth=0.5, label=label, **style)
    for name, x, y in _readable_names(chart):
        axes.annotate(_name(name), (x, y), xytext=(5, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel=_literal(chart.x_label), ylabel=_literal(chart.y_label))
    if chart.map:
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
    finish(axes)


def _readable_names(chart: charts.Scatter) -> list[tuple[str, float, float]]:
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


def _dendrogram(chart: charts.Dendrogram, axes: Axes) -> None:
    for merge in chart.merges:
        heights = [merge.left_height, merge.height, merge.height, merge.right_height]
        places = [merge.left, merge.left, merge.right, merge.right]
        axes.plot(places, heights, color=colour(merge.group), linewidth=1.5)
    size = 5 if len(chart.names) <= NAMED else 2.5
    for group, name in enumerate(chart.groups):
        leaves = [place for place, leaf in enumerate(chart.leaf_groups) if leaf == group]
        style: Style = {"color": colour(group), "markersize": size, "label": _name(name)}
        axes.plot(leaves, [0] * len(leaves), marker(group), clip_on=False, **style)
    if chart.cut is not None:
        _level(axes, chart.cut, f"cut: {chart.cut:.{chart.digits}f}")
    _name_places(axes.xaxis, chart.names)
    axes.set(xlabel="clients, in the order of the tree", ylabel=_literal(chart.unit))
    axes.set_ylim(bottom=0)
    finish(axes)


def _distribution(chart: charts.Distribution, axes: Axes) -> None:
    for row, sample in enumerate(chart.samples):
        values = _numbers(sample.values)
        measured = values[np.isfinite(values)]
        if not len(measured):
            axes.annotate("not measured", (0.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8)
            continue
        places = np.full(len(values), float(row)) + 0.28 * (np.arange(len(values)) * 0.618 % 1 - 0.5)
        worst, mean = charts.worst_of(sample.values, chart.worst)
        others = [i for i in range(len(values)) if i not in worst]
        box: Style = {"orientation": "horizontal", "widths": 0.5, "medianprops": {"color": "black"}}
        axes.boxplot(measured, positions=[row], showfliers=False, manage_ticks=False, **box)
        axes.plot(values[others], places[others], "o", color=COLOURS[0], markersize=4, alpha=0.6)
        axes.plot(values[worst], places[worst], "v", color=COLOURS[1], markersize=6)
        if mean is not None:
            label = f"the worst {100 * chart.worst:g} %, and their mean" if row == 0 else None
            axes.plot([mean, mean], [row - 0.35, row + 0.35], "--", color=COLOURS[1], linewidth=1.4, label=label)
    axes.set_yticks(range(len(chart.samples)), [_name(sample.name) for sample in chart.samples])
    axes.set_ylim(len(chart.samples) - 0.4, -0.6)
    axes.set_xlabel(_literal(chart.x_label))
    finish(axes)


def finish(axes: Axes, second: Axes | None = None) -> None:
    """Add the grid, and the legend beside the picture where there is more than one thing."""
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines["top"].set_visible(False)
    if second is None:
        axes.spines["right"].set_visible(False)
    parts = [part.get_legend_handles_labels() for part in (axes, second) if part is not None]
    handles = [handle for part in parts for handle in part[0]]
    labels = [label for part in parts for label in part[1]]
    if labels:
        corner = (1.01 if second is None else 1.1, 1)
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=corner, frameon=False, fontsize=8)


PAINTERS: dict[type[Chart], tuple[Callable[[Any, Axes], None], Callable[[Any], tuple[float, float]]]] = {
    charts.Lines: (_lines, lambda chart: (7.2, 4.2)),
    charts.Bars: (_bars, lambda chart: (min(max(6.4, 0.22 * len(chart.categories)), 14), 4.2)),
    charts.HeatMap: (
        _heat_map,
        lambda chart: (6.4, 5.4) if len(chart.rows) == len(chart.columns) else (8.4, min(3 + 0.1 * len(chart.rows), 9)),
    ),
    charts.Scatter: (_scatter, lambda chart: (6.8, 4.8)),
    charts.Dendrogram: (_dendrogram, lambda chart: (8.4, 4.2)),
    charts.Distribution: (_distribution, lambda chart: (7.2, 1.6 + 0.9 * len(chart.samples))),
}

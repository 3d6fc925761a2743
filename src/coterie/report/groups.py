"""Groups as a table and as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, number_of_groups
from coterie.report.static import paint, write
from coterie.report.text_table import TextTable, printed
from coterie.results.charts import Chart, HeatMap, Lines, Mark, Series, tree_of, values

FORMATS = ("png", "svg")


def groups_table(
    grouping: Grouping,
    clients: Sequence[int],
    counts: npt.NDArray[np.int64],
    true_groups: Sequence[int] | None,
    title: str,
) -> str:
    """Return a row per group: its clients, and the labels of their samples."""
    rows = []
    for group in range(grouping.n_groups):
        members = grouping.members(group)
        truth = [] if true_groups is None else [shares([true_groups[i] for i in members])]
        who = shortened(sorted(clients[i] for i in members))
        numbers = [str(group), str(len(members)), f"{counts[members].sum():,}"]
        rows.append([*numbers, who, profile(counts[members].sum(axis=0)), *truth])
    texts = ["who", "labels of their samples", *(["true groups"] if true_groups is not None else [])]
    table = TextTable(["group", "clients", "samples", *texts], rows, left=texts)
    many = "1 group" if grouping.n_groups == 1 else f"{grouping.n_groups} groups"
    sure = "" if grouping.confidence is None else f", confidence {grouping.confidence:.2f}"
    cut = f", cut at {grouping.threshold:.3g} {grouping.unit}" if len(grouping.tree) else ""
    return printed([f"{title}: {many} by rule '{grouping.rule}'{cut}{sure}", grouping.reason], table)


def profile(counts: npt.NDArray[np.int64], most: int = 5) -> str:
    """Write which labels there are, the frequent ones first, with their share of the samples.

    >>> profile(np.array([5, 0, 15]))
    '2: 75 %, 0: 25 %'
    """
    total, present = counts.sum(), np.flatnonzero(counts)
    if len(present) > most and counts[present].max() < 1.5 * counts[present].mean():
        return f"{len(present)} labels, evenly"
    order = present[np.argsort(-counts[present], kind="stable")]
    shown = ", ".join(f"{label}: {100 * counts[label] / total:.0f} %" for label in order[:most])
    return shown + (f" and {len(order) - most} more" if len(order) > most else "")


def draw(grouping: Grouping, title: str, folder: Path, clients: Sequence[int] | None = None) -> list[Path]:
    """Write the pictures of a grouping; return their paths. `clients` are who is at its positions."""
    if len(grouping.tree) == 0:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    names = [str(client) for client in (range(len(grouping.labels)) if clients is None else clients)]
    labels, unit = grouping.labels.tolist(), describe_unit(grouping.unit)
    charts: dict[str, Chart] = {}
    if grouping.proximity is not None:
        charts["proximity"] = proximity_map(grouping.proximity, grouping.tree, labels, names, title=title, unit=unit)
    charts["dendrogram"] = tree_of(grouping.tree, names, labels, title=title, unit=unit, cut=grouping.threshold)
    written = [file for name, chart in charts.items() for file in write(paint(chart), folder / name, FORMATS)]
    return [*written, *write(_thresholds(grouping, title), folder / "thresholds", FORMATS)]


def proximity_map(
    proximity: npt.ArrayLike,
    tree: npt.ArrayLike,
    labels: Sequence[int],
    names: Sequence[str],
    *,
    title: str,
    unit: str,
    note: str = "",
) -> HeatMap:
    """Return the proximities of clients in the order of their tree, or where there is none of their groups."""
    from scipy.cluster.hierarchy import leaves_list

    linkage, distances = np.asarray(tree, np.float64).reshape(-1, 4), np.asarray(proximity, np.float64)
    order = leaves_list(linkage).tolist() if len(linkage) else sorted(range(len(distances)), key=lambda i: labels[i])
    who = tuple(str(names[i]) for i in order)
    return HeatMap(
        title=title,
        rows=who,
        columns=who,
        values=tuple(values(distances[i][order]) for i in order),
        unit=unit,
        row_label="client",
        column_label="client",
        groups=tuple(labels[i] for i in order),
        note=note,
    )


def _thresholds(grouping: Grouping, title: str) -> Any:
    """Draw how many groups other cuts would give."""
    heights, cut = grouping.heights, grouping.threshold
    at = np.unique(np.r_[0.0, heights, cut, max(float(heights[-1]), cut) * 1.08 or 1.0])
    counts = number_of_groups(grouping.tree, at)
    chart = Lines(
        title=title,
        x_label=f"threshold ({describe_unit(grouping.unit)})",
        y_label="number of groups",
        series=(Series(name="groups", x=values(np.repeat(at, 2)[1:]), y=values(np.repeat(counts, 2)[:-1])),),
        marks=(Mark(at=cut, text=f"cut: {cut:.3g}"),),
        digits=0,
    )
    figure = paint(chart)
    if grouping.n_groups < len(heights) + 1 and len(heights) > 9:
        figure.axes[0].set_yscale("log")
        figure.axes[0].yaxis.set_major_formatter("{x:.0f}")
    return figure


def describe_unit(unit: str) -> str:
    """Write a unit of distances out."""
    return {"degrees": "angle in degrees", "times noise": "distance, in times the noise"}.get(unit, unit)


def shortened(clients: Sequence[int]) -> str:
    """Write the first clients, and the last."""
    shown = [str(client) for client in clients[:8]]
    return " ".join(shown) + (f" … {clients[-1]}" if len(clients) > 8 else "")


def shares(groups: Sequence[int]) -> str:
    """Write which groups there are, with how many clients each has."""
    values, counts = np.unique(groups, return_counts=True)
    return ", ".join(
        f"{value} ({count})" if len(values) > 1 else str(value) for value, count in zip(values, counts, strict=True)
    )

"""Groups as a table and as pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, number_of_groups
from coterie.report.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
GREY = "#8a8a8a"
LEAVES = 200
"""More clients than this are drawn as so many branches."""


def groups_table(
    grouping: Grouping,
    clients: Sequence[int],
    counts: npt.NDArray[np.int64],
    true_groups: Sequence[int] | None,
    title: str,
) -> str:
    """Return a row per group: its clients, and the labels of their samples."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("group", "clients", "samples"):
        table.add_column(heading, justify="right")
    table.add_column("who", max_width=34)
    table.add_column("labels of their samples")
    if true_groups is not None:
        table.add_column("true groups")
    for group in range(grouping.n_groups):
        members = grouping.members(group)
        truth = [] if true_groups is None else [shares([true_groups[i] for i in members])]
        table.add_row(
            str(group),
            str(len(members)),
            f"{counts[members].sum():,}",
            shortened(sorted(clients[i] for i in members)),
            profile(counts[members].sum(axis=0)),
            *truth,
        )
    text = io.StringIO()
    console = Console(file=text, width=110, highlight=False, markup=False)
    many = "1 group" if grouping.n_groups == 1 else f"{grouping.n_groups} groups"
    sure = "" if grouping.confidence is None else f", confidence {grouping.confidence:.2f}"
    cut = f", cut at {grouping.threshold:.3g} {grouping.unit}" if len(grouping.tree) else ""
    console.print(f"{title}: {many} by rule '{grouping.rule}'{cut}{sure}")
    console.print(grouping.reason)
    console.print(table)
    return text.getvalue()


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
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    names = [str(client) for client in (range(len(grouping.labels)) if clients is None else clients)]
    written = []
    for name, painter, size in (
        ("proximity", _heat_map, (6.4, 5.4)),
        ("dendrogram", _dendrogram, (8.4, 4.2)),
        ("thresholds", _thresholds, (6.4, 4.0)),
    ):
        if len(grouping.tree) == 0 or (name == "proximity" and grouping.proximity is None):
            continue
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        painter(grouping, names, axes, figure)
        axes.set_title(title, fontsize=10)
        for kind in FORMATS:
            path = folder / f"{name}.{kind}"
            figure.savefig(path, dpi=130)
            written.append(path)
    return written


def order_of_tree(grouping: Grouping) -> npt.NDArray[np.int64]:
    """Return the clients in the order of the tree's leaves, in which groups stand together."""
    from scipy.cluster.hierarchy import leaves_list

    return np.asarray(leaves_list(grouping.tree), np.int64)


def _heat_map(grouping: Grouping, names: Sequence[str], axes: Axes, figure: Figure) -> None:
    """Proximities in the order of the tree, with a frame around each group."""
    from matplotlib.patches import Rectangle

    proximity = grouping.proximity
    assert proximity is not None
    order = order_of_tree(grouping)
    picture = axes.imshow(proximity[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    figure.colorbar(picture, ax=axes, label=describe_unit(grouping.unit))
    labels = grouping.labels[order]
    starts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
        axes.add_patch(
            Rectangle(
                (start - 0.5, start - 0.5), end - start, end - start, fill=False, edgecolor="white", linewidth=1.6
            )
        )
    if len(order) <= 40:
        axes.set_xticks(range(len(order)), [names[i] for i in order], fontsize=7, rotation=90)
        axes.set_yticks(range(len(order)), [names[i] for i in order], fontsize=7)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set(xlabel="clients, in the order of the tree", ylabel="clients")


def _dendrogram(grouping: Grouping, names: Sequence[str], axes: Axes, figure: Figure) -> None:
    """The merges, those inside a group in its colour, and the cut."""
    from scipy.cluster.hierarchy import dendrogram

    n = len(grouping.tree) + 1
    owner = _owners(grouping)
    many: dict[str, Any] = {"truncate_mode": "lastp", "p": LEAVES, "show_leaf_counts": False} if n > LEAVES else {}
    dendrogram(
        grouping.tree,
        ax=axes,
        link_color_func=lambda k: GREY if owner[k] < 0 else COLOURS[owner[k] % len(COLOURS)],
        no_labels=n > 60,
        labels=list(names[:n]) if n <= LEAVES else None,
        leaf_font_size=8,
        **many,
    )
    axes.axhline(grouping.threshold, color="black", linestyle="--", linewidth=1)
    axes.annotate(
        f"cut: {grouping.threshold:.3g}",
        (1, grouping.threshold),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel="clients" if n <= LEAVES else f"branches of {n} clients", ylabel=describe_unit(grouping.unit))


def _owners(grouping: Grouping) -> list[int]:
    """Return the group that each merge lies in, or −1 for those between groups; clients first."""
    owner = [int(label) for label in grouping.labels[: len(grouping.tree) + 1]]
    for a, b in grouping.tree[:, :2].astype(int):
        owner.append(owner[a] if owner[a] == owner[b] else -1)
    return owner


def _thresholds(grouping: Grouping, names: Sequence[str], axes: Axes, figure: Figure) -> None:
    """How many groups other cuts would give."""
    heights = grouping.heights
    highest = max(float(heights[-1]), grouping.threshold) * 1.08 or 1.0
    at = np.unique(np.r_[0.0, heights, grouping.threshold, highest])
    axes.step(at, number_of_groups(grouping.tree, at), where="post", color=COLOURS[0], linewidth=1.6)
    axes.plot(grouping.threshold, number_of_groups(grouping.tree, grouping.threshold), "o", color=COLOURS[1])
    axes.axvline(grouping.threshold, color="black", linestyle="--", linewidth=1, label=f"cut: {grouping.threshold:.3g}")
    axes.set(xlabel=f"threshold ({describe_unit(grouping.unit)})", ylabel="number of groups", xlim=(0, highest))
    if grouping.n_groups < len(heights) + 1 and len(heights) > 9:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.0f}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


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

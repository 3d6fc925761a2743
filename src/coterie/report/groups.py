"""Groups of clients as a table, as pictures, and on a page: proximities, tree, map, and who holds which labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, number_of_groups
from coterie.errors import counted
from coterie.files import make_folder
from coterie.report.html_tables import html
from coterie.report.picture_files import write
from coterie.report.shown_clients import PLACES, ROWS, drawn_of, shown
from coterie.report.static import paint
from coterie.report.text_table import TextTable, printed
from coterie.results import charts
from coterie.results.charts import Block, Chart, Section, Table, classical_mds, completed_distances, tree_of, values
from coterie.results.client_columns import FEW
from coterie.results.names import NO_NAMES, Names
from coterie.results.protocols import EACH_CLIENT
from coterie.results.runs import StoredRun

FORMATS = ("png", "svg")
Ints = npt.NDArray[np.int64]


def groups_table(
    grouping: Grouping,
    clients: Sequence[int],
    counts: Ints,
    true_groups: Sequence[int] | None,
    title: str,
    names: Names = NO_NAMES,
) -> str:
    """Write a row per group: its clients, and the labels of their samples."""
    heading, table = _heading_and_table(grouping, clients, counts, true_groups, title, names)
    return printed([heading, grouping.reason], table)


def groups_html(
    grouping: Grouping,
    clients: Sequence[int],
    counts: Ints,
    true_groups: Sequence[int] | None,
    title: str,
    names: Names = NO_NAMES,
) -> str:
    """Write the same for a notebook."""
    heading, table = _heading_and_table(grouping, clients, counts, true_groups, title, names)
    return html(heading, [table], [grouping.reason])


def _heading_and_table(
    grouping: Grouping,
    clients: Sequence[int],
    counts: Ints,
    true_groups: Sequence[int] | None,
    title: str,
    names: Names,
) -> tuple[str, TextTable]:
    rows = []
    for group in range(grouping.n_groups):
        members = grouping.members(group)
        truth = [] if true_groups is None else [shares([true_groups[i] for i in members])]
        members_text = shortened(sorted(clients[i] for i in members), names)
        numbers = [str(group), str(len(members)), f"{counts[members].sum():,}"]
        rows.append([*numbers, members_text, profile(counts[members].sum(axis=0), names), *truth])
    texts = ["who", "labels of their samples", *(["true groups"] if true_groups is not None else [])]
    table = TextTable(["group", "clients", "samples", *texts], rows, left=texts)
    many = counted(grouping.n_groups, "group")
    sure = "" if grouping.confidence is None else f", confidence {grouping.confidence:.2f}"
    cut = f", cut at {grouping.threshold:.3g} {grouping.unit}" if len(grouping.tree) else ""
    return f"{title}: {many} by rule '{grouping.rule}'{cut}{sure}", table


def profile(counts: Ints, names: Names = NO_NAMES, most: int = 5) -> str:
    """Write which labels there are, the frequent ones first, with their share of the samples.

    >>> profile(np.array([5, 0, 15])), profile(np.array([5, 15]), Names(classes=("no", "yes")))
    ('2: 75 %, 0: 25 %', 'yes: 75 %, no: 25 %')
    """
    total, present = counts.sum(), np.flatnonzero(counts)
    if len(present) > most and counts[present].max() < 1.5 * counts[present].mean():
        return f"{len(present)} labels, evenly"
    order = present[np.argsort(-counts[present], kind="stable")]
    listed = ", ".join(f"{names.of_class(label)}: {100 * counts[label] / total:.0f} %" for label in order[:most])
    return listed + (f" and {len(order) - most} more" if len(order) > most else "")


def draw(grouping: Grouping, title: str, folder: Path, clients: Sequence[int] | None = None) -> list[Path]:
    """Write the pictures of a grouping; return their paths. `clients` are who is at its positions."""
    pictures = grouping_charts(grouping, title, clients)
    if not pictures:
        return []
    make_folder(folder, flush=False)
    written = [file for name, chart in pictures.items() for file in write(paint(chart), folder / name, FORMATS)]
    if not len(grouping.tree):
        return written
    return [*written, *write(_thresholds(grouping, title), folder / "thresholds", FORMATS)]


def grouping_charts(grouping: Grouping, title: str, clients: Sequence[int] | None = None) -> dict[str, Chart]:
    """Return the charts of a grouping that it has the numbers for: ``proximity``, ``dendrogram``."""
    names = [str(client) for client in (range(len(grouping.labels)) if clients is None else clients)]
    labels, unit = grouping.labels.tolist(), describe_unit(grouping.unit)
    pictures: dict[str, Chart] = {}
    if grouping.proximity is not None:
        pictures["proximity"] = proximity_map(grouping.proximity, grouping.tree, labels, names, title=title, unit=unit)
    if len(grouping.tree):
        pictures["dendrogram"] = tree_of(grouping.tree, names, labels, title=title, unit=unit, cut=grouping.threshold)
    return pictures


def proximity_map(
    proximity: npt.ArrayLike,
    tree: npt.ArrayLike,
    labels: Sequence[int],
    names: Sequence[str],
    *,
    title: str,
    unit: str,
    note: str = "",
) -> charts.HeatMap:
    """Return the proximities of clients in the order of their tree, or where there is none of their groups."""
    from scipy.cluster.hierarchy import leaves_list

    linkage, distances = np.asarray(tree, np.float64).reshape(-1, 4), np.asarray(proximity, np.float64)
    order = leaves_list(linkage).tolist() if len(linkage) else sorted(range(len(distances)), key=lambda i: labels[i])
    ordered_names = tuple(str(names[i]) for i in order)
    return charts.HeatMap(
        title=title,
        rows=ordered_names,
        columns=ordered_names,
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
    at = np.unique(np.r_[0.0, heights, cut, max(float(heights.max(initial=0.0)), cut) * 1.08 or 1.0])
    counts = number_of_groups(grouping.tree, at)
    chart = charts.Lines(
        title=title,
        x_label=f"threshold ({describe_unit(grouping.unit)})",
        y_label="number of groups",
        series=(charts.Series(name="groups", x=values(np.repeat(at, 2)[1:]), y=values(np.repeat(counts, 2)[:-1])),),
        marks=(charts.Mark(at=cut, text=f"cut: {cut:.3g}"),),
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


def shortened(clients: Sequence[int], names: Names = NO_NAMES) -> str:
    """Write the first clients, and the last.

    >>> shortened([0, 2]), shortened([0, 2], Names(("Riverside", "St. Mary", "North")))
    ('0 2', 'Riverside, North')
    """
    first = (", " if names.clients else " ").join(names.of_client(client) for client in clients[:8])
    return first + (f" … {names.of_client(clients[-1])}" if len(clients) > 8 else "")


def shares(groups: Sequence[int]) -> str:
    """Write which groups there are, with how many clients each has."""
    values, counts = np.unique(groups, return_counts=True)
    return ", ".join(
        f"{value} ({count})" if len(values) > 1 else str(value) for value, count in zip(values, counts, strict=True)
    )


def groups_section(run: StoredRun, alone: bool) -> Section | None:
    """Show the groups of a run, if it has any; `alone`: it is the only one on the page."""
    if run.result is None or not run.groups:
        return None
    blocks: list[Block] = [_table(run), *_proximities(run)]
    counts = run.arrays.get("label_counts")
    if counts is not None:
        blocks.append(_profiles(run, counts))
    blocks += _memberships(run)
    texts = []
    if "proximity" not in run.arrays:
        texts.append(
            "No proximities of clients are known: the method forms groups without them, or they were not kept."
        )
    else:
        left = len([group for group in run.groups if group is not None]) - len(run.arrays["grouped"])
        if left > 0:
            texts.append(
                f"Proximities, tree and map are of the {len(run.arrays['grouped'])} clients that formed the groups; "
                f"{left} that were placed later are not on them."
            )
    return Section(heading="Groups" if alone else f"Groups of {run.name}", text=tuple(texts), blocks=tuple(blocks))


def _members(run: StoredRun) -> dict[int | None, list[int]]:
    """Return the clients of each group, in order, and last those in none; of very many groups the largest."""
    members: dict[int | None, list[int]] = {}
    for client, group in enumerate(run.groups or []):
        members.setdefault(group, []).append(client)
    alone = {None: members.pop(None)} if None in members else {}
    largest = sorted(members, key=lambda group: -len(members[group]))[:ROWS]
    return {group: members[group] for group in sorted(largest, key=lambda group: group or 0)} | alone


def _table(run: StoredRun) -> Table:
    counts, truth = run.arrays.get("label_counts"), run.true_groups
    fewer = f" The {ROWS} largest of {run.group_count} groups are shown." if (run.group_count or 0) > ROWS else ""
    rows: list[tuple[str | float | None, ...]] = []
    of_clients = [run.per_client(protocol) for protocol in EACH_CLIENT]
    for group, members in _members(run).items():
        means: list[float | None] = []
        for accuracies in of_clients:
            measured = [n for client in members if client < len(accuracies) and (n := accuracies[client]) is not None]
            means.append(sum(measured) / len(measured) if measured else None)
        name, who = "none" if group is None else str(group), shortened(members, run.names)
        cells: list[str | float] = [name, len(members), who]
        if counts is not None:
            cells += [int(counts[members].sum()), profile(counts[members].sum(axis=0), run.names)]
        cells += (
            [] if truth is None else [shares([group for client in members if (group := truth[client]) is not None])]
        )
        rows.append((*cells, *means))
    return Table(
        title="Groups",
        columns=(
            *("group", "clients", "who"),
            *([] if counts is None else ["samples", "labels of their samples"]),
            *([] if truth is None else ["true groups (clients)"]),
            *(f"{protocol}{run.scale.unit}" for protocol in EACH_CLIENT),
        ),
        rows=tuple(rows),
        note=f"L and C: mean over the group's evaluated clients that were there before training ended.{fewer}",
    )


def _proximities(run: StoredRun) -> list[Block]:
    """Show what clients were grouped by, where it was kept."""
    if "proximity" not in run.arrays:
        return []
    clients, labels = run.arrays["grouped"].tolist(), run.arrays["labels"].tolist()
    proximity = run.arrays["proximity"].astype(np.float64)
    grouping = (run.result or {}).get("grouping") or {}
    unit = describe_unit(grouping.get("unit") or "distance")
    tree = run.arrays["tree"]
    if len(tree) != len(clients) - 1 or len(clients) > FEW:  # it does not join them all, or has too many branches
        tree = tree[:0]
    fewer = drawn_of(len(clients), PLACES)
    chosen = shown(range(len(clients)), PLACES)
    clients, labels = [clients[i] for i in chosen], [labels[i] for i in chosen]
    proximity = proximity[np.ix_(chosen, chosen)]
    names = tuple(str(client) for client in clients)
    order = "the groups" if fewer else "the tree: neighbours are alike"
    note = f"In the order of {order}. Frames are groups; dark is near. {fewer}".strip()
    heat_map = proximity_map(proximity, tree, labels, names, title="Proximity of clients", unit=unit, note=note)
    blocks: list[Block] = [heat_map]
    if len(tree):
        title, cut = "Tree of merges", grouping.get("threshold")
        note = f"Merges below the cut were made. {grouping.get('reason') or ''}".strip()
        blocks.append(tree_of(tree, names, labels, title=title, unit=unit, cut=cut, note=note))
    return [*blocks, _map(run, clients, labels, proximity)]


def _map(run: StoredRun, clients: list[int], labels: list[int], proximity: npt.NDArray[np.float64]) -> Block:
    """Draw clients in a plane, coloured by the groups found, and by the true ones where these are known."""
    places = classical_mds(completed_distances(proximity - np.diag(np.diag(proximity))))

    def scatter(groups: Sequence[int], colouring: str) -> charts.Scatter:
        numbers = sorted(set(groups))
        return charts.Scatter(
            title=f"Map of clients, {colouring}",
            map=True,
            points=tuple(
                charts.Point(name=str(client), x=float(place[0]), y=float(place[1]), group=numbers.index(group))
                for client, place, group in zip(clients, places, groups, strict=True)
            ),
            groups=tuple(f"{'true ' * (colouring != 'groups found')}group {group}" for group in numbers),
            note="Numbers are clients. Distances are near the proximities (classical scaling); the axes mean nothing.",
        )

    by_method = scatter(labels, "groups found")
    known = [group for client in clients if run.true_groups and (group := run.true_groups[client]) is not None]
    if len(known) < len(clients):
        return by_method
    true = scatter(known, "true groups")
    return charts.Switch(label="Colours", variants=(("groups found", by_method), ("true groups", true)))


def _profiles(run: StoredRun, counts: Ints) -> charts.HeatMap:
    of_groups = {group: clients for group, clients in _members(run).items() if group is not None}
    sums = [counts[clients].sum(axis=0) for clients in of_groups.values()]
    return charts.HeatMap(
        title="Labels of each group",
        rows=tuple(f"group {group}" for group in of_groups),
        columns=tuple(str(label) for label in range(counts.shape[1])),
        values=tuple(values(100 * row / max(row.sum(), 1)) for row in sums),
        unit="share of the group's samples (%)",
        row_label="",
        column_label="label",
        digits=1,
        note="Training samples; known in a simulation only.",
    )


def _memberships(run: StoredRun) -> list[Block]:
    """Show shares of clients in several groups, where a method has them."""
    memberships = (run.result or {}).get("memberships")
    soft = [m for m in memberships or [] if isinstance(m, list) and any(isinstance(share, float) for share in m)]
    if not memberships or not soft:
        return []
    members = shown([client for client, m in enumerate(memberships) if m], PLACES)
    return [
        charts.HeatMap(
            title="Shares of clients in groups",
            rows=tuple(f"group {group}" for group in range(len(soft[0]))),
            columns=tuple(str(client) for client in members),
            values=tuple(values(memberships[client][group] for client in members) for group in range(len(soft[0]))),
            unit="share",
            column_label="client",
            limits=(0, 1),
            note=drawn_of(len(memberships), PLACES),
        )
    ]


def labels_section(runs: Sequence[StoredRun]) -> Section | None:
    """Show which client holds which labels, once for runs that have the same."""
    distinct: list[tuple[StoredRun, Ints]] = []
    for run in runs:
        counts = run.arrays.get("label_counts")
        if counts is not None and not any(np.array_equal(counts, other) for _, other in distinct):
            distinct.append((run, counts))
    blocks = []
    for run, counts in distinct:
        sorted_by = ", in order of groups" if run.groups else ", in order of the true groups" if run.true_groups else ""
        groups = run.groups or run.true_groups or [0] * len(counts)
        order = sorted(shown(range(len(counts)), PLACES), key=lambda c: (groups[c] is None, groups[c] or 0, c))
        blocks.append(
            charts.HeatMap(
                title="Labels of each client" + (f" ({run.name})" if len(distinct) > 1 else ""),
                rows=tuple(str(label) for label in range(counts.shape[1])),
                columns=tuple(str(client) for client in order),
                values=tuple(values(counts[order, label]) for label in range(counts.shape[1])),
                unit="training samples",
                row_label="label",
                column_label=f"client{sorted_by}",
                digits=0,
                note=f"Known in a simulation only. {drawn_of(len(counts), PLACES)}".strip(),
            )
        )
    return Section(heading="Who holds what", blocks=tuple(blocks)) if blocks else None

"""Groups of clients on a page: proximities, tree, map, and who holds which labels."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.report.groups import describe_unit, profile, proximity_map, shares, shortened
from coterie.results import charts
from coterie.results.charts import Block, Section, Table, classical_mds, tree_of, values
from coterie.results.protocols import EACH_CLIENT
from coterie.results.runs import StoredRun

Ints = npt.NDArray[np.int64]


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


def _groups(run: StoredRun) -> list[int]:
    return sorted({group for group in run.groups or [] if group is not None})


def _members(run: StoredRun, group: int | None) -> list[int]:
    return [client for client, its in enumerate(run.groups or []) if its == group]


def _table(run: StoredRun) -> Table:
    counts, truth = run.arrays.get("label_counts"), run.true_groups
    rows: list[tuple[str | float | None, ...]] = []
    for group in [*_groups(run), None]:
        who = _members(run, group)
        if not who:
            continue
        means: list[float | None] = []
        for protocol in EACH_CLIENT:
            each = run.per_client(protocol)
            measured = [n for client in who if client < len(each) and (n := each[client]) is not None]
            means.append(sum(measured) / len(measured) if measured else None)
        held = [] if counts is None else [int(counts[who].sum()), profile(counts[who].sum(axis=0))]
        true = [] if truth is None else [shares([truth[client] for client in who])]
        rows.append(("none" if group is None else str(group), len(who), shortened(who), *held, *true, *means))
    return Table(
        title="Groups",
        columns=(
            *("group", "clients", "who"),
            *([] if counts is None else ["samples", "labels of their samples"]),
            *([] if truth is None else ["true groups (clients)"]),
            *(f"{protocol} (%)" for protocol in EACH_CLIENT),
        ),
        rows=tuple(rows),
        note="L and C: mean over the group's clients that were there before training ended.",
    )


def _proximities(run: StoredRun) -> list[Block]:
    """Show what clients were grouped by, where it was kept."""
    if "proximity" not in run.arrays:
        return []
    who, labels = run.arrays["grouped"].tolist(), run.arrays["labels"].tolist()
    proximity = run.arrays["proximity"].astype(np.float64)
    names = tuple(str(client) for client in who)
    grouping = (run.result or {}).get("grouping") or {}
    unit = describe_unit(grouping.get("unit") or "distance")
    tree = run.arrays["tree"] if len(run.arrays["tree"]) == len(who) - 1 else []  # none that joins only some of them
    note = "In the order of the tree: neighbours are alike. Frames are groups; dark is near."
    near = proximity_map(proximity, tree, labels, names, title="Proximity of clients", unit=unit, note=note)
    blocks: list[Block] = [near]
    if len(tree):
        title, cut = "Tree of merges", grouping.get("threshold")
        note = f"Merges below the cut were made. {grouping.get('reason') or ''}".strip()
        blocks.append(tree_of(tree, names, labels, title=title, unit=unit, cut=cut, note=note))
    return [*blocks, _map(run, who, labels, proximity)]


def _map(run: StoredRun, who: list[int], labels: list[int], proximity: npt.NDArray[np.float64]) -> Block:
    """Draw clients in a plane, coloured by the groups found, and by the true ones where these are known."""
    places = classical_mds(proximity - np.diag(np.diag(proximity)))

    def drawn(groups: Sequence[int], what: str) -> charts.Scatter:
        numbers = sorted(set(groups))
        return charts.Scatter(
            title=f"Map of clients, {what}",
            map=True,
            points=tuple(
                charts.Point(name=str(client), x=float(place[0]), y=float(place[1]), group=numbers.index(group))
                for client, place, group in zip(who, places, groups, strict=True)
            ),
            groups=tuple(f"{'true ' * (what != 'groups found')}group {group}" for group in numbers),
            note="Numbers are clients. Distances are near the proximities (classical scaling); the axes mean nothing.",
        )

    by_method = drawn(labels, "groups found")
    if run.true_groups is None:
        return by_method
    true = drawn([run.true_groups[client] for client in who], "true groups")
    return charts.Switch(label="Colours", variants=(("groups found", by_method), ("true groups", true)))


def _profiles(run: StoredRun, counts: Ints) -> charts.HeatMap:
    groups = _groups(run)
    sums = [counts[_members(run, group)].sum(axis=0) for group in groups]
    return charts.HeatMap(
        title="Labels of each group",
        rows=tuple(f"group {group}" for group in groups),
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
    who = [client for client, m in enumerate(memberships) if m]
    return [
        charts.HeatMap(
            title="Shares of clients in groups",
            rows=tuple(f"group {group}" for group in range(len(soft[0]))),
            columns=tuple(str(client) for client in who),
            values=tuple(values(memberships[client][group] for client in who) for group in range(len(soft[0]))),
            unit="share",
            column_label="client",
            limits=(0, 1),
        )
    ]


def labels_section(runs: Sequence[StoredRun]) -> Section | None:
    """Show which client holds which labels, once for runs that have the same."""
    shown: list[tuple[StoredRun, Ints]] = []
    for run in runs:
        counts = run.arrays.get("label_counts")
        if counts is not None and not any(np.array_equal(counts, other) for _, other in shown):
            shown.append((run, counts))
    blocks = []
    for run, counts in shown:
        groups = run.groups or run.true_groups
        sorted_by = ", in order of groups" if run.groups else ", in order of the true groups" if groups else ""
        order = sorted(
            range(len(counts)), key=lambda c: (groups[c] is None, groups[c] or 0, c) if groups else (False, 0, c)
        )
        blocks.append(
            charts.HeatMap(
                title="Labels of each client" + (f" ({run.name})" if len(shown) > 1 else ""),
                rows=tuple(str(label) for label in range(counts.shape[1])),
                columns=tuple(str(client) for client in order),
                values=tuple(values(counts[order, label]) for label in range(counts.shape[1])),
                unit="training samples",
                row_label="label",
                column_label=f"client{sorted_by}",
                digits=0,
                note="Known in a simulation only.",
            )
        )
    return Section(heading="Who holds what", blocks=tuple(blocks)) if blocks else None

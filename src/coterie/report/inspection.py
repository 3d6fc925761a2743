"""How heterogeneous a federation is, as text, as a page and as pictures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.clustering import Grouping
from coterie.report.charts import (
    Chart,
    Fact,
    HeatMap,
    Page,
    Point,
    Scatter,
    Section,
    Table,
    tree_of,
    values,
)
from coterie.report.page import render
from coterie.report.static import PAINTERS, paint

SIMULATION = "simulation only"
ANYWHERE = "also for a real federation"


def _named(found: Mapping[str, Any]) -> str:
    """Name a federation; data that come divided have no partition of another name."""
    title, partition = found["title"], found["partition"]
    return str(title) if str(title).startswith(f"{partition},") else f"{title}, {partition}"


def inspection_text(found: Mapping[str, Any], groups: str) -> str:
    """Return mean and spread of each measure, the groups and the advice, for the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    others = found["against"]
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("measure")
    for heading in ("mean", "sd", "range", *others):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("made from")
    for name, measured in found["measures"].items():
        table.add_row(
            name,
            number(measured["mean"]),
            number(measured["sd"]),
            f"{number(measured['min'])} to {number(measured['max'])}",
            *(number(other["measures"][name]["mean"]) for other in others.values()),
            measured["unit"] + (" (1: alike)" if measured["similarity"] else ""),
            made_from(measured),
        )
    text = io.StringIO()
    console = Console(file=text, width=118, highlight=False, markup=False)
    console.print(f"{_named(found)}: how far pairs of clients are from each other")
    console.print(table)
    if others:
        console.print(f"Under {', '.join(others)}: the mean with that partition of the same data.")
    if any(not measured["real_federation"] for measured in found["measures"].values()):
        console.print("Measures made from samples look at what no client sends: they are for simulations.")
    console.print()
    console.print(groups.rstrip())
    console.print()
    if found["classes"] and "super_clusters" in found["classes"]:
        sets = "  ".join("{" + ", ".join(map(str, one)) + "}" for one in found["classes"]["super_clusters"])
        console.print(f"Super clusters of classes: {sets}. {found['classes']['reason']}")
        console.print()
    console.print(f"Advice: {found['advice']['sentence']}")
    return text.getvalue()


def write_inspection(found: Mapping[str, Any], grouping: Grouping, folder: Path) -> list[Path]:
    """Write the page and its pictures into a folder; return their paths."""
    page = folder / "inspection.html"
    page.write_text(render(inspection_page(found, grouping)), encoding="utf-8")
    written = [page]
    pictures: dict[str, Sequence[Chart]] = {"labels": [labels_chart(found)]}
    pictures |= {f"proximity-{name.replace('_', '-')}": heat_maps(found, name) for name in found["measures"]}
    pictures["clients"] = [clients_map(found)]
    if len(grouping.tree):
        pictures["dendrogram"] = [_tree(found, grouping)]
    if found["classes"]:
        pictures["classes"] = [classes_map(found["classes"])]
        if "angles" in found["classes"]:
            pictures["class-angles"] = [class_angles(found["classes"])]
    for name, charts in pictures.items():
        path = folder / f"{name}.png"
        side_by_side(charts).savefig(path, dpi=130)
        written.append(path)
    return written


def side_by_side(charts: Sequence[Chart]) -> Any:
    """Return a figure with charts beside each other."""
    from matplotlib.figure import Figure

    if len(charts) == 1:
        return paint(charts[0])
    figure = Figure(figsize=(4.9 * len(charts), 4.4), layout="constrained")
    for axes, chart in zip(figure.subplots(1, len(charts)), charts, strict=True):
        PAINTERS[type(chart)][0](chart, axes)
        axes.set_title(chart.title, fontsize=10)
    return figure


def inspection_page(found: Mapping[str, Any], grouping: Grouping) -> Page:
    """Return the page."""
    advice, classes = found["advice"], found["classes"]
    sections = [
        Section(
            heading="How far clients are apart",
            text=(
                "Mean and spread over all pairs of clients. Angles and labels come from what clients may send, and "
                "serve a real federation too; measures made from samples are for simulations.",
            ),
            blocks=(measures_table(found),),
        ),
        Section(
            heading="Which labels clients have",
            text=("Clients stand in the order of the tree of groups, those of a group beside each other.",),
            blocks=(labels_chart(found),),
        ),
    ]
    for name, measured in found["measures"].items():
        others = ", ".join(found["against"])
        beside = f" Beside it the same data divided by {others}; colours mean the same." if others else ""
        end = "Larger is more alike." if measured["similarity"] else "Larger is farther apart."
        sections.append(
            Section(
                heading=f"Proximities: {measured['title']}",
                text=(f"{_sentence(measured['says'])} {end} Made from {made_from(measured)}.{beside}",),
                blocks=tuple(heat_maps(found, name)),
            )
        )
    ari = found["grouping"]["ari"]
    agreement = "" if ari is None else f" Agreement with the true groups (ARI): {ari:.3f}."
    maps: list[Chart] = [clients_map(found)]
    if classes:
        maps.append(classes_map(classes))
    sections.append(
        Section(
            heading="Maps",
            text=(f"Made by {found['map_by']}: near is alike. Axes have no meaning of their own.",),
            blocks=tuple(maps),
        )
    )
    sections.append(
        Section(
            heading="Suggested groups",
            text=(found["grouping"]["reason"], f"Rule `{found['grouping']['rule']}`.{agreement}"),
            blocks=((_tree(found, grouping),) if len(grouping.tree) else ()) + (groups_table(found),),
        )
    )
    if classes and "angles" in classes:
        sets = "; ".join("{" + ", ".join(map(str, one)) + "}" for one in classes["super_clusters"])
        sections.append(
            Section(
                heading="Classes and their super clusters",
                text=(f"{classes['reason']} That makes {sets}. This looks at samples: {SIMULATION}.",),
                blocks=(class_angles(classes),),
            )
        )
    sections.append(
        Section(heading="The evidence for the advice", text=(advice["sentence"],), blocks=(evidence_table(advice),))
    )
    return Page(
        title=f"How heterogeneous is {_named(found)}?",
        summary=(advice["sentence"],),
        facts=(
            Fact(
                name="advice",
                value=advice["choice"] + (f", {advice['groups']} groups" * (advice["choice"] == "cluster")),
            ),
            Fact(name="clients", value=str(len(found["clients"]))),
            Fact(name="groups told apart", value=str(found["grouping"]["n_groups"])),
            *(
                Fact(name=f"mean {name}", value=f"{number(measured['mean'])} {measured['unit']}".strip())
                for name, measured in found["measures"].items()
            ),
        ),
        sections=tuple(sections),
    )


def measures_table(found: Mapping[str, Any]) -> Table:
    """Return mean and spread of each measure, and what it is."""
    others = found["against"]
    return Table(
        title="Measures between pairs of clients",
        columns=("measure", "mean", "sd", "min", "median", "max", *(f"mean, {name}" for name in others), "unit",
                 "made from", "what it says"),
        rows=tuple(
            (
                name,
                *(measured[key] for key in ("mean", "sd", "min")),
                measured["quartiles"][1],
                measured["max"],
                *(other["measures"][name]["mean"] for other in others.values()),
                measured["unit"],
                made_from(measured),
                measured["says"],
            )
            for name, measured in found["measures"].items()
        ),
        digits=3,
    )  # fmt: skip


def labels_chart(found: Mapping[str, Any]) -> HeatMap:
    """Return which share of each client's samples has which label."""
    counts = np.array(found["labels"], np.float64)[found["order"]]
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return HeatMap(
        title="Labels by client",
        rows=tuple(str(found["clients"][i]) for i in found["order"]),
        columns=tuple(map(str, range(counts.shape[1]))),
        values=tuple(values(row) for row in shares),
        unit="% of the client's samples",
        row_label="client",
        column_label="label",
        digits=0,
    )


def heat_maps(found: Mapping[str, Any], name: str) -> list[HeatMap]:
    """Return the proximities of a measure with each partition, all with one scale of colours."""
    views = {found["partition"]: found, **found["against"]}
    apart = [
        value
        for view in views.values()
        for i, row in enumerate(view["measures"][name]["matrix"])
        for j, value in enumerate(row)
        if i != j
    ]
    measured = found["measures"][name]
    return [
        HeatMap(
            title=title if len(views) > 1 else f"{measured['title']}, {title}",
            rows=tuple(str(view["clients"][i]) for i in view["order"]),
            columns=tuple(str(view["clients"][i]) for i in view["order"]),
            values=tuple(values(view["measures"][name]["matrix"][i][j] for j in view["order"]) for i in view["order"]),
            unit=f"{measured['title']}{', ' if measured['unit'] else ''}{measured['unit']}",
            row_label="client",
            column_label="client",
            groups=tuple(_group(view, i) for i in view["order"]),
            limits=(min(0.0, *apart), max(apart)) if not measured["similarity"] else (min(apart), 1.0),
        )
        for title, view in views.items()
    ]


def clients_map(found: Mapping[str, Any]) -> Scatter:
    """Return the clients on a map, by group."""
    return Scatter(
        title=f"Clients, by {'the distances they were grouped by' if found['grouping']['heights'] else 'their labels'}",
        note=found["map_by"],
        points=tuple(
            Point(name=str(client), x=place[0], y=place[1], group=_group(found, i))
            for i, (client, place) in enumerate(zip(found["clients"], found["map"], strict=True))
        ),
        groups=tuple(f"group {group}" for group in range(found["grouping"]["n_groups"])),
        map=True,
    )


def classes_map(classes: Mapping[str, Any]) -> Scatter:
    """Return the classes on a map, by super cluster where these are known."""
    sets = classes.get("super_clusters", [])
    owner = {label: k for k, one in enumerate(sets) for label in one}
    return Scatter(
        title="Classes, by the angles between them",
        note=f"Made from {classes['used']}: {SIMULATION}.",
        points=tuple(
            Point(name=str(label), x=place[0], y=place[1], group=owner.get(label))
            for label, place in zip(classes["labels"], classes["map"], strict=True)
        ),
        groups=tuple("{" + ", ".join(map(str, one)) + "}" for one in sets),
        map=True,
    )


def class_angles(classes: Mapping[str, Any]) -> HeatMap:
    """Return the angles between classes, super clusters framed."""
    order = [classes["labels"].index(label) for one in classes["super_clusters"] for label in one]
    owner = [k for k, one in enumerate(classes["super_clusters"]) for _ in one]
    names = tuple(str(classes["labels"][i]) for i in order)
    return HeatMap(
        title="Angles between classes",
        rows=names,
        columns=names,
        values=tuple(values(classes["angles"][i][j] for j in order) for i in order),
        unit="smallest angle between vectors, degrees",
        row_label="class",
        column_label="class",
        groups=tuple(owner),
        digits=1,
    )


def groups_table(found: Mapping[str, Any]) -> Table:
    """Return who is in which group, and their labels."""
    from coterie.report.groups import profile

    counts = np.array(found["labels"], np.int64)
    rows = []
    for group in range(found["grouping"]["n_groups"]):
        mine = [i for i in range(len(found["clients"])) if _group(found, i) == group]
        who = " ".join(str(found["clients"][i]) for i in mine)
        rows.append((str(group), len(mine), int(counts[mine].sum()), who, profile(counts[mine].sum(axis=0))))
    return Table(title="Groups", columns=("group", "clients", "samples", "who", "labels"), rows=tuple(rows))


def evidence_table(advice: Mapping[str, Any]) -> Table:
    """Return the numbers that decided."""
    meaning = {
        "clients": "clients that were compared",
        "groups": "groups that the rule tells apart",
        "highest_merge": "distance at which the last two groups would merge",
        "cut": "distance above which groups stay apart",
        "with_mates": "share of clients that are not alone in their group",
        "labels_apart": "mixtures of labels differ beyond chance, mean of pairs (0 to 1)",
        "labels_apart_between_groups": "the same, pairs of different groups",
        "labels_recognised": "labels found again at another client, beyond guessing (1: all)",
        "labels_recognised_between_groups": "the same, pairs of different groups",
        "labels_recognised_within_groups": "the same, pairs of one group",
        "groups_by_labels": "groups of clients that name samples alike",
    }
    rows = tuple((meaning[key], "not defined" if value is None else value) for key, value in advice["evidence"].items())
    return Table(title="Evidence", columns=("what", "value"), rows=rows)


def made_from(measured: Mapping[str, Any]) -> str:
    """Say what a measure needs, and where it can be had."""
    return f"{measured['needs']} ({ANYWHERE if measured['real_federation'] else SIMULATION})"


def number(value: float) -> str:
    """Write a number with three digits that count.

    >>> number(0.0123456), number(27.994), number(2434.03)
    ('0.0123', '28.0', '2,434')
    """
    if abs(value) < 1:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - int(np.log10(abs(value))))}f}"


def _tree(found: Mapping[str, Any], grouping: Grouping) -> Chart:
    return tree_of(
        grouping.tree,
        [str(client) for client in found["clients"]],
        grouping.labels.tolist(),
        title="The tree of merges and its cut",
        unit=grouping.unit,
        cut=grouping.threshold,
    )


def _group(view: Mapping[str, Any], position: int) -> int | None:
    group: int | None = view["grouping"]["groups"][view["clients"][position]]
    return group


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."

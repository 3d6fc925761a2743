"""How heterogeneous a federation is, what to do, and why: as text, as a page and as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.clustering import Grouping
from coterie.files import write_whole
from coterie.report.groups import describe_unit, profile
from coterie.report.page import render
from coterie.report.picture_files import write
from coterie.report.static import paint, paint_grid
from coterie.report.text_table import TextTable, printed, sentence, wrapped
from coterie.results.charts import Chart, Code, Fact, HeatMap, Page, Point, Scatter, Section, Table, tree_of, values
from coterie.results.names import Names
from coterie.results.privacy import privacy_text

SIMULATION = "simulation only"
ANYWHERE = "also for a real federation"


def inspection_text(inspected: Mapping[str, Any], groups: str) -> str:
    """Return mean and spread of each measure, the groups and the advice, for the terminal."""
    others = inspected["against"]
    table = TextTable(
        ["measure", "mean", "sd", "range", *others, "unit", "made from"],
        [
            [
                name,
                *(number(measured["mean"]), number(measured["sd"])),
                f"{number(measured['min'])} to {number(measured['max'])}",
                *(number(other["measures"][name]["mean"]) for other in others.values()),
                measured["unit"] + (" (1: alike)" if measured["similarity"] else ""),
                made_from(measured),
            ]
            for name, measured in inspected["measures"].items()
        ],
        left=["unit", "made from"],
    )
    notes = []
    if others:
        notes.append(f"Under {', '.join(others)}: the mean with that partition of the same data.")
    if any(not measured["real_federation"] for measured in inspected["measures"].values()):
        notes.append("Measures made from samples look at what no client sends: they are for simulations.")
    parts = [printed([f"{named(inspected)}: how far pairs of clients are from each other"], table, notes), groups]
    if inspected["classes"] and "super_clusters" in inspected["classes"]:
        sets = "  ".join(map(_set, inspected["classes"]["super_clusters"]))
        parts.append(wrapped([f"Super clusters of classes: {sets}. {inspected['classes']['reason']}"]))
    parts.append(wrapped([f"Advice: {inspected['advice']['sentence']}"]))
    parts.append(f"    {inspected['advice']['command']}")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write_inspection(inspected: Mapping[str, Any], grouping: Grouping, folder: Path) -> list[Path]:
    """Write the page and its pictures into a folder; return their paths."""
    page = folder / "inspection.html"
    write_whole(page, render(inspection_page(inspected, grouping)).encode(errors="replace"), "nothing")
    written = [page]
    pictures: dict[str, Sequence[Chart]] = {"labels": [labels_chart(inspected)]}
    pictures |= {f"proximity-{name.replace('_', '-')}": heat_maps(inspected, name) for name in inspected["measures"]}
    pictures["clients"] = [clients_map(inspected)]
    if len(grouping.tree):
        pictures["dendrogram"] = [tree_chart(inspected, grouping)]
    if inspected["classes"]:
        pictures["classes"] = [classes_map(inspected["classes"])]
        if "angles" in inspected["classes"]:
            pictures["class-angles"] = [class_angles(inspected["classes"])]
    for name, charts in pictures.items():
        figure = paint(charts[0]) if len(charts) == 1 else paint_grid([charts], (4.9, 4.4))
        written += write(figure, folder / name)
    return written


def inspection_page(inspected: Mapping[str, Any], grouping: Grouping) -> Page:
    """Return the page."""
    advice, classes, groups = inspected["advice"], inspected["classes"], inspected["grouping"]
    agreement = "" if groups["ari"] is None else f" Agreement with the true groups (ARI): {groups['ari']:.3f}."
    measures_text = (
        "Mean and spread over all pairs of clients. Angles and labels come from what clients may send, and "
        "serve a real federation too; measures made from samples are for simulations."
    )
    order_text = "Clients stand in the order of the tree of groups, those of a group beside each other."
    maps_text = f"Made by {inspected['map_by']}: near is alike. Axes have no meaning of their own."
    maps = (clients_map(inspected), *([classes_map(classes)] if classes else []))
    sections = [
        Section(heading="How far clients are apart", text=(measures_text,), blocks=(measures_table(inspected),)),
        Section(heading="Which labels clients have", text=(order_text,), blocks=(labels_chart(inspected),)),
        *(_proximities(inspected, name) for name in inspected["measures"]),
        Section(heading="Maps", text=(maps_text,), blocks=maps),
        Section(
            heading=f"Groups of {inspected['method']}",
            text=(groups["reason"], f"Rule `{groups['rule']}`.{agreement}"),
            blocks=(*([tree_chart(inspected, grouping)] if len(grouping.tree) else []), groups_table(inspected)),
        ),
        *([_classes(classes)] if classes and "angles" in classes else []),
        Section(
            heading="The evidence for the advice",
            text=(advice["sentence"],),
            blocks=(Code(title="What to run", text=advice["command"]), evidence_table(advice)),
        ),
    ]
    if private := privacy_text(groups):
        sections.append(Section(heading="Privacy", text=tuple(private)))
    return Page(
        title=f"How heterogeneous is {named(inspected)}?",
        summary=(advice["sentence"],),
        facts=_facts(inspected),
        sections=tuple(sections),
    )


def _facts(inspected: Mapping[str, Any]) -> tuple[Fact, ...]:
    advice = inspected["advice"]
    groups = f", {advice['groups']} groups" if advice["choice"] == "cluster" else ""
    offsets = ", label offsets" if advice["offsets"] else ""
    return (
        Fact(name="advice", value=f"{advice['choice']}{groups}{offsets}"),
        Fact(name="clients", value=str(len(inspected["clients"]))),
        Fact(name=f"groups of {inspected['method']}", value=str(inspected["grouping"]["n_groups"])),
        *(
            Fact(name=f"mean {name}", value=f"{number(measured['mean'])} {measured['unit']}".strip())
            for name, measured in inspected["measures"].items()
        ),
    )


def _proximities(inspected: Mapping[str, Any], name: str) -> Section:
    measured, others = inspected["measures"][name], ", ".join(inspected["against"])
    beside = f" Beside it the same data divided by {others}; colours mean the same." if others else ""
    end = "Larger is more alike." if measured["similarity"] else "Larger is farther apart."
    return Section(
        heading=f"Proximities: {measured['title']}",
        text=(f"{sentence(measured['says'])} {end} Made from {made_from(measured)}.{beside}",),
        blocks=tuple(heat_maps(inspected, name)),
    )


def _classes(classes: Mapping[str, Any]) -> Section:
    sets = "; ".join(map(_set, classes["super_clusters"]))
    return Section(
        heading="Classes and their super clusters",
        text=(f"{classes['reason']} That makes {sets}. This looks at samples: {SIMULATION}.",),
        blocks=(class_angles(classes),),
    )


def measures_table(inspected: Mapping[str, Any]) -> Table:
    """Return mean and spread of each measure, and what it is."""
    others = inspected["against"]
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
            for name, measured in inspected["measures"].items()
        ),
        digits=3,
    )  # fmt: skip


def labels_chart(inspected: Mapping[str, Any]) -> HeatMap:
    """Return which share of each client's samples has which label."""
    counts = np.array(inspected["labels"], np.float64)[inspected["order"]]
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return HeatMap(
        title="Labels by client",
        rows=tuple(str(inspected["clients"][i]) for i in inspected["order"]),
        columns=tuple(map(str, range(counts.shape[1]))),
        values=tuple(values(row) for row in shares),
        unit="% of the client's samples",
        row_label="client",
        column_label="label",
        digits=0,
    )


def heat_maps(inspected: Mapping[str, Any], name: str) -> list[HeatMap]:
    """Return the proximities of a measure with each partition, all with one scale of colours."""
    views = {inspected["partition"]: inspected, **inspected["against"]}
    pairs = [
        value
        for view in views.values()
        for i, row in enumerate(view["measures"][name]["matrix"])
        for j, value in enumerate(row)
        if i != j and value is not None
    ]
    measured = inspected["measures"][name]
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
            limits=(min(0.0, *pairs), max(pairs)) if not measured["similarity"] else (min(pairs), 1.0),
        )
        for title, view in views.items()
    ]


def clients_map(inspected: Mapping[str, Any]) -> Scatter:
    """Return the clients on a map, by group."""
    basis = "the distances they were grouped by" if inspected["grouping"]["heights"] else "their labels"
    return Scatter(
        title=f"Clients, by {basis}",
        note=inspected["map_by"],
        points=tuple(
            Point(name=str(client), x=place[0], y=place[1], group=_group(inspected, i))
            for i, (client, place) in enumerate(zip(inspected["clients"], inspected["map"], strict=True))
        ),
        groups=tuple(f"group {group}" for group in range(inspected["grouping"]["n_groups"])),
        map=True,
    )


def classes_map(classes: Mapping[str, Any]) -> Scatter:
    """Return the classes on a map, by super cluster where these are known."""
    sets = classes.get("super_clusters", [])
    owner = {label: k for k, labels in enumerate(sets) for label in labels}
    return Scatter(
        title="Classes, by the angles between them",
        note=f"Made from {classes['used']}: {SIMULATION}.",
        points=tuple(
            Point(name=str(label), x=place[0], y=place[1], group=owner.get(label))
            for label, place in zip(classes["labels"], classes["map"], strict=True)
        ),
        groups=tuple(map(_set, sets)),
        map=True,
    )


def class_angles(classes: Mapping[str, Any]) -> HeatMap:
    """Return the angles between classes, super clusters framed."""
    order = [classes["labels"].index(label) for labels in classes["super_clusters"] for label in labels]
    owner = [k for k, labels in enumerate(classes["super_clusters"]) for _ in labels]
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


def groups_table(inspected: Mapping[str, Any]) -> Table:
    """Return who is in which group, and their labels."""
    counts, called = np.array(inspected["labels"], np.int64), Names.in_result(inspected["grouping"])
    rows = []
    for group in range(inspected["grouping"]["n_groups"]):
        members = [i for i in range(len(inspected["clients"])) if _group(inspected, i) == group]
        who = (", " if called.clients else " ").join(called.of_client(inspected["clients"][i]) for i in members)
        labels = profile(counts[members].sum(axis=0), called)
        rows.append((str(group), len(members), int(counts[members].sum()), who, labels))
    return Table(title="Groups", columns=("group", "clients", "samples", "who", "labels"), rows=tuple(rows))


def evidence_table(advice: Mapping[str, Any]) -> Table:
    """Return the numbers that decided."""
    meaning = {
        "clients": "clients",
        "compared": "clients with enough samples of a label to be compared",
        "groups": "groups to which the same label looks different",
        "parts": "parts that no chain of shared labels connects",
        "excess": "squared distance between groups, as a multiple of what chance explains (groups: over 2)",
        "silhouette": "how clear groups are beyond chance: mean silhouette (from 0.7 on they are clear)",
        "labels_apart": "difference of label proportions beyond chance, within groups, mean over pairs (0 to 1)",
        "labels_recognised": "labels found again at another client by their means, beyond guessing (1: all)",
    }
    rows = tuple((meaning[key], "not defined" if value is None else value) for key, value in advice["evidence"].items())
    return Table(title="Evidence", columns=("what", "value"), rows=rows)


def tree_chart(inspected: Mapping[str, Any], grouping: Grouping) -> Chart:
    """Return the tree of merges."""
    return tree_of(
        grouping.tree,
        [str(client) for client in inspected["clients"]],
        grouping.labels.tolist(),
        title="The tree of merges and its cut",
        unit=describe_unit(grouping.unit),
        cut=grouping.threshold,
    )


def named(inspected: Mapping[str, Any]) -> str:
    """Name a federation; data that come divided have no partition of another name."""
    title, partition = inspected["title"], inspected["partition"]
    return str(title) if str(title).startswith(f"{partition},") else f"{title}, {partition}"


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


def _group(view: Mapping[str, Any], position: int) -> int | None:
    group: int | None = view["grouping"]["groups"][view["clients"][position]]
    return group


def _set(labels: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, labels)) + "}"

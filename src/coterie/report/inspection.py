"""How heterogeneous a federation is, as text and as files: the page and its pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.clustering import Grouping
from coterie.report.page import render
from coterie.report.pages.inspection import (
    class_angles,
    classes_map,
    clients_map,
    heat_maps,
    inspection_page,
    labels_chart,
    made_from,
    named,
    number,
    tree_chart,
)
from coterie.report.static import paint, paint_grid, write
from coterie.report.text_table import TextTable, printed, wrapped
from coterie.results.charts import Chart


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
        sets = "  ".join("{" + ", ".join(map(str, labels)) + "}" for labels in inspected["classes"]["super_clusters"])
        parts.append(wrapped([f"Super clusters of classes: {sets}. {inspected['classes']['reason']}"]))
    parts.append(wrapped([f"Advice: {inspected['advice']['sentence']}"]))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write_inspection(inspected: Mapping[str, Any], grouping: Grouping, folder: Path) -> list[Path]:
    """Write the page and its pictures into a folder; return their paths."""
    page = folder / "inspection.html"
    page.write_text(render(inspection_page(inspected, grouping)), encoding="utf-8")
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

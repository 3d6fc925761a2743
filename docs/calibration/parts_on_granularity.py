"""The parts about the granularity that users may set, and the confidence that rule `auto` states."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from federations import Case, LabelGroups, Library, Smooth, even
from measuring import Bench, describe, grouped, mean_ari, share_right
from tables_and_pictures import canvas, missing, table

import coterie
from coterie.clustering import number_of_groups
from coterie.data import is_here
from coterie.report.static import COLOURS, MARKERS


def part_dial(bench: Bench) -> None:
    """The number of groups against granularity, and how often a confidence is right."""
    cases: dict[str, Case] = {
        "digits-rotated, 4 groups": Library("digits-rotated", 40),
        "digits, IID": Library("digits", 40, "iid"),
    }
    if not missing("fashion_mnist"):
        cases["Fashion-MNIST, 5 label groups"] = LabelGroups("fashion_mnist", 40, 100, 5, 2)
        cases["Fashion-MNIST, turned evenly, no groups"] = Smooth("fashion_mnist", 100)
    figure, (axes,) = canvas(7.4, 3.6, 1)
    at = np.geomspace(0.6, 12, 600)
    rows = []
    dials = (1.0, 1.2, 1.45, 2.0, 3.0, 6.0)
    for k, (name, case) in enumerate(cases.items()):
        described = describe(case.make(0), 0)
        found = grouped(described, "auto")
        styles = ("-", "--", "-.", ":")
        axes.step(at, number_of_groups(found.tree, at), styles[k], where="post", color=COLOURS[k], label=name)
        axes.plot(found.threshold, found.n_groups, MARKERS[k], color=COLOURS[k])
        many = number_of_groups(found.tree, dials).tolist()
        rows.append([name, *many, f"{found.n_groups} (cut {found.threshold:.2f})", float(found.confidence or 0)])
    axes.axvline(1.45, color="black", linewidth=1, linestyle="--")
    axes.text(1.48, 33, "1.45", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="granularity", ylabel="groups", title="40 clients, seed 0")
    axes.set_xticks([0.6, 1, 2, 3, 5, 10], ["0.6", "1", "2", "3", "5", "10"])
    axes.set_yticks([1, 2, 4, 10, 20, 40], ["1", "2", "4", "10", "20", "40"])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    bench.save(figure, "dial", "fashion_mnist")
    head = ("federation", *(f"{dial:g}" for dial in dials), "by default", "confidence")
    table("dial: groups by granularity, 40 clients, seed 0", head, rows)
    rows = []
    for name, samples in ((name, n) for name in ("digits", "fashion_mnist") if is_here(name) for n in (24, 40, 88)):
        iid, four = bench.outcomes(
            [even(name, 20, samples, k) for k in (1, 4)], bench.seeds(20 if name == "digits" else 10)
        )
        told = [f"{100 * share_right(iid, rule):.0f} % / {mean_ari(four, rule):.2f}" for rule in ("auto", "cut 1.2")]
        tops = [one.highest for one in iid]
        rows.append([f"{name}, 20 × {samples}", len(iid), *told, f"{np.mean(tops):.2f} ({max(tops):.2f})"])
    head = ("federation", "seeds", "by default", "granularity 1.2", "highest merge of IID: mean (largest)")
    table("dial: one group found of IID / ARI of four turned groups", head, rows)
    if bench.folder is not None:
        with tempfile.TemporaryDirectory() as place:
            coterie.cluster(dataset="digits-rotated", clients=40, seed=0).save(Path(place))
            shutil.copy(Path(place) / "dendrogram.png", bench.folder)


def part_confidence(bench: Bench) -> None:
    """How often `auto` is right, by its confidence, over all federations that the other parts looked at."""
    known = [(c, s, o) for (c, s), o in bench.known.items() if not _groupless(c)]
    if not known:
        print("\n(left out: confidence is counted over the federations of other parts, and none was asked for)")
        return
    sure = np.array([one.verdicts["auto"].confidence for _, _, one in known])
    right = np.array([one.verdicts["auto"].ari == 1 for _, _, one in known])
    single = np.array([one.verdicts["auto"].groups == 1 for _, _, one in known])
    rows = []
    for low, high in ((0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1.01)):
        row: list[object] = [f"{low:g} to {min(high, 1):g}"]
        for which in (single, ~single):
            inside = which & (low <= sure) & (sure < high)
            row += [int(inside.sum()), f"{100 * right[inside].mean():.0f} %" if inside.any() else "-"]
        rows.append(row)
    head = ("confidence", "one group: federations", "right", "several groups: federations", "exactly right")
    table(f"confidence: {len(known)} federations", head, rows)


def _groupless(case: Case) -> bool:
    """Say whether there is no truth to be right about: every client its own, or label sets that overlap."""
    return isinstance(case, Smooth) or (isinstance(case, Library) and case.partition == "label-skew")

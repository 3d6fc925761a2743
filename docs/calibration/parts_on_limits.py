"""The parts about where the rules are wrong or say little, and what models then learn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from federations import Case, Copies, LabelGroups, Library, Smooth, Tilted, even, pooled, turned
from measuring import COMPARED, Bench, counts, mean_ari, share_right, trained
from tables_and_pictures import STYLE, canvas, missing, table

from coterie.report.static import COLOURS
from coterie.similarity import principal_angles, signature


def part_subtle(bench: Bench) -> None:
    """Differences that are small against noise."""
    if missing("fashion_mnist"):
        return
    seeds = bench.seeds(5)
    sizes, degrees = (25, 50, 100, 200), (2.0, 4.0, 6.0, 8.0, 12.0, 16.0)
    rows = []
    for angle in degrees:
        found = bench.outcomes([Tilted("fashion_mnist", n, angle) for n in sizes], seeds)
        rows.append(
            [
                f"{angle:g}°",
                *(f"{np.mean([one.between.mean() for one in o]):.2f}: {mean_ari(o, 'auto'):.2f}" for o in found),
                *(f"{mean_ari(o, 'gap'):.2f}" for o in found),
            ]
        )
    head = ("turned by", *(f"auto, {n} samples" for n in sizes), *(f"gap, {n}" for n in sizes))
    table(f"subtle: Fashion-MNIST, 20 clients, {len(seeds)} seeds; distance between groups / noise: ARI", head, rows)


def part_failures(bench: Bench) -> None:
    """Where the rule is wrong."""
    from matplotlib.ticker import MaxNLocator

    if missing("fashion_mnist", "cifar10"):
        return
    figure, (left, right) = canvas(9.4, 3.6, 2)
    seeds, sizes = bench.seeds(10), (30, 50, 100, 200, 300, 400)
    found = bench.outcomes([even("cifar10", 20, n, 4) for n in sizes], seeds)
    plain = bench.outcomes([even("cifar10", 20, n, 1) for n in sizes], seeds)
    lines = {"auto": "auto", "cut 1.2": "auto, granularity 1.2", "gap": "gap", "silhouette": "silhouette"}
    for rule, label in lines.items():
        dashed = {"linestyle": "--"} if rule == "cut 1.2" else {}
        style = {**STYLE[rule], **dashed, "label": label}
        left.plot(sizes, [mean_ari(ones, rule) for ones in found], **style)
    left.set(xlabel="samples per client", ylabel="mean ARI", title="CIFAR-10 turned: four true groups", xscale="log")
    left.set_xticks(sizes, [str(n) for n in sizes])
    left.minorticks_off()
    left.legend(frameon=False, fontsize=8, loc="upper left")
    table(
        f"failures: CIFAR-10 turned by right angles, 20 clients, {len(seeds)} seeds; ARI (IID: one group found)",
        ("samples", "distance between groups / noise", *lines.values(), "demo"),
        (
            [
                n,
                float(np.mean([one.between.mean() for one in a])),
                *(f"{mean_ari(a, r):.2f} ({100 * share_right(b, r):.0f} %)" for r in (*lines, "demo")),
            ]
            for n, a, b in zip(sizes, found, plain, strict=True)
        ),
    )
    rows: list[list[object]] = []
    for name in ("digits", "fashion_mnist", "cifar10"):
        mean = pooled(name).x.mean(axis=0)[None]
        own = signature(mean, 1)
        away = [principal_angles([own], [signature(turned(mean, turn), 1)]).item() for turn in (1, 2, 3)]
        rows.append([name, *(f"{one:.1f}" for one in away)])
    table("failures: angle between the mean image and itself turned", ("data", "90°", "180°", "270°"), rows)
    smooth = Smooth("fashion_mnist", 100)
    labels = np.array(bench.one(smooth).labels)
    at = 90 * np.arange(40) / 39
    right.scatter(at, labels + 1, c=[COLOURS[k % 2] for k in labels], s=22)
    right.set(xlabel="degrees by which a client's images are turned", ylabel="group found by auto")
    right.set_title("Fashion-MNIST, no true groups")
    right.yaxis.set_major_locator(MaxNLocator(integer=True))
    bench.save(figure, "failures")
    cases: dict[str, Case] = {
        "Fashion-MNIST, 100 distinct samples": Copies("fashion_mnist", 100, 1),
        "Fashion-MNIST, 50 samples, each twice": Copies("fashion_mnist", 50, 2),
        "Fashion-MNIST, 25 samples, each four times": Copies("fashion_mnist", 25, 4),
        "40 clients turned evenly from 0° to 90°": smooth,
        "digits-permuted, 4 groups": Library("digits-permuted", 20),
        "CIFAR-10, 40 clients in 2 label groups": LabelGroups("cifar10", 40, 100, 2, 5),
        "CIFAR-10, 40 clients in 5 label groups": LabelGroups("cifar10", 40, 100, 5, 2),
        "CIFAR-10, 40 clients in 10 label groups": LabelGroups("cifar10", 40, 100, 10, 1),
    }
    seeds = bench.seeds(5)
    rows = []
    for (name, case), ones in zip(cases.items(), bench.outcomes(cases.values(), seeds), strict=True):
        sure = np.mean([one.verdicts["auto"].confidence for one in ones])
        many = [f"{min(counts(ones, r))}-{max(counts(ones, r))}" for r in COMPARED]
        true = "none" if case == smooth else ones[0].true
        rows.append([name, true, *many, f"{mean_ari(ones, 'auto'):.2f}", sure])
    head = ("federation", "true", *(f"{rule} finds" for rule in COMPARED), "auto: ARI", "auto: confidence")
    table(f"failures: groups found, {len(seeds)} seeds", head, rows)


def part_skew(bench: Bench) -> None:
    """Label skew: how many distributions can be told apart, and how many models learn best."""
    cases: dict[str, Case] = {
        "digits, 30 %, 56 clients": Library("digits", 56, "label-skew", ("rho", 0.3)),
        "digits, 20 %, 20 clients": Library("digits", 20, "label-skew", ("rho", 0.2)),
    }
    if not missing("fashion_mnist"):
        cases["Fashion-MNIST, 20 %, 100 clients"] = Library("fashion_mnist", 100, "label-skew", ("rho", 0.2))
    rows = []
    for name, case in cases.items():
        ones = bench.outcomes([case], bench.seeds(2 if name.startswith("F") else 8))[0]
        coarser = [match[1] for one in ones if (match := re.search(r"cut has (\d+) groups", one.reason))]
        many = [f"{np.mean(counts(ones, rule)):.1f}" for rule in COMPARED]
        sure = np.mean([one.verdicts["auto"].confidence for one in ones])
        rows.append([name, len(ones), f"{np.mean([one.true for one in ones]):.1f}", *many, sure, ", ".join(coarser)])
    head = ("label skew", "seeds", "label sets", *COMPARED, "auto: confidence", "coarser cuts hinted at")
    table("skew: groups found, means", head, rows)
    print(f"\n{name}, seed 0: {bench.one(case).reason}")


def part_training(bench: Bench) -> None:
    """What models learn with the groups of `auto`, with fewer and with more."""
    common = {"rounds": 50, "epochs": 5, "fraction": 0.2}
    rows = []
    for title, settings, clients in (
        ("label skew 30 %, 56 clients", {"dataset": "digits", "partition": "label-skew:rho=0.3", "clients": 56}, 56),
        ("digits-rotated, 56 clients", {"dataset": "digits-rotated", "clients": 56}, 56),
    ):
        seeds, auto = bench.seeds(8), np.zeros(0)
        arms: dict[str, list[dict[str, Any]]] = {
            "rule auto": [{}] * len(seeds),
            "one group": [{"groups": 1}] * len(seeds),
            "every client alone": [{"groups": clients}] * len(seeds),
        }
        if "partition" in settings:
            case = Library("digits", 56, "label-skew", ("rho", 0.3))
            hints = [re.search(r"granularity ([\d.]+)\)", bench.one(case, seed).reason) for seed in seeds]
            arms["as the hint says"] = [{"granularity": float(hint[1])} if hint else {} for hint in hints]
        for arm, asked in arms.items():
            tasks = [({**settings, **common, **one}, seed) for one, seed in zip(asked, seeds, strict=True)]
            told = np.array(list(bench.pool.map(trained, tasks)))
            auto = told[:, 0] if arm == "rule auto" else auto
            better = "" if arm == "rule auto" else f"{(told[:, 0] > auto).sum()} of {len(seeds)}"
            middle, spread = told.mean(axis=0), told.std(axis=0, ddof=1)
            shown = [f"{middle[i]:.1f} ± {spread[i]:.1f}" for i in range(3)]
            rows.append([title, arm, f"{middle[3]:.1f}", *shown, better])
    head = ("federation", "groups", "mean number", "L", "C", "+", "L better than auto")
    table(f"training: 50 rounds, E = 5, {len(seeds)} seeds, mean ± deviation over seeds (%)", head, rows)

"""The parts about how well each rule finds the true groups, by samples, number of groups and kind of federation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from federations import Case, Copies, LabelGroups, Library, Turned, Uneven, even, minority
from measuring import COMPARED, Bench, counts, mean_ari, share_right
from tables_and_pictures import STYLE, canvas, missing, table

from coterie.data import is_here


def part_fresh(bench: Bench) -> None:
    """The seeds at which the constants were looked at, and others."""
    rows = []
    for n in (20, 40, 56):
        row: list[object] = [n]
        for seeds in (bench.seeds(20), bench.seeds(40, 20)):
            turn, iid = bench.outcomes([Library("digits-rotated", n), Library("digits", n, "iid")], seeds)
            right = sum(one.verdicts["auto"].ari == 1 for one in turn)
            one_group = sum(one.verdicts["auto"].groups == 1 for one in iid)
            row += [f"{mean_ari(turn, 'auto'):.3f}", f"{right} of {len(turn)}", f"{one_group} of {len(iid)}"]
        rows.append(row)
    head = ("clients", *(f"{what}, seeds {s}" for s in ("0-19", "20-59") for what in ("ARI", "exact", "IID one group")))
    table("fresh: digits-rotated and digits as Coterie divides them", head, rows)


def part_samples(bench: Bench) -> None:
    """Agreement, and one group found where there is one, against samples per client."""
    sizes = (8, 12, 16, 24, 32, 40, 56, 88)
    seeds = bench.seeds(20)
    lines = ("auto", "cut 1.45", "gap", "silhouette", "demo")
    four, iid = (bench.outcomes([even("digits", 20, n, k) for n in sizes], seeds) for k in (4, 1))
    figure, (left, right) = canvas(9.4, 3.6, 2)
    for rule in lines:
        style: dict[str, Any] = {**STYLE[rule], "label": rule}
        if rule == "cut 1.45":
            style |= {"linestyle": "--", "label": "auto, cut fixed at 1.45"}
        left.plot(sizes, [mean_ari(ones, rule) for ones in four], **style)
        right.plot(sizes, [100 * share_right(ones, rule) for ones in iid], **style)
    left.set(xlabel="samples per client", ylabel="mean ARI", title="Four true groups", ylim=(-0.03, 1.03))
    right.set(xlabel="samples per client", ylabel="one group found (%)", title="One true group (IID)", ylim=(-3, 103))
    right.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    bench.save(figure, "samples")
    table(
        f"samples: digits, 20 clients, {len(seeds)} seeds; mean ARI of four turned groups / one group found of IID",
        ("samples", *lines),
        (
            [n, *(f"{mean_ari(a, rule):.2f} / {100 * share_right(b, rule):.0f} %" for rule in lines)]
            for n, a, b in zip(sizes, four, iid, strict=True)
        ),
    )
    if missing("fashion_mnist"):
        return
    seeds, sizes = bench.seeds(10), (8, 12, 16, 24, 32, 40, 56, 88)
    four, iid = (bench.outcomes([even("fashion_mnist", 20, n, k) for n in sizes], seeds) for k in (4, 1))
    table(
        f"samples: Fashion-MNIST, 20 clients, {len(seeds)} seeds, as above",
        ("samples", *lines),
        (
            [n, *(f"{mean_ari(a, rule):.2f} / {100 * share_right(b, rule):.0f} %" for rule in lines)]
            for n, a, b in zip(sizes, four, iid, strict=True)
        ),
    )


def part_counts(bench: Bench) -> None:
    """The number of groups found against the true one."""
    seeds = bench.seeds(10)
    families: dict[str, dict[int, Case]] = {
        "digits, turned and mirrored": {k: even("digits", 40, 44, k) for k in range(1, 9)}
    }
    if not missing("fashion_mnist"):
        families["Fashion-MNIST, groups of labels"] = {
            k: LabelGroups("fashion_mnist", 40, 100, k, 10 // k) for k in range(1, 11)
        }
    figure, panels = canvas(9.4, 3.8, 2)
    for axes, (title, cases) in zip(panels, families.items(), strict=False):
        found = bench.outcomes(cases.values(), seeds)
        truth = np.array([*cases])
        axes.plot(truth, truth, color="#8a8a8a", linewidth=5, alpha=0.35, label="true")
        for k, rule in enumerate(COMPARED):
            many = np.array([counts(ones, rule) for ones in found], float)
            middle = np.median(many, axis=1)
            spread = np.abs(np.quantile(many, [0.1, 0.9], axis=1) - middle)
            at = truth + 0.1 * (k - 1.5)
            axes.errorbar(at, middle, spread, **STYLE[rule], linewidth=1.2, capsize=2, label=rule)
        axes.set(xlabel="true number of groups", ylabel="groups found", title=title, yscale="log")
        axes.set_xticks(truth, [str(k) for k in truth])
        axes.set_yticks([1, 2, 3, 4, 6, 8, 10], ["1", "2", "3", "4", "6", "8", "10"])
        axes.set_ylim(0.9, 12)
        axes.minorticks_off()
        table(
            f"counts: {title}, 40 clients, {len(seeds)} seeds; median count, exact answers",
            ("true groups", *COMPARED),
            (
                [k, *(f"{np.median(counts(o, r)):g} ({round(len(o) * share_right(o, r))})" for r in COMPARED)]
                for k, o in zip(cases, found, strict=True)
            ),
        )
    panels[len(families) - 1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    bench.save(figure, "counts", "fashion_mnist")


def imbalanced() -> dict[str, Case]:
    """Return federations with a small group, or with clients of very different sizes."""
    cases: dict[str, Case] = {
        f"digits, {few} of 20 clients upside down": minority("digits", 20, 68, few) for few in (1, 2, 5)
    }
    if is_here("fashion_mnist"):
        cases |= {
            f"Fashion-MNIST, {few} of 100 clients upside down": minority("fashion_mnist", 100, 100, few)
            for few in (1, 2)
        }
    for name, title in (("digits", "digits"), ("fashion_mnist", "Fashion-MNIST")):
        if is_here(name):
            cases |= {
                f"{title}, 20 clients, sizes spread {spread:g}, {what}": Uneven(name, spread, groups)
                for spread in (0.5, 1.0, 1.5)
                for groups, what in ((4, "4 groups"), (1, "IID"))
            }
    tiny = tuple(i % 4 for i in range(25))
    cases["digits, 25 clients in 4 groups, 5 of them with 3 samples"] = Turned("digits", (68,) * 20 + (3,) * 5, tiny)
    return cases


def part_imbalance(bench: Bench) -> None:
    """One large group and one small; clients with very different numbers of samples."""
    missing("fashion_mnist")
    seeds = bench.seeds(20)
    for spread in (0.5, 1.0, 1.5):
        sizes = [Uneven("digits", spread, 1).sizes(seed) for seed in seeds]
        smallest, largest = np.median([min(own) for own in sizes]), np.median([max(own) for own in sizes])
        print(f"\nspread {spread:g}: {smallest:.0f} to {largest:.0f} samples (medians over seeds)")
    _compare(bench, "imbalance", imbalanced(), 20, 10)


def _compare(bench: Bench, title: str, cases: Mapping[str, Case], many: int, real: int) -> None:
    """Print the mean ARI and the exact answers of all rules; fewer seeds for real data."""
    rows = []
    for name, case in cases.items():
        seeds = bench.seeds(many if name.startswith("digits") else real)
        ones = bench.outcomes([case], seeds)[0]
        told = [f"{mean_ari(ones, rule):.2f} ({round(len(ones) * share_right(ones, rule))})" for rule in COMPARED]
        rows.append(
            [name, len(ones), *told, f"{ones[0].true}: {min(counts(ones, 'auto'))}-{max(counts(ones, 'auto'))}"]
        )
    head = ("federation", "seeds", *COMPARED, "true groups: auto finds")
    table(f"{title}: mean ARI (exact answers)", head, rows)


def part_rules(bench: Bench) -> None:
    """All kinds of federations beside each other."""
    cases: dict[str, Case] = {
        "digits IID, 20 × 68": Library("digits", 20, "iid"),
        "digits IID, 56 × 24": Library("digits", 56, "iid"),
        "digits-rotated, 20 × 68": Library("digits-rotated", 20),
        "digits-rotated, 56 × 24": Library("digits-rotated", 56),
        "digits, 8 groups, 40 × 44": even("digits", 40, 44, 8),
        "digits, 1 of 20 upside down": minority("digits", 20, 68, 1),
        "digits, sizes spread 1, 4 groups": Uneven("digits", 1.0, 4),
        "digits, sizes spread 1, IID": Uneven("digits", 1.0, 1),
        "digits-permuted, 20 × 68": Library("digits-permuted", 20),
    }
    if not missing("fashion_mnist"):
        cases |= {
            "Fashion-MNIST IID, 20 × 88": even("fashion_mnist", 20, 88, 1),
            "Fashion-MNIST IID, 400 × 50": even("fashion_mnist", 400, 50, 1),
            "Fashion-MNIST turned, 4 groups, 400 × 50": even("fashion_mnist", 400, 50, 4),
            "Fashion-MNIST, 2 label groups": LabelGroups("fashion_mnist", 40, 100, 2, 5),
            "Fashion-MNIST, 5 label groups": LabelGroups("fashion_mnist", 40, 100, 5, 2),
            "Fashion-MNIST, 10 label groups": LabelGroups("fashion_mnist", 40, 100, 10, 1),
            "Fashion-MNIST, 2 groups with 3 of 4 labels in common": LabelGroups("fashion_mnist", 20, 100, 2, 4, 3),
            "Fashion-MNIST IID, every sample twice": Copies("fashion_mnist", 50, 2),
        }
    if not missing("cifar10"):
        cases |= {
            "CIFAR-10 IID, 20 × 100": even("cifar10", 20, 100, 1),
            "CIFAR-10 turned, 4 groups, 20 × 100": even("cifar10", 20, 100, 4),
            "CIFAR-10, 5 label groups": LabelGroups("cifar10", 40, 100, 5, 2),
        }
    if not missing("mix-4"):
        cases["MIX-4, 100 × 100"] = Library("mix-4", 100, option=("samples", 100))
    slow = ("400 ×", "MIX-4")
    quick = {name: case for name, case in cases.items() if not any(word in name for word in slow)}
    _compare(bench, "rules", quick, 20, 10)
    _compare(bench, "rules, large", {name: case for name, case in cases.items() if name not in quick}, 3, 3)

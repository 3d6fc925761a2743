"""Make the pictures of docs/calibration.md and every number on that page.

    python docs/calibration/make.py [PART ...] [--quick] [--out FOLDER]

Numbers go to standard output as Markdown tables, pictures into the folder of this file. Parts that need real data look
for them in the folder that COTERIE_DATA names; where they are missing, the part is left out and says so.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

import coterie
from coterie.clustering import (
    Grouping,
    GroupingOptions,
    adjusted_rand_index,
    in_units_of_noise,
    noise,
    number_of_groups,
)
from coterie.data import DATASETS, Samples, is_here, load
from coterie.report.static import COLOURS, MARKERS
from coterie.similarity import principal_angles, signature, split_half_distance
from coterie.streams import stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

RULES = {
    "auto": GroupingOptions("auto"),
    "gap": GroupingOptions("gap"),
    "silhouette": GroupingOptions("silhouette"),
    "demo": GroupingOptions("demo"),
    "cut 1.45": GroupingOptions(granularity=1.45),
    "cut 1.2": GroupingOptions(granularity=1.2),
}
"""The rules of Coterie as users ask for them, and `auto` with two granularities."""
COMPARED = ("auto", "gap", "silhouette", "demo")
STYLE: dict[str, dict[str, Any]] = {
    rule: {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 5} for i, rule in enumerate(RULES)
}
STYLE["gap"] |= {"markersize": 9, "markerfacecolor": "none"}  # visible below the silhouette, which often agrees
VECTORS = 3
SPLITS = 6


# Federations ---------------------------------------------------------------------------------------------------------


class Clients(NamedTuple):
    """The samples and labels of each client, and who truly belongs together."""

    x: list[Array]
    y: list[Array]
    truth: list[int]


class Case(Protocol):
    """A kind of federation; a seed makes one of it."""

    def make(self, seed: int) -> Clients:
        """Deal the samples."""
        ...


@functools.cache
def pooled(name: str) -> Samples:
    """Return all training samples of a data set, raw, (n, channels, height, width)."""
    data: Samples = DATASETS[name]().train
    return data


def dealt(name: str, sizes: Sequence[int], seed: int) -> list[Samples]:
    """Deal samples at random, none twice."""
    data = pooled(name)
    order = np.random.default_rng([seed, 1]).permutation(len(data))[: sum(sizes)]
    return [data[part] for part in np.split(order, np.cumsum(sizes)[:-1])]


def turned(x: Array, turn: int) -> Array:
    """Turn images by right angles, from 4 on also mirror them: eight ways to look at them."""
    x = np.rot90(x, turn % 4, axes=(2, 3))
    return np.ascontiguousarray(x[..., ::-1] if turn >= 4 else x)


def tilted(x: Array, degrees: float) -> Array:
    """Turn images by any angle."""
    from scipy.ndimage import rotate

    return np.asarray(rotate(x.astype(np.float32), degrees, axes=(3, 2), reshape=False, order=1))


@dataclass(frozen=True)
class Turned:
    """Clients with so many samples each, who see them turned (and mirrored) as their group does."""

    data: str
    sizes: tuple[int, ...]
    groups: tuple[int, ...]

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts = dealt(self.data, self.sizes, seed)
        x = [turned(part.x, group) for part, group in zip(parts, self.groups, strict=True)]
        return Clients(x, [part.y for part in parts], list(self.groups))


def even(data: str, clients: int, samples: int, groups: int) -> Turned:
    """Return clients with equally many samples, in groups of equal size that see them turned; 1 group is IID."""
    return Turned(data, (samples,) * clients, tuple(i % groups for i in range(clients)))


def minority(data: str, clients: int, samples: int, few: int) -> Turned:
    """Return two groups, a few clients who see images upside down and all others."""
    return Turned(data, (samples,) * clients, (2,) * few + (0,) * (clients - few))


@dataclass(frozen=True)
class Uneven:
    """20 clients whose numbers of samples are log-normal with this deviation, 8 at least, in groups as `even`."""

    data: str
    spread: float
    groups: int

    def sizes(self, seed: int) -> tuple[int, ...]:
        """Return the number of samples of each client; there are 85 for each on average."""
        share = np.exp(np.random.default_rng([seed, 6]).normal(0, self.spread, 20))
        return tuple(np.maximum(8, 1690 * share / share.sum()).astype(int).tolist())

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        return Turned(self.data, self.sizes(seed), tuple(i % self.groups for i in range(20))).make(seed)


@dataclass(frozen=True)
class LabelGroups:
    """Groups of clients with labels of their own, of which each group shares some with the next."""

    data: str
    clients: int
    samples: int
    groups: int
    each: int
    shared: int = 0

    def make(self, seed: int) -> Clients:
        """Draw which labels each group has, then samples of these."""
        data, rng = pooled(self.data), np.random.default_rng([seed, 2])
        names, order = rng.permutation(10), rng.permutation(len(data))
        truth = [i % self.groups for i in range(self.clients)]
        free = np.ones(len(data), bool)
        parts = []
        for group in truth:
            first = group * (self.each - self.shared)
            own = order[np.isin(data.y[order], names[first : first + self.each]) & free[order]][: self.samples]
            free[own] = False
            parts.append(data[own])
        return Clients([part.x for part in parts], [part.y for part in parts], truth)


@dataclass(frozen=True)
class Library:
    """A federation as Coterie divides it: `coterie cluster --dataset ... --partition ... --clients ...`."""

    data: str
    clients: int
    partition: str | None = None
    option: tuple[str, float] | None = None

    def make(self, seed: int) -> Clients:
        """Load it; without true groups, those with the same set of labels belong together."""
        options = dict([self.option]) if self.option else {}
        division = (self.partition, options) if self.partition else None
        data = load(self.data, {} if division else options, division, self.clients, seed)
        x, y = ([of[part] for part in data.train_parts] for of in (data.train.x, data.train.y))
        if data.true_groups is not None:
            return Clients(x, y, data.true_groups.tolist())
        sets = [tuple(np.unique(labels)) for labels in y]
        return Clients(x, y, [0] * len(x) if self.partition == "iid" else [sets.index(own) for own in sets])


@dataclass(frozen=True)
class Copies:
    """20 IID clients whose distinct samples are there several times each."""

    data: str
    distinct: int
    times: int

    def make(self, seed: int) -> Clients:
        """Deal and repeat."""
        parts = dealt(self.data, (self.distinct,) * 20, seed)
        x, y = ([np.repeat(of, self.times, axis=0) for of in many] for many in zip(*map(_pair, parts), strict=True))
        return Clients(x, y, [0] * 20)


def _pair(part: Samples) -> tuple[Array, Array]:
    return part.x, part.y


@dataclass(frozen=True)
class Tilted:
    """20 clients in two groups whose images are turned a little, half of it one way and half the other."""

    data: str
    samples: int
    degrees: float

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts, truth = dealt(self.data, (self.samples,) * 20, seed), [i % 2 for i in range(20)]
        x = [tilted(part.x, (group - 0.5) * self.degrees) for part, group in zip(parts, truth, strict=True)]
        return Clients(x, [part.y for part in parts], truth)


@dataclass(frozen=True)
class Smooth:
    """40 clients, each of whom sees images turned by another angle, evenly spread: there are no groups."""

    data: str
    samples: int
    widest: float = 90.0

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts = dealt(self.data, (self.samples,) * 40, seed)
        x = [tilted(part.x, self.widest * i / 39) for i, part in enumerate(parts)]
        return Clients(x, [part.y for part in parts], list(range(40)))


# Measuring -----------------------------------------------------------------------------------------------------------


class Described(NamedTuple):
    """What clients send, and what the server makes of it."""

    proximity: Floats
    """Degrees, `theta1` between signatures of all samples, (n, n)."""
    per_label: Floats
    """Degrees, `min_entry` between signatures per label, for `demo`, (n, n)."""
    halves: Floats
    """Degrees between the halves of each client, NaN for too few samples, (n,)."""
    noise: Floats
    """ν, (n,)."""
    samples: float
    """The median number of them."""


def describe(clients: Clients, seed: int) -> Described:
    """Do what `pacfl` does before training, without the machinery of a run."""
    whole = [signature(x, VECTORS).astype(np.float32) for x in clients.x]
    labelled = [signature(x, VECTORS, y).astype(np.float32) for x, y in zip(clients.x, clients.y, strict=True)]
    told = [split_half_distance(x, VECTORS, stream(seed, "halves", i), splits=SPLITS) for i, x in enumerate(clients.x)]
    halves = np.array([np.nan if one is None else one for one in told])
    sizes = [len(x) for x in clients.x]
    proximity = principal_angles(whole)
    per_label = principal_angles(labelled, measure="min_entry")
    return Described(proximity, per_label, halves, noise(halves, sizes, proximity), float(np.median(sizes)))


def grouped(described: Described, rule: str) -> Grouping:
    """Group by a rule of `RULES`, as Coterie would."""
    made = RULES[rule].make("auto", samples=described.samples)
    if "noise" in made.needs:
        return made.group(described.proximity, described.noise)
    return made.group(described.per_label if made.per_label else described.proximity)


class Verdict(NamedTuple):
    """What a rule said."""

    ari: float
    groups: int
    confidence: float


class Outcome(NamedTuple):
    """What all rules said of one federation, and its distances in units of noise."""

    verdicts: dict[str, Verdict]
    within: Floats
    between: Floats
    true: int
    reason: str
    labels: list[int]
    """By rule `auto`."""
    highest: float
    """Merge in its tree, in units of noise."""
    halves: Floats


def outcome(task: tuple[Case, int]) -> Outcome:
    """Make a federation and ask all rules."""
    case, seed = task
    clients = case.make(seed)
    described = describe(clients, seed)
    found = {rule: grouped(described, rule) for rule in RULES}
    verdicts = {
        rule: Verdict(adjusted_rand_index(one.labels.tolist(), clients.truth), one.n_groups, one.confidence or 0.0)
        for rule, one in found.items()
    }
    ratio = in_units_of_noise(described.proximity, described.noise)
    truth, pairs = np.array(clients.truth), np.triu(np.ones(ratio.shape, bool), 1)
    same = truth[:, None] == truth
    auto = found["auto"]
    return Outcome(
        verdicts,
        ratio[pairs & same],
        ratio[pairs & ~same],
        len(set(clients.truth)),
        auto.reason,
        auto.labels.tolist(),
        float(auto.heights[-1]),
        described.halves,
    )


def trained(task: tuple[dict[str, Any], int]) -> tuple[float, float, float, int]:
    """Train and return the accuracies L, C and +, in per cent, and the number of groups."""
    settings, seed = task
    result = coterie.run(**settings, algorithm="pacfl", seed=seed, eval_every=0, workers=1)
    assert result.groups is not None
    told = [100 * (result.accuracy[key] or math.nan) for key in ("L", "C", "plus")]
    return told[0], told[1], told[2], len(set(result.groups))


class Bench:
    """Runs federations, two at a time, and remembers what came out."""

    def __init__(self, pool: Executor, folder: Path | None, quick: bool) -> None:
        self.pool, self.folder, self.quick = pool, folder, quick
        self.known: dict[tuple[Case, int], Outcome] = {}

    def seeds(self, count: int, first: int = 0) -> range:
        """Return so many seeds, or two where it shall be quick."""
        return range(first, first + (min(count, 2) if self.quick else count))

    def outcomes(self, cases: Iterable[Case], seeds: Iterable[int]) -> list[list[Outcome]]:
        """Return what came out for each case and each seed."""
        cases, seeds = list(cases), list(seeds)
        tasks = [(case, seed) for case in cases for seed in seeds]
        new = [task for task in dict.fromkeys(tasks) if task not in self.known]
        self.known |= dict(zip(new, self.pool.map(outcome, new), strict=True))
        return [[self.known[case, seed] for seed in seeds] for case in cases]

    def one(self, case: Case, seed: int = 0) -> Outcome:
        """Return what came out once."""
        return self.outcomes([case], [seed])[0][0]

    def save(self, figure: Figure, name: str, *needs: str) -> None:
        """Write a picture, unless none are wanted or data are missing that it shows."""
        if self.folder is not None and all(map(is_here, needs)):
            figure.savefig(self.folder / f"{name}.png", dpi=110)
        else:
            print(f"\n(picture {name} not written)")


def mean_ari(outcomes: Sequence[Outcome], rule: str) -> float:
    """Return the mean agreement with the truth."""
    return float(np.mean([one.verdicts[rule].ari for one in outcomes]))


def share_right(outcomes: Sequence[Outcome], rule: str) -> float:
    """Return the share of federations in which all groups were found exactly."""
    return float(np.mean([one.verdicts[rule].ari == 1 for one in outcomes]))


def counts(outcomes: Sequence[Outcome], rule: str) -> list[int]:
    """Return the numbers of groups found."""
    return [one.verdicts[rule].groups for one in outcomes]


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers with two digits behind the point."""
    print(f"\n**{title}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    sys.stdout.flush()


def missing(*names: str) -> bool:
    """Say which data are not here; return whether there are such."""
    absent = [name for name in names if not is_here(name)]
    if absent:
        print(f"\n(left out: {', '.join(absent)} not in the folder that COTERIE_DATA names)")
    return bool(absent)


def canvas(width: float, height: float, panels: int) -> tuple[Figure, list[Axes]]:
    """Return a picture with axes side by side."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    for one in axes:
        one.grid(alpha=0.3)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


# Parts ---------------------------------------------------------------------------------------------------------------


def part_noise(bench: Bench) -> None:
    """Halves against samples, and whether two clients are as far apart as their halves foretell."""
    sizes = {"digits": (8, 16, 32, 64, 88), "fashion_mnist": (8, 16, 32, 64, 128, 256), "cifar10": (16, 32, 64, 128)}
    seeds = bench.seeds(5)
    figure, (left, right) = canvas(9, 3.6, 2)
    rows: list[list[object]] = []
    for k, (name, many) in enumerate(sizes.items()):
        if missing(name):
            continue
        found = bench.outcomes([even(name, 20, n, 1) for n in many], seeds)
        half = [float(np.mean([one.halves.mean() for one in ones])) for ones in found]
        ratio = [float(np.mean([one.within.mean() for one in ones])) for ones in found]
        left.loglog(many, np.array(half) / 2, color=COLOURS[k], marker=MARKERS[k], label=name)
        left.loglog(many, half[2] / 2 * np.sqrt(many[2] / np.array(many)), ":", color=COLOURS[k])
        right.semilogx(many, ratio, color=COLOURS[k], marker=MARKERS[k], label=name)
        rows += [
            [name, n, d, d / 2, f"{d / 2 * math.sqrt(n):.1f}", r] for n, d, r in zip(many, half, ratio, strict=True)
        ]
    left.set(xlabel="samples n of a client", ylabel="noise ν = d / 2 (degrees)", title="Noise falls as σ / √n (dotted)")
    right.axhline(1, color="black", linewidth=1)
    right.set(xlabel="samples n of a client", ylabel="distance / noise", title="Two clients of one distribution")
    right.set_ylim(0, 1.6)
    for axes in (left, right):
        ticks = [8, 16, 32, 64, 128, 256]
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
    left.set_ylim(1.5, 14)
    left.set_yticks([2, 3, 5, 10], ["2", "3", "5", "10"])
    left.legend(frameon=False)
    bench.save(figure, "noise", *sizes)
    head = ("data, IID", "samples", "halves d (°)", "ν = d/2 (°)", "ν√n", "distance / noise")
    table(f"noise: 20 clients, {len(seeds)} seeds", head, rows)


def part_ratios(bench: Bench) -> None:
    """Distances in units of noise, inside the true groups and between them."""
    seeds = bench.seeds(20)
    clients = (20, 40, 56)
    found = bench.outcomes([Library("digits-rotated", n) for n in clients], seeds)
    figure, panels = canvas(10, 3.2, 3)
    rows = []
    for axes, n, ones in zip(panels, clients, found, strict=True):
        samples = int(np.median([len(x) for x in Library("digits-rotated", n).make(0).x]))
        factor = 1 + 0.45 * min(1, samples / 36)
        within, between = (np.concatenate([getattr(one, side) for one in ones]) for side in ("within", "between"))
        bins = np.geomspace(0.4, 20, 50).tolist()
        for pairs, colour, label in ((within, COLOURS[0], "same group"), (between, COLOURS[1], "other group")):
            axes.hist(pairs, bins, color=colour, alpha=0.7, weights=np.full(len(pairs), 100 / len(pairs)), label=label)
        axes.axvline(factor, ymax=0.7, color="black", linestyle="--", linewidth=1.2, label=f"cut {factor:.2f}")
        axes.set_ylim(0, 28)
        axes.set(xscale="log", title=f"{n} clients, {samples} samples each", xlabel="distance / noise")
        axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=8)
        low, high = np.quantile(within, 0.95), np.quantile(between, 0.05)
        wrong = f"{100 * (within > factor).mean():.1f} %", f"{100 * (between <= factor).mean():.1f} %"
        rows.append([f"{n} ({samples})", factor, within.mean(), low, high, *wrong, f"{mean_ari(ones, 'auto'):.3f}"])
    panels[0].set_ylabel("share of such pairs (%)")
    bench.save(figure, "ratios")
    head = (
        "clients (samples)",
        "cut",
        "same group: mean",
        "95 % below",
        "other group: 95 % above",
        "same group, above the cut",
        "other group, below the cut",
        "ARI",
    )
    table(f"ratios: digits-rotated, {len(seeds)} seeds", head, rows)


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


def part_angles(bench: Bench) -> None:
    """The angles that PACFL and the dissertation print, and ours."""
    names = ("cifar10", "svhn", "fashion_mnist", "usps")
    if missing(*names):
        return

    def coloured(x: Array) -> Array:
        pad = (32 - x.shape[2]) // 2
        return np.pad(x.repeat(3 // x.shape[1], axis=1), ((0, 0), (0, 0), (pad, pad), (pad, pad)))

    parts = [signature(coloured(pooled(name).x[:500]), 2) for name in names]
    measured, smallest = (principal_angles(parts, measure=measure) for measure in ("min_abs", "theta1"))
    published = {(0, 1): 6.13, (0, 2): 45.79, (0, 3): 66.26, (1, 2): 43.42, (1, 3): 64.86, (2, 3): 43.36}
    rows: list[list[object]] = [
        [f"{names[i]}, {names[j]}", float(measured[i, j]), value, float(smallest[i, j])]
        for (i, j), value in published.items()
    ]
    clothes = pooled("fashion_mnist")
    trouser, dress, bag = (signature(clothes.x[clothes.y == c], 3) for c in (1, 3, 8))
    for name, other, value in (("Trouser, Dress", dress, 22.47), ("Trouser, Bag", bag, 51.7)):
        ours, least = (principal_angles([trouser], [other], measure).item() for measure in ("min_abs", "theta1"))
        rows.append([name, ours, value, least])
    table("angles, degrees", ("pair", "ours, min_abs", "published", "ours, theta1"), rows)


PARTS: dict[str, Callable[[Bench], None]] = {
    "noise": part_noise,
    "ratios": part_ratios,
    "fresh": part_fresh,
    "samples": part_samples,
    "counts": part_counts,
    "imbalance": part_imbalance,
    "rules": part_rules,
    "subtle": part_subtle,
    "failures": part_failures,
    "skew": part_skew,
    "training": part_training,
    "dial": part_dial,
    "confidence": part_confidence,
    "angles": part_angles,
}


def check() -> None:
    """Make sure that what is measured here is what `coterie cluster` does."""
    described = describe(Library("digits-rotated", 20).make(0), 0)
    for rule in COMPARED:
        theirs = coterie.cluster(dataset="digits-rotated", clients=20, seed=0, rule=rule).grouping
        ours = grouped(described, rule)
        assert np.array_equal(ours.labels, theirs.labels), rule
        assert ours.proximity is not None
        assert theirs.proximity is not None
        assert np.allclose(ours.proximity, theirs.proximity), rule


def single_threaded() -> None:
    """Let each process use one core; those to come read the environment, this one has read it."""
    from scipy import linalg  # noqa: F401  (which brings a library with threads of its own)
    from threadpoolctl import threadpool_limits

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="two seeds each, and no pictures but with --out")
    parser.add_argument("--out", type=Path, help="folder for the pictures; by default that of this file")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    folder: Path | None = asked.out or (None if asked.quick else Path(__file__).parent)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    single_threaded()
    check()
    began = time.perf_counter()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        bench = Bench(pool, folder, asked.quick)
        for name in asked.parts or PARTS:
            started = time.perf_counter()
            PARTS[name](bench)
            print(f"\n<!-- {name}: {time.perf_counter() - started:.0f} s -->", flush=True)
    spent = os.times()
    seconds = spent.user + spent.system + spent.children_user + spent.children_system
    print(f"\n<!-- all: {time.perf_counter() - began:.0f} s, {seconds:.0f} s of all cores together -->")


if __name__ == "__main__":
    main()

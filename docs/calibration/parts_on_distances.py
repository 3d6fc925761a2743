"""The parts about distances between clients: noise, distances in units of it, and published angles."""

from __future__ import annotations

import math

import numpy as np
from federations import Array, Library, even, pooled
from measuring import Bench, mean_ari
from tables_and_pictures import canvas, missing, table

from coterie.report.static import COLOURS, MARKERS
from coterie.similarity import principal_angles, signature


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

"""Estimate a mean from few points (chapter 6, Figure 6.2): three Gaussians, a block model, and the effect of ℓ.

    python examples/coreset/means.py [SEEDS]

f is 1 on the smallest component and 0 elsewhere; the error is (Σ w_s f(s) − mean f)². Costs are uniform on [0, 1].
Gaussians: 10,000 points, shares 20/30/50 %, graph of 10 nearest neighbours, ℓ = 100. Block model: 1,000 nodes in
blocks of 10/50/40 %, edges with probability 0.05 within and 0.005 between blocks, ℓ = 20.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from tools import figure, gaussians, lines, other, save, scgiga, table

from coterie.coreset import WeightedNodes, neighbour_graph, walk_on
from coterie.reproduce.graphs import block_model
from coterie.streams import stream

GAUSSIAN_SIZES, BLOCK_SIZES = [3, 5, 8, 11, 14], [3, 5, 10, 20, 28]
STEPS = [1, 2, 5, 10, 20, 50]


def methods(points: Any = None) -> dict[str, Any]:
    """SCGIGA with and without costs, with its own weights and with Σw = 1, and the baselines."""
    return {
        "SCGIGA": scgiga(normalise=False),
        "SCGIGA, Σw = 1": scgiga(),
        "SCGIGA κ = 0.5, Σw = 1": scgiga(0.5),
        "Frank-Wolfe": other("frank-wolfe", seeded=False),
        "Frank-Wolfe, shares": other("frank-wolfe", seeded=False, share=True),
        "k-means": other("k-means", points=points),
        "spectral": other("spectral"),
        "random": other("random"),
    }


def squared_error(found: WeightedNodes, f: Any) -> float:
    """Return (Σ w_s f(s) − mean f)²."""
    return float(found.estimate(f) - f.mean()) ** 2


def compare(make: Any, sizes: list[int], steps: int, seeds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the errors, (seeds, sizes), and the costs at the largest size, of every method."""
    errors: dict[str, list[Any]] = {}
    costs: dict[str, list[float]] = {}
    for seed in range(seeds):
        graph, points, f, cost = make(stream(seed, "means"))
        walk = walk_on(graph, steps)
        for name, method in methods(points).items():
            found = method(walk, sizes, cost, seed)
            errors.setdefault(name, []).append([squared_error(one, f) for one in found])
            costs.setdefault(name, []).append(found[-1].total_cost)
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    return {name: np.array(rows) for name, rows in errors.items()}, {n: np.array(c) for n, c in costs.items()}


def cloud(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return a graph of three Gaussians, its points, f and costs."""
    x, component = gaussians(10_000, (0.2, 0.3, 0.5), rng)
    return neighbour_graph(x), x, (component == 0).astype(float), rng.random(len(x))


def blocks(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return a block model, no points, f and costs."""
    graph, block = block_model((100, 500, 400), 0.05, 0.005, rng)
    return graph, None, (block == 0).astype(float), rng.random(1000)


def show(title: str, sizes: list[int], errors: dict[str, Any], costs: dict[str, Any]) -> None:
    """Print the median errors and mean costs."""
    rows = {
        name: [*(f"{value:.1e}" for value in np.median(errors[name], axis=0)), f"{costs[name].mean():.2f}"]
        for name in errors
    }
    table(title, [*(f"K = {k}" for k in sizes), f"cost, K = {sizes[-1]}"], rows)


def main(seeds: int = 3) -> None:
    """Run the three parts, print their tables and draw them."""
    made, axes = figure(3)
    for place, title, make, sizes, steps in (
        (axes[0], "three Gaussians", cloud, GAUSSIAN_SIZES, 100),
        (axes[1], "block model", blocks, BLOCK_SIZES, 20),
    ):
        errors, costs = compare(make, sizes, steps, seeds)
        show(f"{title}: squared error, median of {seeds} seeds", sizes, errors, costs)
        lines(place, sizes, {n: np.median(e, axis=0) for n, e in errors.items()}, title, "points", "squared error")
        place.set_yscale("log")
    sweep: dict[str, Any] = {}
    rows: dict[str, list[str]] = {}
    for steps in STEPS:
        errors_at = []
        for seed in range(seeds):
            graph, _, f, cost = blocks(stream(seed, "means"))
            found = scgiga()(walk_on(graph, steps), BLOCK_SIZES, cost, seed)
            errors_at.append([squared_error(one, f) for one in found])
        sweep[f"ℓ = {steps}"] = np.median(errors_at, axis=0)
        rows[f"ℓ = {steps}"] = [f"{value:.1e}" for value in sweep[f"ℓ = {steps}"]]
    table(f"block model, SCGIGA with Σw = 1: squared error, median of {seeds} seeds", BLOCK_SIZES, rows)
    lines(axes[2], BLOCK_SIZES, sweep, "block model, SCGIGA with Σw = 1", "points", "squared error")
    axes[2].set_yscale("log")
    axes[2].set_ylim(1e-4, 2e-2)
    axes[2].legend(loc="lower left", frameon=False, fontsize=8, ncols=3)
    save(made, "means.png", axes[0])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

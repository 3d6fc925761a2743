"""What the experiments share: graphs, methods, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from coterie.coreset import BASELINES, Ascent, Walk, WeightedNodes
from coterie.report.static import COLOURS, MARKERS

threadpool_limits(1)  # matrices are small, and threads would cost more than they give

PICTURES = Path("docs/coreset")
MEANS = np.array([[1, -3], [-3, 2], [3, 0]])
"""Of the three Gaussian components."""

Method = Callable[[Walk, Sequence[int], Any, int], list[WeightedNodes]]
"""From a walk, numbers of points, costs and a seed to a selection for each number."""


def scgiga(kappa: float = 1.0, normalise: bool = True) -> Method:
    """SCGIGA: one ascent gives the selections of all sizes."""

    def method(walk: Walk, sizes: Sequence[int], costs: Any, seed: int) -> list[WeightedNodes]:
        ascent = Ascent(walk, costs, kappa)
        return [ascent.run(k).selection(normalise) for k in sizes]

    return method


def different(walk: Walk, k: int, costs: Any, kappa: float = 1.0) -> Ascent:
    """Let SCGIGA go on until k different nodes have weight, or for 10 k iterations: it may choose a node again."""
    ascent = Ascent(walk, costs, kappa)
    while len(ascent.weights) < k and ascent.iterations < 10 * k and ascent.advance():
        pass
    return ascent


def other(name: str, seeded: bool = True, **options: Any) -> Method:
    """A baseline, anew for every number of points."""

    def method(walk: Walk, sizes: Sequence[int], costs: Any, seed: int) -> list[WeightedNodes]:
        given = {**options, "seed": seed} if seeded else options
        return [BASELINES[name](walk, k, costs, **given) for k in sizes]

    return method


def gaussians(n: int, shares: Sequence[float], rng: np.random.Generator) -> tuple[Any, Any]:
    """Points of three components around MEANS, with identity covariance, and the component of each."""
    component = np.repeat(np.arange(3), np.round(np.multiply(shares, n)).astype(int))
    return MEANS[component] + rng.normal(size=(len(component), 2)), component


def table(title: str, columns: Sequence[object], rows: Mapping[str, Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n\n| method | {' | '.join(map(str, columns))} |\n|---|{'---:|' * len(columns)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def lines(axes: Any, x: Sequence[float], curves: Mapping[str, Any], title: str, xlabel: str, ylabel: str) -> None:
    """Draw a curve per method, each with a colour and a marker of its own."""
    for number, (name, y) in enumerate(curves.items()):
        again, colour = divmod(number, len(COLOURS))
        axes.plot(
            x, y, color=COLOURS[colour], marker=MARKERS[(colour + 4 * again) % len(MARKERS)], markersize=5,
            linewidth=1.5, linestyle="--" if again else "-", label=name,
        )  # fmt: skip
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def figure(columns: int, width: float = 4.2) -> tuple[Any, Any]:
    """Return a figure and its axes, side by side."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width * columns, 3.9), layout="constrained")
    return made, [made.add_subplot(1, columns, i + 1) for i in range(columns)]


def save(made: Any, name: str, axes: Any = None, columns: int = 4) -> None:
    """Write a picture into PICTURES, with one legend below, if axes are given."""
    if axes is not None:
        handles, labels = axes.get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    made.savefig(PICTURES / name, dpi=120)
    print(f"\nwrote {PICTURES / name}")

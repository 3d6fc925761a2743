"""Where 2 % of the points are chosen, with and without costs (chapter 6, Figure 6.3).

    python examples/coreset/pictures.py

2,000 points of three Gaussians with shares 50/20/30 %, graph of 10 nearest neighbours, ℓ = 50, 40 different nodes.
Costs are uniform around the components' means 3.25, 0.51 and 2.04 (by ±50 %), κ = 0.2; against all costs equal, κ = 1.
"""

from __future__ import annotations

import numpy as np
from tools import COLOURS, different, figure, gaussians, save, table

from coterie.coreset import neighbour_graph, walk_on
from coterie.streams import stream

SHARES = (0.3, 0.5, 0.2)
"""Of the lower, the upper left and the middle component."""
COSTS = np.array([2.04, 3.25, 0.51])
NAMES = ("lower", "upper left", "middle")
POINTS, CHOSEN, STEPS = 2000, 40, 50


def main() -> None:
    """Choose, print how many of which component, and draw them."""
    rng = stream(0, "pictures")
    x, component = gaussians(POINTS, SHARES, rng)
    cost = COSTS[component] * rng.uniform(0.5, 1.5, POINTS)
    walk = walk_on(neighbour_graph(x), STEPS)
    fits = {
        "costs of the components, κ = 0.2": different(walk, CHOSEN, cost, 0.2).selection(),
        "equal costs, κ = 1": different(walk, CHOSEN, cost).selection(),
    }
    made, axes = figure(2, 5.2)
    rows = {}
    for place, (name, found) in zip(axes, fits.items(), strict=True):
        for part in (1, 2, 0):
            mine = found.indices[component[found.indices] == part]
            place.scatter(*x[component == part].T, s=4, color=COLOURS[part], alpha=0.25, linewidths=0)
            label = f"{NAMES[part]}: {len(mine)} chosen, mean cost {COSTS[part]}"
            place.scatter(*x[mine].T, s=42, color=COLOURS[part], edgecolor="black", marker="os^"[part], label=label)
        place.set(title=f"{name}\n{len(found.indices)} nodes, total cost {found.total_cost:.1f}", aspect="equal")
        place.legend(loc="upper right", fontsize=8, framealpha=0.9)
        place.set(xlim=(-7, 7.5), ylim=(-7.5, 7.5))
        counts = [f"{int((component[found.indices] == part).sum())}" for part in (1, 2, 0)]
        weights = [f"{found.weights[component[found.indices] == part].sum():.3f}" for part in (1, 2, 0)]
        rows[name] = [*counts, *weights, f"{found.total_cost:.1f}", f"{found.error:.4f}"]
    header = [f"{NAMES[part]} ({what})" for what in ("nodes", "Σw") for part in (1, 2, 0)]
    table("chosen per component (shares of the points: 50, 20, 30 %)", [*header, "cost", "error"], rows)
    save(made, "pictures.png")


if __name__ == "__main__":
    main()

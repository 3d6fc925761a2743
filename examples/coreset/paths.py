"""Estimate every node's mean distance to all others from few reference nodes (chapter 6, Figure 6.4).

    python examples/coreset/paths.py [SEEDS] [STEPS]

The estimate for node v is Σ w_s d(v, s), in hops; the error is the mean over v of its absolute difference from the
mean of d(v, u) over all u. Graphs: a power-law tree of 1,000 nodes (each new node joins an old one with probability
proportional to its degree), a random graph of 1,000 nodes with 3,000 edges, and the Facebook graph where COTERIE_DATA
has facebook_combined.npz (4,039 nodes, one run: only random draws differ). Of graphs that are not connected the
largest component is taken. ℓ is 10, or STEPS. Costs are uniform on [0, 1].
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from tools import Method, data_file, figure, lines, log_scale, other, save, scgiga, table

from coterie.coreset import BASELINES, Selection, Walk, shares, walk_on
from coterie.coreset.files import read_graph, undirected
from coterie.coreset.selection import selection
from coterie.streams import stream

SIZES = [5, 10, 20, 40]
NODES = 1000


def by_betweenness(share: bool = False) -> Method:
    """The most central nodes; the centralities are computed once for all numbers of nodes."""

    def method(walk: Walk, sizes: Sequence[int], costs: Any, seed: int) -> list[Selection]:
        nodes = BASELINES["betweenness"](walk, max(sizes), costs).indices
        weights = [shares(walk.p, nodes[:k]) if share else np.full(k, 1 / k) for k in sizes]
        return [selection(walk, nodes[:k], w, costs) for k, w in zip(sizes, weights, strict=True)]

    return method


METHODS = {
    "SCGIGA, Σw = 1": scgiga(),
    "SCGIGA κ = 0.5, Σw = 1": scgiga(0.5),
    "Frank-Wolfe": other("frank-wolfe", seeded=False),
    "Frank-Wolfe, shares": other("frank-wolfe", seeded=False, share=True),
    "betweenness": by_betweenness(),
    "betweenness, shares": by_betweenness(share=True),
    "random": other("random"),
}


def tree(rng: np.random.Generator) -> Any:
    """Return a tree that grows by preferential attachment."""
    ends = [0, 1]  # every end of every edge: a draw from it is proportional to degree
    for node in range(2, NODES):
        ends += [int(rng.choice(ends)), node]
    return undirected(np.array(ends).reshape(-1, 2), np.ones(NODES - 1), NODES, str)


def random_graph(rng: np.random.Generator) -> Any:
    """Return the largest component of a graph with edges drawn uniformly."""
    edges = rng.integers(0, NODES, (3 * NODES, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return largest(undirected(edges, np.ones(len(edges)), NODES, str))


def largest(graph: Any) -> Any:
    """Return the largest component."""
    _, which = connected_components(graph)
    inside = np.flatnonzero(which == np.bincount(which).argmax())
    return csr_array(graph[inside][:, inside])


def path_error(found: Selection, distances: Any) -> float:
    """Return the mean over nodes of |Σ w_s d(v, s) − mean d(v, ·)|."""
    return float(np.abs(distances[:, found.indices] @ found.weights - distances.mean(axis=1)).mean())


def compare(make: Any, steps: int, seeds: int, draw: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return errors, (seeds, sizes), and costs at the largest size; without `draw` all seeds share a graph."""
    errors: dict[str, list[Any]] = {}
    costs: dict[str, list[float]] = {}
    walk: Any = None
    for seed in range(seeds):
        rng = stream(seed, "paths")
        if walk is None or draw:
            graph = make(rng)
            walk = walk_on(graph, steps)
            distances = shortest_path(graph, unweighted=True)
        cost = rng.random(walk.n)
        for name, method in METHODS.items():
            if not draw and seed > 0 and not ("random" in name or "κ" in name):
                continue  # the same again
            found = method(walk, SIZES, cost, seed)
            errors.setdefault(name, []).append([path_error(one, distances) for one in found])
            costs.setdefault(name, []).append(found[-1].total_cost)
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    return {n: np.array(e) for n, e in errors.items()}, {n: np.array(c) for n, c in costs.items()}


def main(seeds: int = 3, steps: int = 10) -> None:
    """Run all graphs, print a table of each and draw them."""
    graphs: dict[str, tuple[Any, bool]] = {"power-law tree": (tree, True), "random graph": (random_graph, True)}
    if file := data_file("facebook_combined.npz"):
        graphs["Facebook"] = (lambda rng: largest(read_graph(file).adjacency), False)
    made, axes = figure(len(graphs))
    for place, (title, (make, draw)) in zip(axes, graphs.items(), strict=True):
        errors, costs = compare(make, steps, seeds, draw)
        rows = {
            name: [
                *(f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(e.mean(axis=0), e.std(axis=0), strict=True)),
                f"{costs[name].mean():.2f}",
            ]
            for name, e in errors.items()
        }
        header = [*(f"K = {k}" for k in SIZES), f"cost, K = {SIZES[-1]}"]
        table(f"{title}: error of mean distances in hops, mean ± deviation over {seeds} seeds", header, rows)
        lines(place, SIZES, {n: e.mean(axis=0) for n, e in errors.items()}, title, "reference nodes", "error (hops)")
        place.set(xscale="log", xticks=SIZES, xticklabels=SIZES)
        place.minorticks_off()
        log_scale(place.yaxis)
    save(made, "paths.png", axes[0])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

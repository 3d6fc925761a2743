"""SCGIGA's time and memory: at three sizes of graph, and against a dense implementation at 20,000 nodes.

    python benchmarks/coreset.py [--sizes 50000 200000 1000000] [--dense 20000] [--points 100]

Graphs are random: five times as many undirected edges as nodes, costs uniform on [0, 1], κ = 0.9, ℓ = 1. Each graph
runs in a process of its own, so that its peak memory is its own; the graph and Python are in it. Preparing is
what happens once: checks, the walk and the lengths of its columns.

The dense implementation is the algorithm as it stands in the text: the n × n matrix of unit columns, and one product
of it with y per point. Both choose the same points in the same run. CPU is what all threads took together: on a busy
machine it says more than the seconds.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import time
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from coterie.coreset import Ascent, walk_on

KAPPA = 0.9


def graph(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, n, (2, 5 * n + 5))
    i, j = i[i != j], j[i != j]
    a = csr_array(coo_array((np.ones(len(i)), (i, j)), shape=(n, n)))
    a = a.maximum(a.T)
    a.data[:] = 1
    return a, rng.random(n)


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def sparse(n: int, points: int) -> dict[str, float]:
    a, costs = graph(n)
    began = clocks()
    ascent = Ascent(walk_on(a), costs, KAPPA)
    ready = clocks()
    ascent.run(points)
    ended = clocks()
    return {
        "nodes": n,
        "edges": a.nnz / 2,
        "prepare": ready[0] - began[0],
        "choose": ended[0] - ready[0],
        "cpu": ended[1] - began[1],
        "per_point": (ended[1] - ready[1]) / ascent.iterations,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def dense(n: int, points: int) -> dict[str, Any]:
    """The text's algorithm with a dense matrix, timed, and the same by the sparse one."""
    a, costs = graph(n)
    began = clocks()
    ascent = Ascent(walk_on(a), costs, KAPPA).run(points)
    quick = clocks()
    degrees = a.sum(axis=1)
    p = a.toarray()
    p /= degrees.max()
    p[np.diag_indices(n)] = 1 - degrees / degrees.max()
    p /= np.linalg.norm(p, axis=0)
    star, w, y = np.full(n, 1 / math.sqrt(n)), np.zeros(n), np.zeros(n)
    target = p.T @ star
    ready = clocks()
    for _ in range(points):
        inner = p.T @ y
        ahead = star - (star @ y) * y
        score = (target - (star @ y) * inner) / np.linalg.norm(ahead) / np.sqrt(np.maximum(1 - inner**2, 1e-300))
        score[inner >= 1 - 1e-14] = -np.inf
        window = np.flatnonzero(score >= KAPPA * score.max())
        v = int(window[np.argmin(costs[window])])
        z0, z1, z2 = target[v], star @ y, inner[v]
        delta = (z0 - z1 * z2) / ((z0 - z1 * z2) + max(z1 - z0 * z2, 0)) if y.any() else 1.0
        w *= 1 - delta
        w[v] += delta
        y = (1 - delta) * y + delta * p[:, v]
        w, y = w / np.linalg.norm(y), y / np.linalg.norm(y)
    ended = clocks()
    same = np.zeros(n)
    same[list(ascent.weights)] = list(ascent.weights.values())
    np.testing.assert_allclose(same, w, atol=1e-9)
    return {
        "sparse": quick[0] - began[0],
        "sparse_cpu": quick[1] - began[1],
        "dense": ended[0] - quick[0],
        "dense_cpu": ended[1] - quick[1],
        "dense_per_point": (ended[1] - ready[1]) / points,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def alone(function: Any, *arguments: int) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--dense", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=100)
    options = parser.parse_args()
    print(f"{options.points} points, κ = {KAPPA}, ℓ = 1\n")
    print("     nodes       edges   prepare s   choose s   CPU s   CPU ms per point   ns per edge and point   peak GiB")
    for n in options.sizes:
        row = alone(sparse, n, options.points)
        print(
            f"{n:10,} {row['edges']:11,.0f} {row['prepare']:11.2f} {row['choose']:10.2f} {row['cpu']:7.2f} "
            f"{1e3 * row['per_point']:18.2f} {1e9 * row['per_point'] / row['edges']:23.1f} {row['peak']:10.2f}"
        )
    if options.dense:
        row = alone(dense, options.dense, options.points)
        print(
            f"\n{options.dense:,} nodes: sparse {row['sparse']:.2f} s (CPU {row['sparse_cpu']:.2f}), "
            f"dense {row['dense']:.1f} s (CPU {row['dense_cpu']:.1f}; {1e3 * row['dense_per_point']:.0f} ms a point), "
            f"{row['dense'] / row['sparse']:.0f} times as long; the same weights; peak {row['peak']:.1f} GiB"
        )


if __name__ == "__main__":
    main()

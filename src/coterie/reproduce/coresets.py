"""Chapter 6: coresets of graphs beside their baselines."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.reproduce.catalogue import Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published
from coterie.reproduce.graphs import block_model
from coterie.results.charts import Lines, Series, values
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
BESIDE = ("frank-wolfe", "k-means", "random")
"""Baselines that are drawn beside SCGIGA."""


def coreset(item: Reproducible, session: ReproductionSession) -> Findings:
    """Coresets of graphs beside their baselines: error against the number of nodes, cost, or whose nodes they are."""
    from coterie.coreset import Coreset

    options, seed = item.entry.options, session.request.seeds_of(item)[0]
    adjacency, function, cost = GRAPHS[options["data"]](options["n"], stream(seed, "coreset"))
    measure, truth = options.get("measure", "cost"), float(function.mean())
    sizes = range(1, options["most"] + 1)
    lines, series = [], []
    for cell in session.request.cells(item):
        fitted = Coreset(1, cell.options["kappa"], cell.options["steps"]).fit(adjacency, cost)
        errors = []
        for k in sizes:
            fitted.extend(k)
            errors.append((fitted.estimate(function) - truth) ** 2)
        series.append(Series(name=f"SCGIGA, {cell.label}", x=values(sizes), y=values(errors)))
        ours = {
            "cost": float(fitted.total_cost_),
            "error": errors[-1],
            "share": float(np.mean(function[fitted.indices_] > 0)),
        }[measure]
        lines.append(beside_published(cell, ours, 5 if measure == "error" else 3, measure))
    if "measure" not in options:
        series += _baselines(adjacency, function, cost, options, seed)
    title = item.entry.title
    chart = Lines(title=title, x_label="nodes", y_label="squared error of the mean", series=tuple(series), digits=5)
    return Findings(lines, [chart])


def _baselines(adjacency: Any, function: Floats, cost: Floats, options: dict[str, Any], seed: int) -> list[Series]:
    """Return the errors of baselines, for a few sizes."""
    from coterie.coreset import BASELINES, walk_on

    most, truth = options["most"], float(function.mean())
    sizes = sorted({1, 2, *range(4, most, 4), most})
    walk, series = walk_on(adjacency, options["steps"]), []
    for name in BESIDE:
        own = {"seed": seed} if name != "frank-wolfe" else {}
        errors = [(float(BASELINES[name](walk, k, cost, **own).estimate(function)) - truth) ** 2 for k in sizes]
        series.append(Series(name=name, x=values(sizes), y=values(errors)))
    return series


def gaussian_cloud(n: int, rng: np.random.Generator) -> tuple[Any, Floats, Floats]:
    """Return three Gaussians of 20, 30 and 50 % of the points, who is of the smallest, and costs from U[0, 1]."""
    points, which = _cloud(n, (0.2, 0.3, 0.5), rng)
    return _neighbours(points), (which == 0).astype(np.float64), rng.uniform(size=n)


def components(n: int, rng: np.random.Generator) -> tuple[Any, Floats, Floats]:
    """Return three Gaussians of 50, 20 and 30 %, with a cost each; the function tells who is of the first."""
    points, which = _cloud(n, (0.5, 0.2, 0.3), rng)
    return _neighbours(points), (which == 0).astype(np.float64), np.array([3.25, 0.51, 2.04])[which]


def blocks(n: int, rng: np.random.Generator) -> tuple[Any, Floats, Floats]:
    """Return a stochastic block model of 10, 50 and 40 %, who is of the smallest block, and costs from U[0, 1]."""
    graph, which = block_model([n // 10, n // 2, n - n // 10 - n // 2], 0.1, 0.01, rng)
    return graph, (which == 0).astype(np.float64), rng.uniform(size=n)


def _cloud(n: int, shares: Sequence[float], rng: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    which = np.repeat([0, 1, 2], [round(n * shares[0]), round(n * shares[1]), n - round(n * (shares[0] + shares[1]))])
    return np.array([[1, -3], [-3, 2], [3, 0]])[which] + rng.normal(size=(n, 2)), which


def _neighbours(points: Floats) -> Any:
    from coterie.coreset import neighbour_graph

    return neighbour_graph(points)


GRAPHS: dict[str, Callable[[int, np.random.Generator], tuple[Any, Floats, Floats]]] = {
    "gaussians": gaussian_cloud,
    "components": components,
    "blocks": blocks,
}

"""Chapter 6: coresets of graphs beside their baselines, and what they are good for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.reproduce import gcn
from coterie.reproduce.catalogue import Cell, Column, Reproducible
from coterie.reproduce.graphs import block_model, cora, facebook, random_graph, tree
from coterie.reproduce.lines import line
from coterie.reproduce.trained import Findings, Setting
from coterie.results.charts import Lines, Series, values
from coterie.results.statistics import spread
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Chosen = tuple[Ints, Floats]
"""Nodes, and their weights."""


def coreset(one: Reproducible, setting: Setting) -> Findings:
    """Coresets of graphs beside their baselines: error against the number of nodes, cost, or whose nodes they are."""
    from coterie.coreset import BASELINES, Coreset, walk_on

    options, seed = one.entry.options, setting.request.seeds_of(one)[0]
    adjacency, function, cost = GRAPHS[options["data"]](options["n"], stream(seed, "coreset"))
    most, truth, lines, series = options["most"], float(function.mean()), [], []
    numbers = range(1, most + 1)
    for cell in setting.request.cells(one):
        fitted = Coreset(1, cell.options["kappa"], cell.options["steps"]).fit(adjacency, cost)
        errors = []
        for k in numbers:
            fitted.extend(k)
            errors.append((fitted.estimate(function) - truth) ** 2)
        series.append(Series(name=f"SCGIGA, {cell.label}", x=values(numbers), y=values(errors)))
        told = {
            "cost": float(fitted.total_cost_),
            "error": errors[-1],
            "share": float(np.mean(function[fitted.indices_] > 0)),
        }[options.get("measure", "cost")]
        lines.append(line(cell, told, 5 if options.get("measure") == "error" else 3, options.get("measure", "cost")))
    few = sorted({1, 2, *range(4, most, 4), most})
    known = None if options.get("measure") else walk_on(adjacency, options["steps"])
    for name in ("frank-wolfe", "k-means", "random") if known is not None else ():
        own = {"seed": seed} if name != "frank-wolfe" else {}
        found = [(float(BASELINES[name](known, k, cost, **own).estimate(function)) - truth) ** 2 for k in few]
        series.append(Series(name=name, x=values(few), y=values(found)))
    title = one.entry.title
    chart = Lines(title=title, x_label="nodes", y_label="squared error of the mean", series=tuple(series), digits=5)
    return Findings(lines, [chart])


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


# ---------------------------------------------------------------------------------------------- graphs and seeds


@dataclass(frozen=True)
class Case:
    """A graph of a seed, what its nodes cost, and how good chosen ones are."""

    walk: Any
    costs: Floats
    score: Callable[[Ints, Floats], float]


def graph_labels(one: Reproducible, setting: Setting) -> Findings:
    """Accuracy of a graph network that knows the labels of few nodes, by how these were chosen."""
    epochs = max(1, round(setting.request.rounds_scale * gcn.EPOCHS))

    def cases(column: Column, seeds: Sequence[int]) -> list[Case]:
        from coterie.coreset import walk_on

        made: list[Case] = []
        for seed in seeds:
            graph, features, labels = LABELLED[column.options["dataset"]](seed)
            adjacency = gcn.normalised(graph)
            fixed = made and column.options["dataset"] in FIXED
            walk = made[0].walk if fixed else walk_on(adjacency, one.entry.options["steps"])
            costs = stream(seed, "gcn costs").random(walk.n)
            made.append(Case(walk, costs, _learner(adjacency, features, labels, seed, epochs)))
        return made

    return _by_size(one, setting, cases, labelled_nodes, "labels", "accuracy (%)", lambda sizes: sizes)


def graph_distances(one: Reproducible, setting: Setting) -> Findings:
    """Error of every node's mean distance to all others, estimated from its distances to chosen nodes."""

    def cases(column: Column, seeds: Sequence[int]) -> list[Case]:
        from scipy.sparse.csgraph import shortest_path

        from coterie.coreset import walk_on

        made: list[Case] = []
        for seed in seeds:
            rng = stream(seed, "paths")
            if made and column.options["dataset"] in FIXED:
                made.append(replace(made[0], costs=rng.random(made[0].walk.n)))
                continue
            graph = DISTANT[column.options["dataset"]](rng)
            walk = walk_on(graph, one.entry.options["steps"])
            made.append(Case(walk, rng.random(walk.n), _distance_error(shortest_path(graph, unweighted=True))))
        return made

    def fewer(sizes: Sequence[int]) -> Sequence[int]:
        return sorted({max(1, round(setting.request.rounds_scale * k)) for k in sizes})

    return _by_size(one, setting, cases, reference_nodes, "nodes", "error (hops)", fewer)


def _by_size(
    one: Reproducible,
    setting: Setting,
    cases: Callable[[Column, Sequence[int]], list[Case]],
    choose: Callable[[Mapping[str, Any], Case, Sequence[int], int], list[Chosen]],
    what: str,
    label: str,
    shortened: Callable[[Sequence[int]], Sequence[int]],
) -> Findings:
    """Score the nodes that each row chooses, by their number: a table and a chart per graph."""
    from threadpoolctl import threadpool_limits

    from coterie.training.torch_trainer import one_thread

    seeds, factor = setting.request.seeds_of(one), 100.0 if one.entry.unit == "%" else 1.0
    lines, charts, wanted = [], [], setting.request.cells(one)
    for column in one.columns():
        cells = [cell for cell in wanted if cell.column == column.label]
        if not cells:
            continue
        sizes = shortened(column.options["sizes"])
        scores: dict[str, list[list[float]]] = {cell.row: [] for cell in cells}
        costs: dict[str, list[float]] = {cell.row: [] for cell in cells}
        known: dict[str, list[Chosen]] = {}
        with threadpool_limits(1), one_thread():  # matrices are small: threads would cost more than they give
            for seed, case in zip(seeds, cases(column, seeds), strict=True):
                for cell in cells:
                    key = repr(_kept(cell, seed, column.options["dataset"] in FIXED))
                    if key not in known:
                        known[key] = choose(cell.options, case, sizes, seed)
                    scores[cell.row].append([factor * case.score(*chosen) for chosen in known[key]])
                    costs[cell.row].append(float(case.costs[known[key][-1][0]].sum()))
        for cell in cells:
            by_size = [spread([row[place] for row in scores[cell.row]]) for place in range(len(sizes))]
            beside = {f"{k} {what}": found for k, found in zip(sizes[:-1], by_size, strict=False)}
            own = line(cell, by_size[-1], 3 if factor == 1 else 1, f"{sizes[-1]} {what}")
            lines.append(replace(own, beside={**beside, "cost": spread(costs[cell.row])}, asked=len(seeds)))
        series = [
            Series(name=cell.label, x=values(sizes), y=values(np.mean(scores[cell.row], axis=0))) for cell in cells
        ]
        title = f"{one.entry.title}: {column.label}"
        charts.append(Lines(title=title, x_label=what, y_label=label, series=tuple(series)))
    return Findings(lines, charts)


def _kept(cell: Cell, seed: int, fixed: bool) -> tuple[Any, ...]:
    """Return what decides which nodes are chosen: on a graph that is always the same, not always the seed."""
    by = {key: cell.options.get(key) for key in ("by", "kappa", "share", "weighted")}
    sure = by["by"] in ("frank-wolfe", "betweenness") or (by["by"] == "scgiga" and by["kappa"] in (None, 1.0))
    return (*by.items(), "any" if fixed and sure else seed)


def labelled_nodes(options: Mapping[str, Any], case: Case, sizes: Sequence[int], seed: int) -> list[Chosen]:
    """Choose as many different nodes as asked, each of which counts alike, or by its weight.

    SCGIGA and Frank-Wolfe may choose a node again: they go on until they have as many, or for ten times and twice as
    many iterations.
    """
    from coterie.coreset import BASELINES, Ascent

    found = []
    if options["by"] == "scgiga":
        ascent = Ascent(case.walk, case.costs, options.get("kappa", 1.0))
        for k in sizes:
            while len(ascent.weights) < k and ascent.iterations < 10 * k and ascent.advance():
                pass
            own = ascent.selection()
            found.append((own.indices, own.weights if options.get("weighted") else np.ones(len(own.indices))))
        return found
    again = options["by"] == "frank-wolfe"
    for k in sizes:
        for iterations in (k, 5 * k // 4, 3 * k // 2, 2 * k) if again else (k,):
            more = {} if again else {"seed": seed}
            nodes = BASELINES[options["by"]](case.walk, iterations, case.costs, **more).indices[:k]
            if len(nodes) >= k:
                break
        found.append((nodes, np.ones(len(nodes))))
    return found


def reference_nodes(options: Mapping[str, Any], case: Case, sizes: Sequence[int], seed: int) -> list[Chosen]:
    """Choose nodes whose weights sum to 1, but for Frank-Wolfe's own; `share` gives every node its nearest."""
    from coterie.coreset import BASELINES, Ascent, shares

    by, share = options["by"], bool(options.get("share"))
    if by == "scgiga":
        ascent = Ascent(case.walk, case.costs, options.get("kappa", 1.0))
        found = [ascent.run(k).selection(True) for k in sizes]
    elif by == "betweenness":  # whose centralities are counted once
        nodes = BASELINES[by](case.walk, max(sizes), case.costs).indices
        return [(nodes[:k], shares(case.walk.p, nodes[:k]) if share else np.full(k, 1 / k)) for k in sizes]
    else:
        more: dict[str, Any] = {"share": share} if by == "frank-wolfe" else {"seed": seed}
        found = [BASELINES[by](case.walk, k, case.costs, **more) for k in sizes]
    return [(own.indices, own.weights) for own in found]


def _learner(adjacency: Any, features: Any, labels: Ints, seed: int, epochs: int) -> Callable[[Ints, Floats], float]:
    import torch

    tensors = gcn.tensor(adjacency), gcn.tensor(features), torch.tensor(labels)
    return lambda chosen, weights: gcn.accuracy(*tensors, chosen, weights, seed, epochs)


def _distance_error(distances: Floats) -> Callable[[Ints, Floats], float]:
    """Return the mean over nodes v of |Σ w_s d(v, s) − mean d(v, ·)|."""
    truth = distances.mean(axis=1)
    return lambda chosen, weights: float(np.abs(distances[:, chosen] @ weights - truth).mean())


def _ten_blocks(seed: int) -> tuple[Any, Any, Ints]:
    """Return a block model of 200 nodes in 10 blocks, no features but the nodes themselves, and the blocks."""
    from scipy.sparse import eye_array

    graph, block = block_model([20] * 10, 0.4, 0.02, stream(seed, "gcn blocks"))
    return graph, eye_array(200), block


LABELLED: dict[str, Callable[[int], tuple[Any, Any, Ints]]] = {"sbm": _ten_blocks, "cora": lambda seed: cora()}
"""Graphs with features and labels of the nodes, of a seed."""
DISTANT: dict[str, Callable[[np.random.Generator], Any]] = {
    "tree": tree,
    "random": random_graph,
    "facebook": lambda rng: facebook(),
}
FIXED = ("cora", "facebook")
"""Graphs that are the same for all seeds."""

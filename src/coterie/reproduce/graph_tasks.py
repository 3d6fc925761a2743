"""Chapter 6: coresets of graphs, and what few nodes are good for, by how they were chosen and how many they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.coreset import BASELINES, Ascent, Coreset, neighbour_graph, shares, walk_on
from coterie.reproduce import gcn
from coterie.reproduce.books import BookColumn
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published
from coterie.reproduce.graphs import block_model, cora, facebook, random_graph, tree
from coterie.results.charts import Lines, Series, values
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import spread
from coterie.streams import stream
from coterie.training import one_thread

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Chosen = tuple[Ints, Floats]
"""Nodes, and their weights."""
Scores = list[tuple[list[float], float]]
"""What a row's nodes come to, by seed: a score for each size, and the cost of the largest choice."""
BESIDE: dict[str, dict[str, Any]] = {
    "frank-wolfe": {"share": True},
    "k-means": {},
    "spectral": {},
    "random": {},
}
"""Baselines that are drawn beside SCGIGA, with their options: weights are the shares of clusters (6.6.2)."""


@dataclass(frozen=True)
class CostedGraph:
    """A graph whose nodes have a value and a cost each, and where they are points of a cloud, coordinates."""

    adjacency: Any
    function: Floats
    costs: Floats
    points: Floats | None = None


def coreset(item: Reproducible, session: ReproductionSession) -> Findings:
    """Coresets of graphs beside their baselines: error against the number of nodes, cost, or whose nodes they are."""
    options, seed = item.entry.options, session.request.seeds_of(item)[0]
    graph = GRAPHS[options["data"]](options["n"], stream(seed, "coreset"))
    function, measure, truth = graph.function, options.get("measure", "cost"), float(graph.function.mean())
    sizes = range(1, options["most"] + 1)
    lines, series = [], []
    for cell in session.request.cells(item):
        by = {"kappa": cell.options.get("kappa", 1.0), "cost_weight": cell.options.get("cost_weight")}
        fitted = Coreset(1, steps=cell.options["steps"], **by).fit(graph.adjacency, graph.costs)
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
        series += _baselines(graph, options, seed)
    title = item.entry.title
    chart = Lines(title=title, x_label="nodes", y_label="squared error of the mean", series=tuple(series), digits=5)
    return Findings(lines, [chart])


def _baselines(graph: CostedGraph, options: dict[str, Any], seed: int) -> list[Series]:
    """Return the errors of baselines, for a few sizes; k-means clusters coordinates where there are any."""
    most, truth = options["most"], float(graph.function.mean())
    sizes = sorted({1, 2, *range(4, most, 4), most})
    walk, series = walk_on(graph.adjacency, options["steps"]), []
    for name, options_of in BESIDE.items():
        own = options_of | ({"seed": seed} if name != "frank-wolfe" else {})
        own |= {"points": graph.points} if name == "k-means" else {}
        selections = [BASELINES[name](walk, k, graph.costs, **own) for k in sizes]
        errors = [(float(selection.estimate(graph.function)) - truth) ** 2 for selection in selections]
        label = f"{name}, shares" if own.get("share") else name
        series.append(Series(name=label, x=values(sizes), y=values(errors)))
    return series


def gaussian_cloud(n: int, rng: np.random.Generator) -> CostedGraph:
    """Return three Gaussians of 20, 30 and 50 % of the points, who is of the smallest, and costs from U[0, 1]."""
    points, which = _cloud(n, (0.2, 0.3, 0.5), rng)
    return CostedGraph(neighbour_graph(points), (which == 0).astype(np.float64), rng.uniform(size=n), points)


def components(n: int, rng: np.random.Generator) -> CostedGraph:
    """Return three Gaussians of 50, 20 and 30 %, with a cost each; the function tells who is of the first."""
    points, which = _cloud(n, (0.5, 0.2, 0.3), rng)
    costs = np.array([3.25, 0.51, 2.04])[which]
    return CostedGraph(neighbour_graph(points), (which == 0).astype(np.float64), costs, points)


def blocks(n: int, rng: np.random.Generator) -> CostedGraph:
    """Return a stochastic block model of 10, 50 and 40 %, who is of the smallest block, and costs from U[0, 1]."""
    graph, which = block_model([n // 10, n // 2, n - n // 10 - n // 2], 0.1, 0.01, rng)
    return CostedGraph(graph, (which == 0).astype(np.float64), rng.uniform(size=n))


def _cloud(n: int, shares: Sequence[float], rng: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    which = np.repeat([0, 1, 2], [round(n * shares[0]), round(n * shares[1]), n - round(n * (shares[0] + shares[1]))])
    return np.array([[1, -3], [-3, 2], [3, 0]])[which] + rng.normal(size=(n, 2)), which


@dataclass(frozen=True)
class ScoredGraph:
    """A graph of a seed, what its nodes cost, and how good chosen ones are."""

    walk: Any
    costs: Floats
    score: Callable[[Ints, Floats], float]


@dataclass(frozen=True)
class GraphTask:
    """How graphs are made and nodes chosen, and what is measured."""

    graphs: Callable[[BookColumn, Sequence[int]], list[ScoredGraph]]
    """Of a column, one per seed."""
    choose: Callable[[Mapping[str, Any], ScoredGraph, Sequence[int], int], list[Chosen]]
    """By a row's options, as many nodes as each of several sizes says, with a seed."""
    what: str
    """Nodes, or labels, of which few are given."""
    score: str
    """What stands on the axis."""
    percent: bool
    shorten: Callable[[Sequence[int]], Sequence[int]] = lambda sizes: sizes
    """Fewer sizes, for --rounds-scale."""


def graph_labels(item: Reproducible, session: ReproductionSession) -> Findings:
    """Accuracy of a graph network that knows the labels of few nodes, by how these were chosen."""
    epochs = max(1, round(session.request.rounds_scale * gcn.EPOCHS))

    def graphs(column: BookColumn, seeds: Sequence[int]) -> list[ScoredGraph]:
        made: list[ScoredGraph] = []
        for seed in seeds:
            graph, features, labels = LABELLED[column.options["dataset"]](seed)
            adjacency = gcn.normalised(graph)
            fixed = made and column.options["dataset"] in FIXED
            walk = made[0].walk if fixed else walk_on(adjacency, item.entry.options["steps"])
            costs = stream(seed, "gcn costs").random(walk.n)
            made.append(ScoredGraph(walk, costs, _learner(adjacency, features, labels, seed, epochs)))
        return made

    return _make(GraphTask(graphs, labelled_nodes, "labels", "accuracy (%)", percent=True), item, session)


def graph_distances(item: Reproducible, session: ReproductionSession) -> Findings:
    """Error of every node's mean distance to all others, estimated from its distances to chosen nodes."""

    def graphs(column: BookColumn, seeds: Sequence[int]) -> list[ScoredGraph]:
        from scipy.sparse.csgraph import shortest_path

        made: list[ScoredGraph] = []
        for seed in seeds:
            rng = stream(seed, "paths")
            if made and column.options["dataset"] in FIXED:
                made.append(replace(made[0], costs=rng.random(made[0].walk.n)))
                continue
            graph = DISTANT[column.options["dataset"]](rng)
            walk = walk_on(graph, item.entry.options["steps"])
            made.append(ScoredGraph(walk, rng.random(walk.n), _distance_error(shortest_path(graph, unweighted=True))))
        return made

    def fewer(sizes: Sequence[int]) -> Sequence[int]:
        return sorted({max(1, round(session.request.rounds_scale * k)) for k in sizes})

    return _make(GraphTask(graphs, reference_nodes, "nodes", "error (hops)", False, fewer), item, session)


def _make(task: GraphTask, item: Reproducible, session: ReproductionSession) -> Findings:
    """Make a table and a chart per graph."""
    lines, charts, asked = list[NumberPair](), [], session.request.cells(item)
    for column in item.columns():
        cells = [cell for cell in asked if cell.column == column.label]
        if not cells:
            continue
        sizes = task.shorten(column.options["sizes"])
        scores = _scores(task, column, cells, sizes, session.request.seeds_of(item))
        lines += [_line(task, cell, sizes, scores[cell.row]) for cell in cells]
        series = [
            Series(name=cell.label, x=values(sizes), y=values(np.mean([s for s, _ in scores[cell.row]], axis=0)))
            for cell in cells
        ]
        title = f"{item.entry.title}: {column.label}"
        charts.append(Lines(title=title, x_label=task.what, y_label=task.score, series=tuple(series)))
    return Findings(lines, charts)


def _scores(
    task: GraphTask, column: BookColumn, cells: Sequence[Cell], sizes: Sequence[int], seeds: Sequence[int]
) -> dict[str, Scores]:
    """Choose nodes of a column's graphs as each row says, and score them."""
    from threadpoolctl import threadpool_limits

    fixed, factor = column.options["dataset"] in FIXED, 100.0 if task.percent else 1.0
    rows: dict[str, Scores] = {cell.row: [] for cell in cells}
    choices: dict[str, list[Chosen]] = {}
    with threadpool_limits(1), one_thread():  # matrices are small: threads would cost more than they give
        for seed, graph in zip(seeds, task.graphs(column, seeds), strict=True):
            for cell in cells:
                key = repr(_deciding(cell, seed, fixed))
                if key not in choices:
                    choices[key] = task.choose(cell.options, graph, sizes, seed)
                scores = [factor * graph.score(*chosen) for chosen in choices[key]]
                rows[cell.row].append((scores, float(graph.costs[choices[key][-1][0]].sum())))
    return rows


def _line(task: GraphTask, cell: Cell, sizes: Sequence[int], row: Scores) -> NumberPair:
    """Return the score of the most nodes, with those of fewer and the cost beside it."""
    scores, costs = zip(*row, strict=True)
    *fewer, most = [spread(of_size) for of_size in zip(*scores, strict=True)]
    beside = {f"{k} {task.what}": score for k, score in zip(sizes, fewer, strict=False)}
    own = beside_published(cell, most, 1 if task.percent else 3, f"{sizes[-1]} {task.what}")
    return replace(own, beside={**beside, "cost": spread(costs)}, asked=len(row))


def _deciding(cell: Cell, seed: int, fixed: bool) -> tuple[Any, ...]:
    """Return what decides which nodes are chosen: on a graph that is always the same, not always the seed."""
    by = {key: cell.options.get(key) for key in ("by", "kappa", "share", "weighted")}
    sure = by["by"] in ("frank-wolfe", "betweenness") or (by["by"] == "scgiga" and by["kappa"] in (None, 1.0))
    return (*by.items(), "any" if fixed and sure else seed)


def labelled_nodes(options: Mapping[str, Any], graph: ScoredGraph, sizes: Sequence[int], seed: int) -> list[Chosen]:
    """Choose as many different nodes as asked, each of which counts alike, or by its weight.

    SCGIGA and Frank-Wolfe may choose a node again: they go on until they have as many, or for ten times and twice as
    many iterations.
    """
    choices = []
    if options["by"] == "scgiga":
        ascent = Ascent(graph.walk, graph.costs, options.get("kappa", 1.0))
        for k in sizes:
            while len(ascent.weights) < k and ascent.iterations < 10 * k and ascent.advance():
                pass
            own = ascent.selection()
            choices.append((own.indices, own.weights if options.get("weighted") else np.ones(len(own.indices))))
        return choices
    again = options["by"] == "frank-wolfe"
    for k in sizes:
        for iterations in (k, 5 * k // 4, 3 * k // 2, 2 * k) if again else (k,):
            more = {} if again else {"seed": seed}
            nodes = BASELINES[options["by"]](graph.walk, iterations, graph.costs, **more).indices[:k]
            if len(nodes) >= k:
                break
        choices.append((nodes, np.ones(len(nodes))))
    return choices


def reference_nodes(options: Mapping[str, Any], graph: ScoredGraph, sizes: Sequence[int], seed: int) -> list[Chosen]:
    """Choose nodes whose weights sum to 1, but for Frank-Wolfe's own; `share` gives every node its nearest."""
    by, share = options["by"], bool(options.get("share"))
    if by == "scgiga":
        ascent = Ascent(graph.walk, graph.costs, options.get("kappa", 1.0))
        selections = [ascent.run(k).selection(True) for k in sizes]
    elif by == "betweenness":  # whose centralities are counted once
        nodes = BASELINES[by](graph.walk, max(sizes), graph.costs).indices
        return [(nodes[:k], shares(graph.walk.p, nodes[:k]) if share else np.full(k, 1 / k)) for k in sizes]
    else:
        more: dict[str, Any] = {"share": share} if by == "frank-wolfe" else {"seed": seed}
        selections = [BASELINES[by](graph.walk, k, graph.costs, **more) for k in sizes]
    return [(own.indices, own.weights) for own in selections]


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
GRAPHS: dict[str, Callable[[int, np.random.Generator], CostedGraph]] = {
    "gaussians": gaussian_cloud,
    "components": components,
    "blocks": blocks,
}

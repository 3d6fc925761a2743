"""``coterie coreset``: a few cheap, weighted nodes that represent a graph."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coterie.cli.options import Overwrite
from coterie.coreset import Coreset, WeightedNodes, baseline
from coterie.coreset.files import Graph, read_costs, read_graph
from coterie.coreset.graph import Floats, checked_costs
from coterie.errors import CoterieError, one_line
from coterie.files import write_new
from coterie.report.text_table import TextTable, csv_text

Method = Literal["scgiga", "frank-wolfe", "k-means", "spectral", "random", "betweenness"]
SEEDED = ("k-means", "spectral", "random", "betweenness")
SHARED = ("frank-wolfe", "betweenness")


def coreset(
    graph: Annotated[Path, typer.Argument(hidden=True)],
    k: Annotated[int, typer.Option("-k", help="How many nodes to choose at most.", show_default=False)],
    cost: Annotated[
        Path | None, typer.Option(help="Costs: a number per line, or lines node,cost. By default 1 each.")
    ] = None,
    kappa: Annotated[
        float, typer.Option(help="How much of the best score a cheaper node must have; 1: costs don't matter.")
    ] = 1.0,
    cost_weight: Annotated[
        float | None,
        typer.Option(help="Maximise alignment − λ · cost, with this λ, instead of --kappa.", show_default=False),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of the walk (ℓ).")] = 1,
    normalise: Annotated[bool, typer.Option("--normalise", help="Make the weights sum to 1.")] = False,
    method: Annotated[Method, typer.Option(help="SCGIGA, or a baseline.")] = "scgiga",
    share: Annotated[
        bool, typer.Option("--share", help="Weights of frank-wolfe and betweenness: shares of the nearest nodes.")
    ] = False,
    smoothness: Annotated[float, typer.Option(help="λ of the functions that the bound holds for.")] = 0.9,
    symmetrise: Annotated[
        bool, typer.Option("--symmetrise", help="Take the larger weight where an edge has two.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of baselines and of estimated lengths.")] = 0,
    format: Annotated[Literal["table", "csv", "json"], typer.Option(help="Output format.")] = "table",
    out: Annotated[Path | None, typer.Option(help="Write it to this file.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Choose a few weighted nodes that represent a graph.

    GRAPH: A .npz file (SciPy's save_npz, 'adjacency', 'edges' or 'points') or a text file with lines
    node,node[,weight].
    """
    if method != "scgiga" and (kappa != 1 or normalise or cost_weight is not None):
        raise CoterieError(f"--kappa, --cost-weight and --normalise belong to scgiga, not to {method}")
    if share and method not in SHARED:
        raise CoterieError(f"--share belongs to {' and '.join(SHARED)}, not to {method}")
    network = read_graph(graph, symmetrise=symmetrise)
    costs = None
    if cost is not None:
        network, costs = read_costs(cost, network)
    if method == "scgiga":
        estimator = Coreset(k, kappa, steps, normalise, smoothness=smoothness, seed=seed, cost_weight=cost_weight)
        chosen = estimator.fit(network.adjacency, costs).selection_
    else:
        options: dict[str, Any] = {"seed": seed} if method in SEEDED else {}
        options |= {"share": share} if method in SHARED else {}
        options |= {"points": network.points} if method == "k-means" else {}
        chosen = baseline(method, network.adjacency, k, costs, steps=steps, **options)
    text = _written(format, network, chosen, checked_costs(costs, network.adjacency.shape[0]), smoothness, method)
    if out is None:
        typer.echo("\n".join(map(one_line, text.split("\n"))), nl=False)
    else:
        write_new(out, text.encode(), overwrite, "nothing")


def _written(format: str, graph: Graph, chosen: WeightedNodes, costs: Floats, smoothness: float, method: str) -> str:
    names, node_costs = [graph.name(int(node)) for node in chosen.indices], costs[chosen.indices].tolist()
    head, rows = ("node", "weight", "cost"), list(zip(names, chosen.weights.tolist(), node_costs, strict=True))
    if format == "csv":
        return csv_text(head, rows)
    loops = int((graph.adjacency.diagonal() != 0).sum())
    summary = {
        "method": method,
        "nodes": int(graph.adjacency.shape[0]),
        "edges": int(graph.adjacency.count_nonzero() + loops) // 2,
        "steps": chosen.steps,
        "total_cost": chosen.total_cost,
        "total_weight": float(chosen.weights.sum()),
        "error": chosen.error,
        "smoothness": smoothness,
        "bound": chosen.bound(smoothness),
    }
    if format == "json":
        listed = {"indices": chosen.indices.tolist(), "weights": chosen.weights.tolist(), "costs": node_costs}
        return json.dumps({**summary, **listed, **({"names": names} if graph.names else {})}, indent=2) + "\n"
    table = TextTable(head, [[name, f"{weight:.6f}", f"{cost:.6g}"] for name, weight, cost in rows])
    nodes, edges = (f"{summary[key]:,} {key[:-1] if summary[key] == 1 else key}" for key in ("nodes", "edges"))
    return (
        f"{table.text()}\n\n"
        f"{method}: {len(rows)} of {nodes} ({edges}), ℓ = {chosen.steps}, total cost {chosen.total_cost:.6g}, "
        f"Σw = {summary['total_weight']:.6f}\n"
        f"error ‖P^ℓ w − 1/n‖ = {chosen.error:.4g}; |mean f − Σ w f| ≤ {summary['bound']:.4g}·‖f‖ for f of "
        f"smoothness {smoothness:g}\n"
    )

"""Which nodes to label for a graph convolutional network (chapter 6, Figure 6.1): a block model and Cora.

    python examples/coreset/gcn.py [SEEDS]

A two-layer GCN (16 hidden units, Adam 0.01, at most 100 epochs, stopped when the validation loss has not fallen for 10;
dropout 0.5, weight decay 5e-4 on the first layer) learns from the labels of the chosen nodes; all edges and features
are known. Accuracy is measured on all nodes that are neither chosen nor in the validation set, which is drawn at random
(20 % of the block model, 500 nodes of Cora). Nodes are chosen on the normalised adjacency with self-loops; ℓ = 5.
Block model: 200 nodes in 10 blocks, edges with probability 0.4 within and 0.02 between, no features (the identity).
Cora needs cora.npz in COTERIE_DATA. "labels" is the mean number of different nodes: SCGIGA and Frank-Wolfe may choose
a node again, and go on until they have as many as asked, or for ten and two times as many iterations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array, eye_array
from tools import block_model, data_file, different, figure, lines, save, table

from coterie.coreset import BASELINES, Walk, walk_on
from coterie.streams import derived_seed, stream

STEPS, HIDDEN, RATE, EPOCHS, WINDOW, DECAY = 5, 16, 0.01, 100, 10, 5e-4


class GCN(torch.nn.Module):
    """Two graph convolutions: Â ReLU(Â X W₁) W₂."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(features, HIDDEN, bias=False)
        self.second = torch.nn.Linear(HIDDEN, classes, bias=False)
        for layer in (self.first, self.second):
            torch.nn.init.xavier_uniform_(layer.weight)

    def forward(self, adjacency: Any, features: Any) -> Any:
        """Return the logits of all nodes."""
        hidden = adjacency @ (features @ self.first.weight.T)
        hidden = torch.nn.functional.dropout(torch.relu(hidden), 0.5, self.training)
        return adjacency @ self.second(hidden)


def sparse_tensor(x: Any) -> Any:
    """Return a SciPy sparse array as PyTorch's."""
    coo = x.tocoo()
    values = torch.tensor(coo.data, dtype=torch.float32)
    return torch.sparse_coo_tensor(np.stack(coo.coords), values, coo.shape, check_invariants=True).coalesce()


def normalised(graph: Any) -> Any:
    """Return D^(-1/2) (A + I) D^(-1/2)."""
    looped = csr_array(graph + eye_array(graph.shape[0]))
    root = diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return csr_array(root @ looped @ root)


def accuracy(adjacency: Any, features: Any, labels: Any, chosen: Any, weights: Any, seed: int) -> float:
    """Train on the chosen nodes, and return the accuracy on the rest."""
    torch.manual_seed(derived_seed(seed, "gcn"))
    n = len(labels)
    rest = np.setdiff1d(stream(seed, "validation").permutation(n), chosen, assume_unique=True)
    held = min(500, n // 5)
    checked, tested = torch.tensor(rest[:held]), torch.tensor(rest[held:])
    model = GCN(features.shape[1], int(labels.max()) + 1)
    groups = [{"params": model.first.parameters(), "weight_decay": DECAY}, {"params": model.second.parameters()}]
    optimiser = torch.optim.Adam(groups, lr=RATE)
    share = torch.tensor(weights / weights.sum(), dtype=torch.float32)
    loss = torch.nn.functional.cross_entropy
    past: list[float] = []
    for _ in range(EPOCHS):
        model.train()
        optimiser.zero_grad()
        (loss(model(adjacency, features)[chosen], labels[chosen], reduction="none") @ share).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            past.append(float(loss(model(adjacency, features)[checked], labels[checked])))
        if len(past) > WINDOW and min(past[-WINDOW:]) > min(past[:-WINDOW]):
            break
    with torch.no_grad():
        right = model(adjacency, features)[tested].argmax(dim=1) == labels[tested]
    return float(right.float().mean())


Chooser = Callable[[Walk, int, Any, int], tuple[Any, Any]]


def by_scgiga(kappa: float, weighted: bool = False) -> Chooser:
    """SCGIGA until there are k different nodes; each counts alike, or by its weight."""

    def choose(walk: Walk, k: int, costs: Any, seed: int) -> tuple[Any, Any]:
        found = different(walk, k, costs, kappa).selection()
        return found.indices, found.weights if weighted else np.ones(len(found.indices))

    return choose


def by(name: str) -> Chooser:
    """A baseline; each of its nodes counts alike."""

    def choose(walk: Walk, k: int, costs: Any, seed: int) -> tuple[Any, Any]:
        options = {} if name == "frank-wolfe" else {"seed": seed}
        for iterations in (k, 5 * k // 4, 3 * k // 2, 2 * k) if name == "frank-wolfe" else (k,):
            found = BASELINES[name](walk, iterations, costs, **options)
            if len(found.indices) >= k:
                break
        return found.indices[:k], np.ones(len(found.indices[:k]))

    return choose


METHODS = {
    "SCGIGA": by_scgiga(1.0),
    "SCGIGA, weighted loss": by_scgiga(1.0, weighted=True),
    "SCGIGA κ = 0.5": by_scgiga(0.5),
    "Frank-Wolfe": by("frank-wolfe"),
    "k-means": by("k-means"),
    "spectral": by("spectral"),
    "random": by("random"),
}


def blocks(seed: int) -> tuple[Any, Any, Any]:
    """Return the block model, no features but the nodes themselves, and the blocks."""
    graph, block = block_model([20] * 10, 0.4, 0.02, stream(seed, "gcn blocks"))
    return graph, eye_array(200), block


def cora(seed: int) -> tuple[Any, Any, Any]:
    """Return the citation graph, the words of each document in equal shares, and the subjects."""
    file = data_file("cora.npz")
    assert file
    with np.load(file) as x:
        n, words = (int(v) for v in x["feat_shape"])
        i, j = x["edges"].T
        graph = csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
        indices, indptr, labels = x["feat_indices"], x["feat_indptr"], x["labels"].astype(np.int64)
    features = csr_array((np.ones(len(indices)), indices, indptr), shape=(n, words))
    shares = diags_array(1 / np.maximum(features.sum(axis=1), 1))
    return csr_array(graph.maximum(graph.T)), csr_array(shares @ features), labels


def compare(make: Any, sizes: list[int], seeds: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return accuracies, (seeds, sizes), costs at the largest size, and labels used there."""
    scores: dict[str, list[Any]] = {name: [] for name in METHODS}
    costs: dict[str, list[float]] = {name: [] for name in METHODS}
    used: dict[str, list[int]] = {name: [] for name in METHODS}
    for seed in range(seeds):
        graph, features, labels = make(seed)
        adjacency = normalised(graph)
        walk = walk_on(adjacency, STEPS)
        cost = stream(seed, "gcn costs").random(walk.n)
        tensors = sparse_tensor(adjacency), sparse_tensor(features), torch.tensor(labels)
        for name, choose in METHODS.items():
            row = []
            for k in sizes:
                chosen, weights = choose(walk, k, cost, seed)
                row.append(accuracy(*tensors, chosen, weights, seed))
            scores[name].append(row)
            costs[name].append(float(cost[chosen].sum()))
            used[name].append(len(chosen))
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    return (*({n: np.array(v) for n, v in what.items()} for what in (scores, costs, used)),)  # type: ignore[return-value]


def main(seeds: int = 3) -> None:
    """Run both graphs, print a table of each and draw them."""
    torch.set_num_threads(1)
    graphs: dict[str, tuple[Any, list[int]]] = {"block model": (blocks, [10, 20, 30, 40])}
    if data_file("cora.npz"):
        graphs["Cora"] = (cora, [35, 70, 140])
    made, axes = figure(len(graphs), 5)
    for place, (title, (make, sizes)) in zip(axes, graphs.items(), strict=True):
        scores, costs, used = compare(make, sizes, seeds)
        rows = {
            name: [
                *(f"{100 * m:.1f} ± {100 * d:.1f}" for m, d in zip(s.mean(axis=0), s.std(axis=0), strict=True)),
                f"{used[name].mean():.0f}",
                f"{costs[name].mean():.1f}",
            ]
            for name, s in scores.items()
        }
        header = [*(f"{k} labels" for k in sizes), "labels", "cost"]
        table(f"{title}: accuracy (%), mean ± deviation over {seeds} seeds; the rest at the last", header, rows)
        lines(place, sizes, {n: 100 * s.mean(axis=0) for n, s in scores.items()}, title, "labels", "accuracy (%)")
    save(made, "gcn.png", axes[0])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""A graph convolutional network of two layers, which learns from the labels of few nodes (chapter 6, Figure 6.1)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.streams import derived_seed, stream

HIDDEN, RATE, EPOCHS, PATIENCE, DECAY, DROPPED = 16, 0.01, 100, 10, 5e-4, 0.5
"""Hidden units, Adam's rate, epochs at most, epochs without a smaller validation loss, weight decay of the first layer,
dropout: as in Kipf and Welling's GCN."""
HELD, SHARE = 500, 5
"""Nodes of the validation set: so many, but at most a fifth."""


def normalised(graph: Any) -> Any:
    """Return D^(-1/2) (A + I) D^(-1/2)."""
    from scipy.sparse import csr_array, diags_array, eye_array

    looped = csr_array(graph + eye_array(graph.shape[0]))
    root = diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return csr_array(root @ looped @ root)


def tensor(x: Any) -> Any:
    """Return a SciPy sparse array as PyTorch's."""
    import torch

    coo = x.tocoo()
    values = torch.tensor(coo.data, dtype=torch.float32)
    places = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
    return torch.sparse_coo_tensor(places, values, coo.shape, check_invariants=True).coalesce()


def accuracy(
    adjacency: Any,
    features: Any,
    labels: Any,
    chosen: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    seed: int,
    epochs: int = EPOCHS,
) -> float:
    """Train Â ReLU(Â X W₁) W₂ on the chosen nodes; return its accuracy on those neither chosen nor held out."""
    import torch
    from torch.nn import functional

    torch.manual_seed(derived_seed(seed, "gcn"))
    n = len(labels)
    rest = np.setdiff1d(stream(seed, "validation").permutation(n), chosen, assume_unique=True)
    held = min(HELD, n // SHARE)
    checked, tested = torch.tensor(rest[:held]), torch.tensor(rest[held:])
    first = torch.nn.Linear(features.shape[1], HIDDEN, bias=False)
    second = torch.nn.Linear(HIDDEN, int(labels.max()) + 1, bias=False)
    for layer in (first, second):
        torch.nn.init.xavier_uniform_(layer.weight)
    groups: list[dict[str, Any]] = [
        {"params": first.parameters(), "weight_decay": DECAY},
        {"params": second.parameters()},
    ]
    optimiser = torch.optim.Adam(groups, lr=RATE)
    share = torch.tensor(weights / weights.sum(), dtype=torch.float32)

    def logits(training: bool) -> Any:
        hidden = torch.relu(adjacency @ (features @ first.weight.T))
        return adjacency @ second(functional.dropout(hidden, DROPPED, training))

    past: list[float] = []
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = functional.cross_entropy(logits(True)[chosen], labels[chosen], reduction="none") @ share
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            past.append(float(functional.cross_entropy(logits(False)[checked], labels[checked])))
        if len(past) > PATIENCE and min(past[-PATIENCE:]) > min(past[:-PATIENCE]):
            break
    with torch.no_grad():
        right = logits(False)[tested].argmax(dim=1) == labels[tested]
    return float(right.float().mean())

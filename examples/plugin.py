"""A method, a clustering rule and a similarity measure of one's own, in one file.

coterie run --plugin examples/plugin.py --algorithm capped:most=50 --dataset digits --partition dirichlet:alpha=0.3
coterie cluster --plugin examples/plugin.py --rule ratio:least=1.2 --dataset digits-rotated
coterie inspect --plugin examples/plugin.py --measures chordal --dataset digits-rotated
coterie run --plugin examples/plugin.py --algorithm pacfl:measure=chordal,p=1 --rule ratio --dataset digits-rotated
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

import coterie
from coterie.algorithms.fedavg import FedAvg
from coterie.clustering import Cut, Rule, heights


@coterie.algorithm("capped")
@dataclass(kw_only=True)
class Capped(FedAvg):
    """FedAvg in which a client with very many samples counts no more than others with many."""

    most: Annotated[int, Ge(1), "samples of a client that count"] = 100

    def aggregate(self, fed, trained):
        """Return the mean of the clients' models, weighted by up to `most` samples."""
        capped = {client: replace(answer, samples=min(answer.samples, self.most)) for client, answer in trained.items()}
        return super().aggregate(fed, capped)


@coterie.rule("ratio")
@dataclass(frozen=True, kw_only=True)
class Ratio(Rule):
    """Cut where the next merge is farther than the last one by the largest factor."""

    least: Annotated[float, Ge(1), "one group if no factor is larger"] = 1.5

    def cut(self, merges, distances):
        """Find the largest factor between successive merges."""
        at = np.maximum(heights(merges), 1e-9)
        factors = at[1:] / at[:-1]
        if factors.max(initial=0) < self.least:
            return Cut.into(merges, 1, f"No merge is {self.least:g} times as far as the one before")
        last = int(factors.argmax())
        return Cut.into(merges, len(at) - last, f"The next merge is {factors[last]:.2f} times as far as the last")


@coterie.measure("chordal", needs="vectors", title="chordal distance")
def chordal(a, b=None):
    """How much of the directions of one client's samples another lacks."""
    b = a if b is None else b
    shared = np.array([[np.sum((u.T @ v) ** 2) / max(u.shape[1], v.shape[1], 1) for v in b] for u in a])
    return np.sqrt(np.clip(1 - shared, 0, 1))

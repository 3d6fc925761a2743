"""Clients clustered by the last layers of locally trained models (FedClust, Islam et al., ICPP 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.one_shot import Floats, OneShotClustering
from coterie.clustering import Rule, RuleSupport
from coterie.clustering.landmarks import Points
from coterie.federation import Federation
from coterie.messages import Array, ClientId, Params, Train, TrainReply, Weighing, update

UNIT = "of weights"


@algorithm("fedclust")
@dataclass(kw_only=True)
class FedClust(OneShotClustering[Array]):
    """One model per group of clients whose last layers, each trained alone from the common start, are near."""

    not_private = "its clients train once more to be grouped"
    traits = replace(
        OneShotClustering.traits,
        rules=RuleSupport(("distances",), UNIT, landmarks=True),
        battery={"algorithm_options": {"warmup": 1}},
    )

    warmup: Annotated[int, Ge(1), "local epochs after which the last layer is compared"] = 10

    @property
    def weighing(self) -> Weighing:
        """In groups clients count by their samples."""
        return "samples"

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, Array]:
        """Ask each client to train from θ⁰, and for the last layer of that only."""
        plan = replace(fed.plan, epochs=self.warmup)
        layer = last_layer(self.start)
        verb = Train(plan, start=("initial",), keep=False, send=(layer,), purpose="warm-up")
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="describe")))
        start = {name: value for name, value in self.start.items() if name.startswith(layer)}
        return {client: update(reply.answer(TrainReply).params, start) for client, reply in replies.items()}

    def distances(self, a: Sequence[Array], b: Sequence[Array] | None = None) -> Floats:
        """‖w_i − w_j‖ of the last layers."""
        from scipy.spatial.distance import cdist

        x = np.asarray(np.stack(list(a)), np.float64)
        y = x if b is None else np.asarray(np.stack(list(b)), np.float64)
        return np.asarray(cdist(x, y), np.float64)

    def points(self, fed: Federation, described: Sequence[Array]) -> Points:
        """The layers are points."""
        return np.stack(list(described), dtype=np.float32)

    def rule(self, fed: Federation) -> Rule:
        """The tree is cut where its groups are clearest, unless a cut was asked for."""
        return fed.settings.grouping.make("silhouette", unit=UNIT, linkage="average")


def last_layer(model: Params) -> str:
    """Return how the names of the last layer's tensors begin.

    >>> last_layer({"fc1.weight": np.zeros(1), "fc10.weight": np.zeros(1), "fc10.bias": np.zeros(1)})
    'fc10.'
    """
    name = next(reversed([*model]))
    return name.rpartition(".")[0] + "." if "." in name else name

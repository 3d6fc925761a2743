"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Answers, Contribution, Federation, Fold, saved
from coterie.federation.aggregation import update_lengths
from coterie.messages import Array, Params, Plan
from coterie.models.learning import learning


@algorithm("scaffold")
@dataclass(kw_only=True)
class Scaffold(FedAvg):
    """FedAvg with control variates: each step is corrected by how the client's gradient differs from all clients'."""

    not_private = "its corrections are not part of private steps"
    transfers = 3.0  # as the tables count; the control travels both ways, so it is 4

    momentum: Annotated[float | None, Ge(0), Lt(1), "of local SGD; none: that of [training]"] = 0.0
    server_divisor: Annotated[
        Literal["all", "sampled"], "c moves by Σ Δc_i over all clients, or over the sampled ones as some codes do"
    ] = "all"

    control: Params = saved()

    def error_in_optimiser(self, name: str) -> str | None:
        """c_i is the mean gradient of the steps only where steps are gradients."""
        return None if name == "sgd" else f"its controls are mean gradients, which the steps of {name} are not"

    def begin(self, fed: Federation) -> None:
        """θ ← θ⁰, c ← 0; clients' controls are 0 until they train."""
        super().begin(fed)
        learns = learning(fed.spec)
        self.control = {
            name: np.zeros_like(value)
            for name, value in self.model.items()
            if name in learns and np.issubdtype(value.dtype, np.floating)
        }

    def plan(self, fed: Federation) -> Plan:
        """After each SGD step: θ ← θ − η(c − c_i)."""
        momentum = fed.plan.momentum if self.momentum is None else self.momentum
        return replace(fed.plan, correction="control", momentum=momentum)

    def sent(self) -> dict[str, Params]:
        """θ and c."""
        return {"model": self.model, "control": self.control}

    def aggregate(self, fed: Federation, trained: Answers) -> dict[str, Array]:
        """θ ← WAvg(θ_i); c ← c + Σ Δc_i / N. The rule of ``[aggregation]`` is applied to the Δc_i too."""
        zero = {name: np.zeros_like(c) for name, c in self.control.items()}
        size, path, n = update_lengths(self.model)[0], fed.plan.lr.path, 0  # Δc_i is an update over Σ η_s, less c
        models, changes = Fold[int](fed.aggregator), Fold[int](fed.aggregator, kind="control")
        for client, answer in trained.items():
            n += 1
            scale = size / path(answer.steps) if answer.steps else None
            changes.add(0, Contribution(client, answer.control, zero, 1.0, scale))
            models.add(0, models.contribution(client, answer, self.model))
        share = np.float32(n / (len(fed.trainable) if self.server_divisor == "all" else n))
        change = changes.means()[0]
        self.control = {name: c + share * change[name] for name, c in self.control.items()}
        return models.means()[0]

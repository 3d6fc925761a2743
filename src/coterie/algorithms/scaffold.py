"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Contribution, Federation, saved
from coterie.federation.aggregation import update_lengths
from coterie.messages import Array, ClientId, Params, Plan, TrainReply
from coterie.models.learning import learning


@algorithm("scaffold")
@dataclass(kw_only=True)
class Scaffold(FedAvg):
    """FedAvg with control variates: each step is corrected by how the client's gradient differs from all clients'."""

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

    def aggregate(self, fed: Federation, trained: Mapping[ClientId, TrainReply]) -> dict[str, Array]:
        """θ ← WAvg(θ_i); c ← c + Σ Δc_i / N. The rule of ``[aggregation]`` is applied to the Δc_i too."""
        divisor = len(fed.trainable) if self.server_divisor == "all" else len(trained)
        zero = {name: np.zeros_like(c) for name, c in self.control.items()}
        size, path = update_lengths(self.model)[0], fed.plan.lr.path  # Δc_i is an update over Σ η_s, less c
        scales = {client: size / path(answer.steps) if answer.steps else None for client, answer in trained.items()}
        members = [Contribution(c, answer.control, zero, 1.0, scales[c]) for c, answer in trained.items()]
        if fed.settings.aggregation.rule in ("mean", "clipped"):
            changes = [member.params for member in fed.aggregator.screened({0: members}, kind="control")[0]]
            total = {name: np.sum([change[name] for change in changes], axis=0) for name in zero}
        else:
            middle = fed.aggregator.averages({0: members}, kind="control")[0]
            total = {name: change * np.float32(len(members)) for name, change in middle.items()}
        self.control = {name: c + total[name] / np.float32(divisor) for name, c in self.control.items()}
        return super().aggregate(fed, trained)

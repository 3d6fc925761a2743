"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation, saved
from coterie.messages import Array, Params, Plan, TrainReply


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

    def begin(self, fed: Federation) -> None:
        """θ ← θ⁰, c ← 0; clients' controls are 0 until they train."""
        super().begin(fed)
        self.control = {
            name: np.zeros_like(value) for name, value in self.model.items() if np.issubdtype(value.dtype, np.floating)
        }

    def plan(self, fed: Federation) -> Plan:
        """After each SGD step: θ ← θ − η(c − c_i)."""
        momentum = fed.plan.momentum if self.momentum is None else self.momentum
        return replace(fed.plan, correction="control", momentum=momentum)

    def sent(self) -> dict[str, Params]:
        """θ and c."""
        return {"model": self.model, "control": self.control}

    def aggregate(self, fed: Federation, trained: Sequence[TrainReply]) -> dict[str, Array]:
        """θ ← WAvg(θ_i); c ← c + Σ Δc_i / N."""
        divisor = len(fed.trainable) if self.server_divisor == "all" else len(trained)
        self.control = {
            name: c + np.sum([t.control[name] for t in trained], axis=0) / np.float32(divisor)
            for name, c in self.control.items()
        }
        return super().aggregate(fed, trained)

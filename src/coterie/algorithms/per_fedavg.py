"""Personalised FedAvg by meta-learning, first order (Per-FedAvg, Fallah et al., NeurIPS 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Gt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import Plan, Schedule

ALL = 2**20
"""Samples in a batch that takes all that a client has."""


@algorithm("per-fedavg")
@dataclass(kw_only=True)
class PerFedAvg(FedAvg):
    """FedAvg of a model from which one step on a client's own samples leads far."""

    alpha: Annotated[float, Gt(0), "rate of the inner step, and of the one step that personalises"] = 0.01
    beta: Annotated[float, Gt(0), "rate of the outer steps, without momentum; --lr is for + and newcomers only"] = 0.001

    def plan(self, fed: Federation) -> Plan:
        """For batches b₁, b₂ in turn: θ' ← θ − α∇f(θ; b₁), θ ← θ − β∇f(θ'; b₂); plain SGD."""
        return replace(fed.plan, lr=Schedule(self.beta), meta_step=self.alpha, momentum=0.0)

    def adaptation(self, fed: Federation) -> Plan:
        """θ − α∇f(θ; D_i) on all training samples: how the paper personalises before testing."""
        return replace(fed.plan, lr=Schedule(self.alpha), momentum=0.0, epochs=1, batch_size=ALL)

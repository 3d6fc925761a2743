"""Personalised FedAvg by meta-learning, first order (Per-FedAvg, Fallah et al., NeurIPS 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Gt, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import MetaStep, Plan, Schedule

ALL = 2**20
"""Samples in a batch that takes all that a client has."""


@algorithm("per-fedavg")
@dataclass(kw_only=True)
class PerFedAvg(FedAvg):
    """FedAvg of a model from which one step on a client's own samples leads far."""

    not_private = "its steps are of two batches, and clients train again whenever they are evaluated"

    alpha: Annotated[float, Gt(0), "rate of the inner step, and of the one step that personalises"] = 0.01
    beta: Annotated[float | None, Gt(0), "rate of the outer steps; by default that of the run, --lr"] = None
    momentum: Annotated[
        float, Ge(0), Lt(1), "of one buffer over both half-steps, as in PACFL's code, where it is 0.5; 0: plain SGD"
    ] = 0.0

    def error_in_optimiser(self, name: str) -> str | None:
        """One buffer over both half-steps is one of SGD; the outer steps alone may be anybody's."""
        return None if name == "sgd" or not self.momentum else f"its momentum is that of SGD, which {name} replaces"

    def plan(self, fed: Federation) -> Plan:
        """For batches b₁, b₂ in turn: θ' ← θ − α∇f(θ; b₁), θ ← θ − β∇f(θ'; b₂)."""
        lr = fed.plan.lr if self.beta is None else Schedule(self.beta)
        inner = MetaStep(self.alpha, shared_momentum=self.momentum > 0)
        return replace(fed.plan, lr=lr, momentum=self.momentum, meta_step=inner)

    newcomer_plan = plan

    def adaptation(self, fed: Federation) -> Plan:
        """θ − α∇f(θ; D_i) on all training samples: the model that a client uses."""
        plain = replace(fed.plan, momentum=0.0, curriculum=None, optimiser=None, clip=None)
        return replace(plain, lr=Schedule(self.alpha), epochs=1, batch_size=ALL)

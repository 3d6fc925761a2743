"""FedProx (Li et al., MLSys 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import Anchor, Plan


@algorithm("fedprox")
@dataclass(kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the model that they received."""

    mu: Annotated[float, Ge(0), "strength of the proximal term μ/2·‖θ − θ_t‖²"] = 0.01

    def plan(self, fed: Federation) -> Plan:
        """Add μ(θ − θ_t) to the gradient, θ_t being the received model as it was received."""
        return replace(fed.plan, anchors=(Anchor("model", self.mu),))

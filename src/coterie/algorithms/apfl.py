"""Adaptive personalised federated learning (APFL, Deng et al., 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Le

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation, Traits
from coterie.messages import Mixture, Plan


@algorithm("apfl")
@dataclass(kw_only=True)
class APFL(FedAvg):
    """FedAvg, with which each client mixes a part of its own that it trains for the mixture."""

    not_private = "its clients train two models at once, and private steps are of one"
    traits = Traits(clips=False, battery={"batch_size": 60})
    notes = ("apfl trains two models at once, which PyTorch does; the compiled trainer only evaluates",)

    alpha: Annotated[float, Ge(0), Le(1), "α: share of a client's own part in the model that it uses"] = 0.5
    adaptive: Annotated[bool, "each client moves its α down the slope of its loss, once in each training"] = True

    def plan(self, fed: Federation) -> Plan:
        """w_i ← w_i − η∇f(w_i), and v_i ← v_i − ηα∇f(v̄_i) with v̄_i = α v_i + (1 − α) w_i, on the same batches."""
        return replace(fed.plan, mixture=Mixture(self.alpha, self.adaptive))

    newcomer_plan = plan

    def error_in_optimiser(self, name: str) -> str | None:
        """Both models take steps of SGD."""
        return None if name == "sgd" else f"the steps of both its models are those of SGD, which {name} replaces"

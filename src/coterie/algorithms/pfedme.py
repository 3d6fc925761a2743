"""Personalised federated learning with Moreau envelopes (pFedMe, Dinh et al., NeurIPS 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Answers, Federation, Traits
from coterie.messages import Array, Plan, ProximalSteps, frozen
from coterie.messages.params import STATISTICS


@algorithm("pfedme")
@dataclass(kw_only=True)
class PFedMe(FedAvg):
    """FedAvg of models that follow what each client makes of them in a few steps that stay near; it uses the latter."""

    not_private = "its steps see a batch several times, and private steps see it once"
    traits = Traits(clips=False, battery={"batch_size": 30, "algorithm_options": {"inner_steps": 2}})
    notes = ("pfedme trains by an inner loop, which PyTorch does; the compiled trainer only evaluates",)

    lam: Annotated[float, Gt(0), "strength λ of the term λ/2·‖θ_i − w_i‖² that holds a client's θ near its w"] = 15.0
    inner_steps: Annotated[int, Ge(1), "K: steps towards θ on each batch"] = 5
    inner_rate: Annotated[float, Gt(0), "rate of these steps; that of w, η, is the run's (--lr)"] = 0.09
    beta: Annotated[float, Gt(0), "β: how far the server goes towards the mean"] = 1.0

    def plan(self, fed: Federation) -> Plan:
        """θ ≈ argmin f(θ; b) + λ/2 ‖θ − w_i‖² in K steps from w_i; w_i ← w_i − ηλ(w_i − θ), without momentum."""
        return replace(fed.plan, momentum=0.0, proximal=ProximalSteps(self.lam, self.inner_steps, self.inner_rate))

    newcomer_plan = plan

    def error_in_optimiser(self, name: str) -> str | None:
        """Each step goes towards θ, by a share of the way."""
        return None if name == "sgd" else f"its steps go towards what the inner loop found, those of {name} do not"

    def error_in_server_step(self) -> str | None:
        """What β ≠ 1 leads to is not the model that an optimiser's moments belong to."""
        if self.beta != 1 and self.server_step.remembers:
            return "beta is a server's step of its own: leave it out, or the server's optimiser"
        return super().error_in_server_step()

    def aggregate(self, fed: Federation, trained: Answers) -> dict[str, Array]:
        """W ← (1 − β) w + β WAvg(w_i); what BatchNorm counts is the mean's."""
        mean, before = super().aggregate(fed, trained), self.model
        if self.beta == 1.0:
            return mean
        learnt = [name for name, value in mean.items() if value.dtype.kind == "f" and not name.endswith(STATISTICS)]
        further = {name: before[name] + np.float32(self.beta) * (mean[name] - before[name]) for name in learnt}
        return frozen({**mean, **further})

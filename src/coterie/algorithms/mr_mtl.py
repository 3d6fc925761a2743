"""Mean-regularised multi-task learning (MR-MTL; Liu et al., NeurIPS 2022, after Evgeniou and Pontil, 2004)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Answers, Federation
from coterie.messages import Anchor, Array, Plan, Request, Train, Weighing


@algorithm("mr-mtl")
@dataclass(kw_only=True)
class MRMTL(FedAvg):
    """Every client has its own model, drawn towards the mean of all that were sent last."""

    lam: Annotated[float, Ge(0), "strength λ of the term λ/2·‖w_i − w̄‖² that draws own models to their mean"] = 1.0

    def request(self, fed: Federation) -> Request:
        """w_i ← w_i − η(∇f(w_i) + λ(w_i − w̄)), each from where it was."""
        return fed.request(Train(self.plan(fed), start=("own",)), models=self.sent())

    def plan(self, fed: Federation) -> Plan:
        """Add λ(w_i − w̄) to the gradient."""
        return replace(fed.plan, anchors=(Anchor("model", self.lam),))

    newcomer_plan = plan

    @property
    def weighing(self) -> Weighing:
        """All count alike."""
        return "equal"

    def aggregate(self, fed: Federation, trained: Answers) -> dict[str, Array]:
        """w̄ ← Σ w_i / n: all count alike."""
        return fed.average(trained, self.model, equal=True)

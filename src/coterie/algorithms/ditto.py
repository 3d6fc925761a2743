"""Ditto: models of one's own, held near a global one (Li et al., ICML 2021)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import Anchor, Plan, Request, Train


@algorithm("ditto")
@dataclass(kw_only=True)
class Ditto(FedAvg):
    """FedAvg, and beside it a model of each client's own that is held near FedAvg's."""

    not_private = "its clients train two models in a round, which costs twice as much: use mr-mtl, which trains one"

    lam: Annotated[float, Ge(0), "strength λ of the term λ/2·‖v_i − w‖² that holds an own model near the global"] = 1.0
    own_epochs: Annotated[int | None, Ge(1), "epochs of the own model; by default those of the run"] = None

    def request(self, fed: Federation) -> Request:
        """w_i ← LocalSGD(w) is sent; v_i ← v_i − η(∇f(v_i) + λ(v_i − w)) is kept."""
        own = Train(self.newcomer_plan(fed), start=("own",), send=False)
        return fed.request(Train(fed.plan, keep=False), own, models=self.sent())

    def newcomer_plan(self, fed: Federation) -> Plan:
        """How a client trains its own model; a newcomer's begins with the global one."""
        return replace(fed.plan, epochs=self.own_epochs or fed.plan.epochs, anchors=(Anchor("model", self.lam),))

"""Shared representations (FedRep, Collins et al., ICML 2021)."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.shared_layers import PartlyShared, body
from coterie.federation import Federation, Traits
from coterie.messages import ModelSpec, Plan, Train
from coterie.models.learning import learning


@algorithm("fedrep")
@dataclass(kw_only=True)
class FedRep(PartlyShared):
    """Each client fits a head of its own to the shared body, then the body to the head; the body is averaged."""

    not_private = "its clients train twice in a round, which costs twice as much: use fedper, which trains once"
    traits = Traits(battery={"algorithm_options": {"head_epochs": 1}})

    head: Annotated[int, Ge(1), "how many of the last layers are each client's own"] = 1
    head_epochs: Annotated[int, Ge(1), "epochs of the head; then come those of the body, the run's (--epochs)"] = 10

    def shared_names(self, spec: ModelSpec) -> list[str]:
        """Name the body φ."""
        return body(spec, self.head, "fedrep")

    def verbs(self, fed: Federation) -> tuple[Train, ...]:
        """h_i ← SGD(φ, h_i) on h with φ held, then φ_i ← SGD(φ, h_i) on φ with h_i held."""
        free = learning(fed.spec)
        trunk = replace(fed.plan, train=tuple(name for name in self.layers if name in free))
        return (
            Train(self.newcomer_plan(fed), start=("own", "model"), keep=False, send=False, purpose="head"),
            Train(trunk, start=("trained", "model"), send=tuple(self.layers)),
        )

    def newcomer_plan(self, fed: Federation) -> Plan:
        """Newcomers fit a head to the body as it is; how long is the user's choice."""
        free = learning(fed.spec)
        own = tuple(name for name in self.start if name in free and name not in self.layers)
        return replace(fed.plan, epochs=self.head_epochs, train=own)

"""Federated averaging (McMahan et al., AISTATS 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.algorithms import algorithm
from coterie.messages import Array, ClientId, Params, Plan, Train, TrainReply, weighted_mean

if TYPE_CHECKING:
    from coterie.federation import Federation


@algorithm("fedavg")
@dataclass(kw_only=True)
class FedAvg:
    """One model for all: the mean of what the cohort trained, weighted by samples."""

    transfers = 2.0
    model: Params = field(init=False)

    def begin(self, fed: Federation) -> None:
        """θ ← θ⁰."""
        self.model = fed.initial()

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ ← Σ n_i θ_i / Σ n_i over the clients of the cohort that answered."""
        request = fed.request(Train(self.plan(fed)), kind="train", models=self.sent())
        replies = fed.ask(dict.fromkeys(cohort, request))
        trained = [reply.answer(TrainReply) for reply in replies.values()]
        if trained:
            self.model = self.aggregate(fed, trained)

    def sent(self) -> dict[str, Params]:
        """What the cohort receives."""
        return {"model": self.model}

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, as the run has it."""
        return fed.plan

    def aggregate(self, fed: Federation, trained: Sequence[TrainReply]) -> dict[str, Array]:
        """WAvg: the mean weighted by samples."""
        return weighted_mean([t.params for t in trained], [t.samples for t in trained])

    def model_for(self, client: ClientId) -> Params:
        """Everyone receives θ."""
        return self.model

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Newcomers receive θ as everyone does."""

    def groups(self) -> None:
        """There are none."""

    def save(self) -> dict[str, Any]:
        """θ is all there is."""
        return {"model": self.model}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take θ back."""
        self.model = state["model"]

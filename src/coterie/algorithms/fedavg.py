"""Federated averaging (McMahan et al., AISTATS 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coterie.algorithms import algorithm
from coterie.federation import Algorithm, Answers, Federation, Trained, saved
from coterie.messages import Array, ClientId, Params, Plan, Request, Train, Weighing


@algorithm("fedavg")
@dataclass(kw_only=True)
class FedAvg(Algorithm):
    """One model for all: the mean of what the cohort trained, weighted by samples."""

    not_private: ClassVar[str | None] = None
    transfers = 2.0
    model: Params = saved()

    def begin(self, fed: Federation) -> None:
        """θ ← θ⁰."""
        self.model = fed.initial()

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ ← Σ n_i θ_i / Σ n_i over the clients of the cohort that answered."""
        trained = Trained(fed.replies(dict.fromkeys(cohort, self.request(fed))))
        if trained or fed.settings.private_training:  # which has noise also where nobody came
            self.model = self.aggregate(fed, trained)

    def request(self, fed: Federation) -> Request:
        """What the cohort is asked."""
        return fed.request(Train(self.plan(fed)), models=self.sent())

    def sent(self) -> dict[str, Params]:
        """What the cohort receives."""
        return {"model": self.model}

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, as the run has it."""
        return fed.plan

    def aggregate(self, fed: Federation, trained: Answers) -> dict[str, Array]:
        """WAvg: the mean weighted by samples, or the rule of ``[aggregation]``."""
        return fed.average(trained, self.model)

    @property
    def weighing(self) -> Weighing:
        """Clients count by their samples."""
        return "samples"

    def model_for(self, client: ClientId) -> Params:
        """Everyone receives θ."""
        return self.model

"""Body aggregation and body update (FedBABU, Oh et al., ICLR 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.shared_layers import PartlyShared, body
from coterie.federation import Federation, Traits
from coterie.messages import ClientId, ModelSpec, Params, Plan, Train, frozen
from coterie.models.learning import learning


@algorithm("fedbabu")
@dataclass(kw_only=True)
class FedBABU(PartlyShared):
    """FedAvg of the body alone, under a head that stays as it began; each client fine-tunes the model before use."""

    not_private = "its clients train again whenever they are evaluated"
    traits = Traits(battery={"algorithm_options": {"tune_epochs": 1}})

    head: Annotated[int, Ge(1), "how many of the last layers are the head"] = 1
    tune_epochs: Annotated[int, Ge(0), "τ: epochs of fine-tuning before a model is used, so before L and C"] = 5
    tuned: Annotated[Literal["all", "head", "body"], "what of a model is fine-tuned"] = "all"

    def shared_names(self, spec: ModelSpec) -> list[str]:
        """Name the body."""
        return body(spec, self.head, "fedbabu")

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Average the bodies, and put them under the head of θ⁰."""
        super().round(fed, cohort)
        self.start = frozen({**self.start, **self.layers})

    def verbs(self, fed: Federation) -> tuple[Train, ...]:
        """The head is the start's, whatever a client has fine-tuned: it makes that itself."""
        return (Train(self.only("body", fed), start=("initial", "model"), send=tuple(self.layers)),)

    def only(self, part: Literal["head", "body"], fed: Federation) -> Plan:
        """Let one part learn."""
        free = learning(fed.spec)
        names = tuple(name for name in self.start if name in free and (name in self.layers) == (part == "body"))
        return replace(fed.plan, train=names)

    def model_for(self, client: ClientId) -> Params:
        """Everyone receives the body under the same head."""
        return self.start

    def adaptation(self, fed: Federation) -> Plan | None:
        """Fine-tune on a client's own training samples: the model that it uses."""
        if not self.tune_epochs:
            return None
        plan = fed.plan if self.tuned == "all" else self.only(self.tuned, fed)
        return replace(plan, epochs=self.tune_epochs, curriculum=None)

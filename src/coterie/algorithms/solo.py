"""Every client alone: what a federation must beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.errors import counted
from coterie.federation import Algorithm, ClientSampler, Federation
from coterie.federation.curriculum import refuse_order_by_loss
from coterie.messages import ClientId, ModelSpec, Plan, Train
from coterie.messages.plan import with_epochs


@algorithm("solo")
@dataclass(kw_only=True)
class Solo(Algorithm):
    """Every client trains alone from the common start; nothing is shared."""

    not_private = None
    transfers = 0.0

    epochs: Annotated[
        int | None, Ge(1), "epochs in all; by default what federated clients train on average, rounds·fraction·epochs"
    ] = None

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """The server has no model by which clients could be put in order."""
        refuse_order_by_loss(sampler)

    def error_in_server_step(self) -> str | None:
        """There is nothing to step towards."""
        plain = self.server_step.takes_means
        return super().error_in_server_step() if plain else "it averages nothing: leave out the server's optimiser"

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How many epochs a round has follows from how many rounds there are."""
        return ("epochs",)

    def begin(self, fed: Federation) -> None:
        """Each client makes the common start by itself."""

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """All clients go on with their own models."""
        epochs = self.epochs_of(fed.round, fed.settings.rounds, fed.fraction, fed.plan)
        if epochs:
            request = fed.request(Train(with_epochs(fed.plan, epochs), start=("own",), send=False))
            fed.ask(dict.fromkeys(fed.trainable, request))

    def epochs_of(self, t: int, rounds: int, fraction: float, plan: Plan) -> int:
        """Return the epochs of round t: all of them are spread evenly over the rounds."""
        usual = plan.epochs
        total = self.epochs or max(round(rounds * fraction * usual), usual)
        return total * t // rounds - total * (t - 1) // rounds

    def schedule(self, rounds: int, fraction: float, plan: Plan) -> list[str]:
        """How many epochs each round has."""
        return [counted(self.epochs_of(t, rounds, fraction, plan), "epoch") for t in range(1, rounds + 1)]

    def model_for(self, client: ClientId) -> None:
        """The server has no model."""

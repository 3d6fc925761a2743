"""Mean-regularised multi-task learning, the baseline of Sub-FedAvg."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.federation import Algorithm, ClientSampler, Contribution, Federation
from coterie.federation.curriculum import refuse_order_by_loss
from coterie.messages import Anchor, ClientId, ModelSpec, Train, TrainReply


@algorithm("mtl")
@dataclass(kw_only=True)
class MTL(Algorithm):
    """Every client has its own model, drawn towards the mean of the cohort's; nothing is averaged."""

    transfers = 2.0

    strength: Annotated[
        float | None, Ge(0), "of the penalty; by default 10^-e, e the number of digits of the model's size plus one"
    ] = None

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """The server has no model by which clients could be put in order."""
        refuse_order_by_loss(sampler)

    def error_in_server_step(self) -> str | None:
        """The means are what clients are drawn to, not models that the server goes on from."""
        plain = self.server_step.takes_means
        return super().error_in_server_step() if plain else "it has no server model: leave out the server's optimiser"

    def error_in_optimiser(self, name: str) -> str | None:
        """2λ w_i is a part of the gradient."""
        return None if name != "adamw" else "its penalty on weights is part of the gradient, where adamw has none"

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How strong the pull to the others is depends on how many there are."""
        return ("anchors",)

    def begin(self, fed: Federation) -> None:
        """Each client begins with θ⁰."""

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Minimise f_i(w_i) + λ(‖W‖² + tr(W Ω Wᵀ)), Ω = (I − 11ᵀ/n)², W the cohort's models, all but w_i held.

        Of the penalty the gradient is 2λ w_i + 2λ (n−1)/n (w_i − mean of the others).
        """
        now = Train(replace(fed.plan, steps=0, curriculum=None), start=("own",), keep=False)
        replies = fed.ask(dict.fromkeys(cohort, fed.request(now, kind="gather")))
        W = {client: reply.answer(TrainReply).params for client, reply in replies.items()}
        penalty, n = 2 * self.penalty(fed), len(W)
        decayed = replace(fed.plan, weight_decay=fed.plan.weight_decay + penalty)
        start, requests = fed.initial(), {}
        members = [Contribution(client, model, start, 1.0) for client, model in W.items()]
        means = fed.aggregator.averages({client: [m for m in members if m.client != client] for client in W})
        for client in W:
            if client in means:
                plan = replace(decayed, anchors=(Anchor("others", penalty * (n - 1) / n),))
                mean = {"others": means[client]}
                requests[client] = fed.request(Train(plan, start=("own",), send=False), models=mean)
            else:
                requests[client] = fed.request(Train(decayed, start=("own",), send=False))
        fed.ask(requests)

    def penalty(self, fed: Federation) -> float:
        """λ = 10^−e with e = ⌊log₁₀ d + 1⌋ + 1, d the number of parameters."""
        if self.strength is not None:
            return self.strength
        d = sum(value.size for value in fed.initial().values())
        return float(10.0 ** -(math.floor(math.log10(d) + 1) + 1))

    def model_for(self, client: ClientId) -> None:
        """The server has no model."""

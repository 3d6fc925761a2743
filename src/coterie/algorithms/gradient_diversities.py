"""Weighted gradient diversity Λ of each group, measured every so many rounds (PACFL, supplement, Eq. 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from coterie.algorithms.grouped import GroupedMethod
from coterie.federation import Federation, saved
from coterie.messages import Array, ClientId, Plan, Schedule, Train, TrainReply, update
from coterie.similarity import gradient_diversity


@dataclass(kw_only=True)
class GradientDiversities(GroupedMethod):
    """Notes how much the gradients of a group's clients disagree, before a round's training."""

    diversity: Annotated[
        int,
        Ge(0),
        "every so many rounds, from the first on, ask all clients for their gradient, and note each group's weighted "
        "gradient diversity Λ; 0: never",
    ] = 0
    diversities: dict[int, dict[int, float | None]] = saved(default_factory=dict)
    """Λ of each group, before the training of the rounds in which it was measured; None: gradients cancel out."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """A gradient is of one batch of all samples, as many as the largest client has."""
        return ("batch_size",) if self.diversity else ()

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Measure Λ where it is due; then go on as the method does."""
        if self.diversity and (fed.round - 1) % self.diversity == 0:
            self.diversities[fed.round] = self.gradient_diversities(fed)
        super().round(fed, cohort)

    def gradient_diversities(self, fed: Federation) -> dict[int, float | None]:
        """Return Λ(θ_z, C_z) of each group z, of ∇F_k on all samples of each client k.

        A gradient is a step of rate 1 on one batch of all samples. Those that are too long are cut, by any rule but the
        mean.
        """
        samples, usual = max([1, *fed.samples.values()]), fed.plan
        plan = Plan(
            Schedule(1.0),
            steps=1,
            batch_size=samples,
            label_offset=usual.label_offset,
            train=usual.train,
            smoothing=usual.smoothing,
        )
        verb = Train(plan, keep=False, purpose="gradient")
        requests = [fed.request(verb, model=model, kind="gradient") for model in self.models]
        members = {client: self.member[client] for client in fed.trainable if client in self.member}
        gradients: dict[int, list[Array]] = {}
        replies = fed.ask({client: requests[group] for client, group in members.items()})
        answers = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        for client, answer in fed.aggregator.tamed(answers, self.trained_from, kind="gradient").items():
            group = members[client]
            gradients.setdefault(group, []).append(update(answer.params, self.models[group]))
        measured = {group: gradient_diversity(gradients[group]) for group in sorted(gradients)}
        return {group: value if np.isfinite(value) else None for group, value in measured.items()}

    def observed(self, scores: Mapping[ClientId, tuple[float, int]], since: int) -> dict[str, Any]:
        """Λ of each group when it was last measured, if it is."""
        return {"diversity": [*next(reversed(self.diversities.values())).values()]} if self.diversities else {}

    def details(self) -> dict[str, Any]:
        """Λ by round and group, if it is measured."""
        by_round = {str(t): {str(group): value for group, value in of.items()} for t, of in self.diversities.items()}
        return {"gradient_diversity": by_round} if by_round else {}

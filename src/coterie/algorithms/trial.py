"""A short federated training that scores groups (FLAG's cut search)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.messages import (
    ClientId,
    Evaluate,
    EvaluateReply,
    ModelSpec,
    Params,
    Train,
    TrainReply,
    Verb,
    weighted_mean,
)
from coterie.models import initial
from coterie.streams import stream

if TYPE_CHECKING:
    from coterie.federation import Federation

Group = frozenset[ClientId]
A = TypeVar("A", TrainReply, EvaluateReply)


@dataclass
class FederatedTrial:
    """Some clients train one light model per group for a few rounds; the score is their accuracy on held-out samples.

    A group that occurs in several groupings is trained once.
    """

    fed: Federation
    clients: Sequence[ClientId]
    """All that are grouped, in the order of labels."""
    spec: ModelSpec
    size: int
    """How many clients take part."""
    rounds: int
    epochs: int
    holdout: float
    _scores: dict[Group, dict[ClientId, EvaluateReply]] = field(default_factory=dict)

    def score(self, labels: npt.NDArray[np.int64]) -> float:
        """Return the mean accuracy of the trial's clients on their held-out samples."""
        drawn = stream(self.fed.seed, "trial").permutation(len(self.clients))[: self.size]
        groups = [frozenset(self.clients[i] for i in drawn if labels[i] == group) for group in np.unique(labels[drawn])]
        self._train([group for group in groups if group not in self._scores])
        scores = [score for group in groups for score in self._scores[group].values() if score.samples]
        return float(np.mean([score.correct / score.samples for score in scores])) if scores else 0.0

    def _train(self, groups: list[Group]) -> None:
        """Train a model for each of these groups, all at once, and have its members score it."""
        fed = self.fed
        models: dict[Group, Params] = {group: initial(self.spec, fed.seed) for group in groups}
        plan = replace(fed.plan, epochs=self.epochs, holdout=self.holdout)
        for t in range(self.rounds):
            verb = Train(plan, keep=False, purpose=f"trial {t}")
            for group, answers in self._ask(verb, TrainReply, models).items():
                if answers:
                    own = list(answers.values())
                    models[group] = weighted_mean([a.params for a in own], [a.samples for a in own])
        self._scores |= self._ask(Evaluate(on="holdout", share=self.holdout), EvaluateReply, models)

    def _ask(self, verb: Verb, kind: type[A], models: Mapping[Group, Params]) -> dict[Group, dict[ClientId, A]]:
        """Ask the members of all groups at once, each with its group's model."""
        requests = {
            client: request
            for group, model in models.items()
            for request in [self.fed.request(verb, model=model, spec=self.spec, kind="trial")]
            for client in group
        }
        replies = self.fed.ask(requests)
        return {
            group: {client: replies[client].answer(kind) for client in sorted(group) if client in replies}
            for group in models
        }

"""What all clustered methods share: one model per group, and averaging inside a group."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.clustering import RuleSupport
from coterie.federation import (
    Algorithm,
    Answers,
    CandidateModels,
    Contribution,
    Federation,
    Fold,
    IntsByClient,
    ServedModel,
    Trained,
    Traits,
    as_request,
    saved,
)
from coterie.messages import ClientId, Params, Plan, Request, Train, TrainReply
from coterie.training import digest


@dataclass(kw_only=True)
class GroupedMethod(Algorithm):
    """One model per group; a method says who is in which."""

    traits = Traits(rules=RuleSupport())

    start: Params = saved()
    models: list[Params] = saved(default_factory=list)
    """One per group."""
    member: IntsByClient | dict[ClientId, int] = saved(default_factory=IntsByClient)
    """The group of each client that is in one."""

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none; where they receive several models, they choose."""
        served = self.model_for(clients[0]) if clients else None
        if isinstance(served, CandidateModels):
            replies = fed.ask(dict.fromkeys(clients, self.which_model(fed, served)))
            self.member.update({client: served.taken(reply) for client, reply in replies.items()})

    def best_models(self, fed: Federation, clients: Sequence[ClientId], least: int = 0) -> dict[ClientId, int]:
        """Return the group whose model has the smallest loss on each client's training samples.

        Of groups with at least so many other members, if there are any; the largest where all have the same model, or
        a client does not answer.
        """
        others = [group for client, group in self.member.items() if client not in clients]
        sizes = np.bincount(others, minlength=len(self.models))
        largest = int(sizes.argmax())
        groups = np.flatnonzero(sizes >= least).tolist() or [largest]
        if len({digest(self.models[group]) for group in groups}) == 1:
            return dict.fromkeys(clients, largest)
        served = CandidateModels(tuple(self.models[group] for group in groups))
        replies = fed.ask(dict.fromkeys(clients, self.which_model(fed, served)))
        return {client: groups[served.taken(replies[client])] if client in replies else largest for client in clients}

    def which_model(self, fed: Federation, served: CandidateModels) -> Request:
        """Return the question which of several models suits a client best."""
        verbs, _, models = as_request(served)
        return fed.request(*verbs, models=models)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_z ← Σ n_i θ_i / Σ n_i over the clients of the cohort that are in group z and answered."""
        self.place(fed, [client for client in cohort if client not in self.member])
        self.average(fed, self.train(fed, cohort))

    def train(self, fed: Federation, cohort: Sequence[ClientId]) -> Answers:
        """Let each client of the cohort that is in a group train its group's model; answers are there as they come."""
        verb, groups = Train(self.plan(fed)), {c: self.member[c] for c in cohort if c in self.member}
        requests = {group: fed.request(verb, model=self.models[group]) for group in sorted({*groups.values()})}
        return Trained(fed.replies({client: requests[group] for client, group in groups.items()}))

    def requests_for(self, fed: Federation, served: ServedModel, cohort: Sequence[ClientId]) -> dict[ClientId, Request]:
        """Return what lets each client of the cohort train what it receives; of several models, what suits it best."""
        verbs, start, models = as_request(served)
        request = fed.request(*verbs, Train(self.plan(fed), start=start), models=models)
        return dict.fromkeys(cohort, request)

    def average(
        self,
        fed: Federation,
        trained: Answers,
        equal: bool = False,
        start: Callable[[ClientId], Params] | None = None,
    ) -> None:
        """Replace the model of each group by the mean of its members that answered, weighted by samples or equally.

        They have started from their groups' models, unless `start` says from what.
        """
        fold, start = Fold[int](fed.aggregator), start or self.trained_from
        for client, answer in trained.items():
            member = fold.contribution(client, answer, start(client), equal)
            fold.add(self.member[client], self.weighed(member, answer))
        for group, model in fold.means(dict(enumerate(self.models)), sizes=lambda: self.expected_sizes(fed)).items():
            self.models[group] = model

    def expected_sizes(self, fed: Federation) -> Mapping[int, float]:
        """Return how many clients are in each group, as private training takes it: it is no secret."""
        return Counter(self.member[client] for client in fed.trainable if client in self.member)

    def weighed(self, member: Contribution, answer: TrainReply) -> Contribution:
        """Return what a client brings to its group's mean, where parts of it count otherwise."""
        return member

    def trained_from(self, client: ClientId) -> Params:
        """Return the model of a client's group, from which its training starts."""
        return self.models[self.member[client]]

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, as the run has it."""
        return fed.plan

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Newcomers are placed as others are."""
        self.place(fed, newcomers)

    def model_for(self, client: ClientId) -> ServedModel | None:
        """Return the model of a client's group; of the first group, or θ⁰, for a client that is in none."""
        return self.models[self.member.get(client, 0)] if self.models else self.start

    @property
    def transfers(self) -> float:
        """The group's model down, and up."""
        return 2.0

    def groups(self) -> dict[ClientId, int] | None:
        """Return the group of each client that is in one."""
        return dict(self.member)


def default_group_count(fed: Federation) -> int:
    """Return the number of groups that the user asked for; by default ⌊√n⌋ for cohorts of n clients, at least 2.

    Then each model has, in every round, about as many clients as there are models; at the papers' 10 and 20 clients
    a round this is 3 and 4, where they took 2 to 5.
    """
    return fed.settings.grouping.groups or max(2, math.isqrt(len(fed.cohort(1))))

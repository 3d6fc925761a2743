"""What all clustered methods share: one model per group, and averaging inside a group."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.clustering import RuleSupport
from coterie.federation import (
    Algorithm,
    CandidateModels,
    Contribution,
    Federation,
    IntsByClient,
    ServedModel,
    Traits,
    as_request,
    saved,
)
from coterie.messages import ClientId, Params, Plan, Reply, Request, Train, TrainReply
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
            self.member |= {client: served.taken(reply) for client, reply in replies.items()}

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

    def train(self, fed: Federation, cohort: Sequence[ClientId]) -> dict[ClientId, TrainReply]:
        """Let each client of the cohort that is in a group train its group's model."""
        verb, groups = Train(self.plan(fed)), {c: self.member[c] for c in cohort if c in self.member}
        requests = {group: fed.request(verb, model=self.models[group]) for group in sorted({*groups.values()})}
        replies = fed.ask({client: requests[group] for client, group in groups.items()})
        return {client: reply.answer(TrainReply) for client, reply in replies.items()}

    def train_served(self, fed: Federation, served: ServedModel, cohort: Sequence[ClientId]) -> dict[ClientId, Reply]:
        """Let each client of the cohort train what it receives; of several models, the one that suits it best."""
        verbs, start, models = as_request(served)
        request = fed.request(*verbs, Train(self.plan(fed), start=start), models=models)
        return fed.ask(dict.fromkeys(cohort, request))

    def average(
        self,
        fed: Federation,
        trained: Mapping[ClientId, TrainReply],
        equal: bool = False,
        start: Callable[[ClientId], Params] | None = None,
    ) -> None:
        """Replace the model of each group by the mean of its members that answered, weighted by samples or equally.

        They have started from their groups' models, unless `start` says from what.
        """
        members: dict[int, list[Contribution]] = {}
        for member in self.contributions(fed, trained, start or self.trained_from, equal):
            members.setdefault(self.member[member.client], []).append(member)
        for group, model in fed.aggregator.averages(members, models=dict(enumerate(self.models))).items():
            self.models[group] = model

    def contributions(
        self,
        fed: Federation,
        trained: Mapping[ClientId, TrainReply],
        start: Params | Callable[[ClientId], Params],
        equal: bool,
    ) -> list[Contribution]:
        """Return what clients bring to their groups' means."""
        return fed.aggregator.contributions(trained, start, equal)

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

    def groups(self) -> dict[ClientId, int]:
        """Return the group of each client that is in one."""
        return dict(self.member)


def default_group_count(fed: Federation) -> int:
    """Return the number of groups that the user asked for; by default ⌊√n⌋ for cohorts of n clients, at least 2.

    Then each model has, in every round, about as many clients as there are models; at the papers' 10 and 20 clients
    a round this is 3 and 4, where they took 2 to 5.
    """
    return fed.settings.grouping.groups or max(2, math.isqrt(len(fed.cohort(1))))

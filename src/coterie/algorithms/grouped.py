"""What all clustered methods share: one model per group, and averaging inside a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.clustering import GroupingOptions, RuleSupport
from coterie.federation.served_model import CandidateModels, as_request
from coterie.messages import ClientId, Params, Plan, Train, TrainReply, weighted_mean

if TYPE_CHECKING:
    from coterie.federation import Federation, ServedModel


@dataclass(kw_only=True)
class GroupedMethod:
    """One model per group; a method says who is in which."""

    transfers: ClassVar[float] = 2.0
    rules: ClassVar[RuleSupport | None] = RuleSupport()
    """By which rules the user may ask for groups; None: by none."""
    one_shot: ClassVar[bool] = False
    """Whether groups are formed before training, as a `grouping` says."""
    allows_new_groups: ClassVar[bool] = False
    """Whether newcomers may found groups."""

    start: Params = field(init=False)
    models: list[Params] = field(init=False, default_factory=list)
    """One per group."""
    member: dict[ClientId, int] = field(init=False, default_factory=dict)
    """The group of each client that is in one."""

    def problem(self, options: GroupingOptions) -> str | None:
        """Say what of the user's wish for groups does not go with the method's options, or None."""
        return None

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none."""

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_z ← Σ n_i θ_i / Σ n_i over the clients of the cohort that are in group z and answered."""
        self.place(fed, [client for client in cohort if client not in self.member])
        self.average(self.train(fed, cohort))

    def train(self, fed: Federation, cohort: Sequence[ClientId]) -> dict[ClientId, TrainReply]:
        """Let each client of the cohort that is in a group train its group's model."""
        verb, groups = Train(self.plan(fed)), {c: self.member[c] for c in cohort if c in self.member}
        requests = {group: fed.request(verb, model=self.models[group]) for group in sorted({*groups.values()})}
        replies = fed.ask({client: requests[group] for client, group in groups.items()})
        return {client: reply.answer(TrainReply) for client, reply in replies.items()}

    def average(self, trained: Mapping[ClientId, TrainReply], plain: bool = False) -> None:
        """Replace the model of each group by the mean of its members that answered, weighted by samples or plain."""
        for group in {self.member[client] for client in trained}:
            own = [t for client, t in trained.items() if self.member[client] == group]
            self.models[group] = weighted_mean([t.params for t in own], [1 if plain else t.samples for t in own])

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, as the run has it."""
        return fed.plan

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Newcomers are placed as others are."""
        self.place(fed, newcomers)

    def model_for(self, client: ClientId) -> ServedModel | None:
        """Return the model of a client's group; of the first group, or θ⁰, for a client that is in none."""
        return self.models[self.member.get(client, 0)] if self.models else self.start

    def groups(self) -> dict[ClientId, int]:
        """Return the group of each client that is in one."""
        return dict(self.member)

    def save(self) -> dict[str, Any]:
        """The groups and their models."""
        return {"start": self.start, "models": self.models, "member": {str(c): z for c, z in self.member.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take them back."""
        self.start, self.models = state["start"], list(state["models"])
        self.member = {int(client): group for client, group in state["member"].items()}


def choices(fed: Federation, offer: CandidateModels, clients: Sequence[ClientId]) -> dict[ClientId, int]:
    """Let clients say which of several models they would take."""
    first, _, models = as_request(offer)
    replies = fed.ask(dict.fromkeys(clients, fed.request(*first, models=models)))
    return {client: offer.taken(reply) for client, reply in replies.items()}


def default_group_count(fed: Federation) -> int:
    """Return the number of groups that was asked for; by default ⌊√n⌋ for n clients in a cohort, at least 2.

    Each model then trains on about as many clients a round as there are models; at the papers' 10 and 20 clients a
    round this is 3 and 4, where they took 2 to 5.
    """
    return fed.grouping.groups or max(2, math.isqrt(len(fed.cohort(1))))

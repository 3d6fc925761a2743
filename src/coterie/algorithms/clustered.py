"""What clustered methods share: group once, then one model per group and FedAvg inside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, Rule, extend
from coterie.federation.checkpoint import Lasting
from coterie.messages import ClientId, Params, Plan, Train, Trained, weighted_mean

if TYPE_CHECKING:
    from coterie.federation import Federation

Floats = npt.NDArray[np.float64]
D = TypeVar("D")
"""What describes a client."""


@dataclass(kw_only=True)
class Clustered(ABC, Generic[D]):
    """Group clients once, by descriptions that they send; then train one model per group (PACFL, Alg. 1).

    A method says how clients are described and how far apart two descriptions are.
    """

    transfers: ClassVar[float] = 2.0
    rules: ClassVar[tuple[str, ...]] = ("auto", "degrees", "count", "gap", "demo", "silhouette")
    """By which the user may ask for groups."""

    grouping: Grouping | None = field(init=False, default=None)
    described: dict[ClientId, D] = field(init=False, default_factory=dict)
    """What the clients of the grouping sent, in its order."""
    start: Params = field(init=False)
    models: list[Params] = field(init=False, default_factory=list)
    """One per group."""
    _noise: Floats | None = field(init=False, default=None)
    _sent: Lasting | None = field(init=False, default=None)

    @abstractmethod
    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, D]:
        """Ask clients to describe themselves."""

    @abstractmethod
    def distances(self, a: Sequence[D], b: Sequence[D] | None = None) -> Floats:
        """Return how far descriptions are from each other, (len a, len b)."""

    @abstractmethod
    def rule(self, fed: Federation) -> Rule:
        """Return the rule by which groups are formed."""

    def noise(self, fed: Federation, described: Mapping[ClientId, D], proximity: Floats) -> Floats | None:
        """Return how far chance moves descriptions, where the rule needs that.

        Of the last m of the n clients described, whose distances to all are given, (m, n).
        """
        return None

    def begin(self, fed: Federation) -> None:
        """θ_z ← θ⁰ for all groups z, which are formed of all clients that answer."""
        self.start = fed.initial()
        self.place(fed, fed.trainable)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none: the first ones form them, later ones join or found."""
        new = self.describe(fed, clients)
        if not new:
            return
        known, rule = list(self.described.values()), self.rule(fed)
        self.described |= new
        among = self.distances(list(new.values()))
        if self.grouping is None:
            self._noise = self.noise(fed, self.described, among)
            self.grouping = rule.group(among, self._noise)
        else:
            cross = self.distances(list(new.values()), known)
            later = self.noise(fed, self.described, np.hstack([cross, among]))
            self.grouping = extend(
                self.grouping, rule.scaled(cross, later, self._noise), rule.scaled(among, later, later)
            )
            self._noise = None if self._noise is None or later is None else np.concatenate([self._noise, later])
        self.models += [self.start] * (self.grouping.n_groups - len(self.models))

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_z ← Σ n_i θ_i / Σ n_i over the clients of the cohort that are in group z and answered."""
        self.place(fed, [client for client in cohort if client not in self.described])
        groups = self.groups()
        plan = Train(self.plan(fed))
        sent = {group: fed.request(plan, model=self.models[group]) for group in {*groups.values()}}
        replies = fed.ask({client: sent[groups[client]] for client in cohort if client in groups})
        for group in sent:
            trained = [reply.answer(Trained) for client, reply in replies.items() if groups[client] == group]
            if trained:
                self.models[group] = weighted_mean([t.params for t in trained], [t.samples for t in trained])

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, as the run has it."""
        return fed.plan

    def model_for(self, client: ClientId) -> Params:
        """Return the model of a client's group; of the first group, or θ⁰, for a client that is in none."""
        if not self.models:
            return self.start
        return self.models[self.groups().get(client, 0)]

    def groups(self) -> dict[ClientId, int]:
        """Return the group of each client that was described."""
        if self.grouping is None:
            return {}
        return {client: int(label) for client, label in zip(self.described, self.grouping.labels, strict=True)}

    def save(self) -> dict[str, Any]:
        """The groups and their models; what clients sent is written once."""
        if self._sent is None or self._sent.value.keys() != {str(client) for client in self.described}:
            self._sent = Lasting({str(client): description for client, description in self.described.items()})
        return {
            "start": self.start,
            "models": self.models,
            "described": self._sent,
            "noise": self._noise,
            "grouping": None if self.grouping is None else self.grouping.save(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take all of it back."""
        self.start, self.models, self._noise = state["start"], list(state["models"]), state["noise"]
        self.described = {int(client): description for client, description in state["described"].items()}
        self.grouping = None if state["grouping"] is None else Grouping(**state["grouping"])

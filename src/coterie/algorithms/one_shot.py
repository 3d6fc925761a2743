"""What one-shot methods share: group once, by what clients send; then one model per group (PACFL, FLIS-HC, FLAG)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.algorithms.grouped import GroupedMethod
from coterie.clustering import Grouping, Rule, RuleSupport, distance_to_groups, extend, matched
from coterie.federation.checkpoint import WriteOnce
from coterie.messages import ClientId, Params

if TYPE_CHECKING:
    from coterie.federation import Federation

Floats = npt.NDArray[np.float64]
D = TypeVar("D")
"""What describes a client."""


@dataclass(kw_only=True)
class OneShotClustering(GroupedMethod, Generic[D]):
    """Group clients once, by descriptions that they send; then train one model per group (PACFL, Alg. 1).

    A method says how clients are described and how far apart two descriptions are.
    """

    rules: ClassVar[RuleSupport | None] = RuleSupport(("distances",))
    one_shot: ClassVar[bool] = True
    allows_new_groups: ClassVar[bool] = True

    assign: Annotated[
        Literal["frozen", "recluster"],
        "clients that come later join groups that stay as they are, or all are grouped anew by the same cut",
    ] = "frozen"
    found: Annotated[
        Literal["start", "nearest"], "a group that later ones found begins with θ⁰, or with the nearest group's model"
    ] = "start"

    grouping: Grouping | None = field(init=False, default=None)
    described: dict[ClientId, D] = field(init=False, default_factory=dict)
    """What the clients of the grouping sent, in its order."""
    _noise: Floats | None = field(init=False, default=None)
    _sent: WriteOnce | None = field(init=False, default=None)

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

    def form(self, fed: Federation, proximity: Floats) -> Grouping:
        """Form the groups of all clients described."""
        return self.rule(fed).group(proximity, self._noise)

    def begin(self, fed: Federation) -> None:
        """θ_z ← θ⁰ for all groups z, which are formed of all clients that answer."""
        self.start = fed.initial()
        self.place(fed, fed.trainable)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none: the first ones form them, later ones join or found."""
        new = self.describe(fed, clients) if clients else {}
        if not new:
            return
        earlier = list(self.described.values())
        self.described |= new
        among = self.distances(list(new.values()))
        if self.grouping is None:
            self._noise = self.noise(fed, self.described, among)
            self.grouping = self.form(fed, among)
            self.models = [self.start] * self.grouping.n_groups
        else:
            cross = self.distances(list(new.values()), earlier)
            later = self.noise(fed, self.described, np.hstack([cross, among]))
            rule = self.rule(fed)
            cross, among = rule.scaled(cross, later, self._noise), rule.scaled(among, later, later)
            self._noise = None if self._noise is None or later is None else np.concatenate([self._noise, later])
            if self.assign == "frozen":
                self._join(rule, self.grouping, cross, among)
            else:
                self._regroup(rule, self.grouping, cross, among)
        self.member = dict(zip(self.described, self.grouping.labels.tolist(), strict=True))

    def _join(self, rule: Rule, grouping: Grouping, cross: Floats, among: Floats) -> None:
        """Groups stay as they are; who is near enough joins, others found new ones (PACFL, Alg. 2 and 3)."""
        self.grouping = extend(grouping, cross, among, rule.reach(grouping))
        for group in range(grouping.n_groups, self.grouping.n_groups):
            founder = int(np.flatnonzero(self.grouping.labels[len(grouping.labels) :] == group)[0])
            self.models.append(self._founded(grouping, cross[founder]))

    def _regroup(self, rule: Rule, grouping: Grouping, cross: Floats, among: Floats) -> None:
        """Cut the tree of all clients at the same height; a group goes on with the model of the old one it is most of.

        Old clients may change groups: a newcomer can be the bridge between two.
        """
        n = len(grouping.labels)
        founders = self.distances(list(self.described.values())[:n])
        old = rule.scaled(founders, None if self._noise is None else self._noise[:n], None)
        again = rule.regroup(grouping, np.block([[old, cross.T], [cross, among]]))
        reason = f"{grouping.reason} All were grouped anew with {len(among)} more."
        self.grouping = replace(again, reason=reason)
        heirs, models = matched(again.labels[:n], grouping.labels), []
        for group in range(again.n_groups):
            mine = grouping.labels[again.labels[:n] == group]
            if len(mine):  # of several parts of one old group the largest is its heir, but all have its model
                models.append(self.models[heirs.get(group, int(np.bincount(mine).argmax()))])
            else:
                models.append(self._founded(grouping, cross[np.flatnonzero(again.labels[n:] == group)[0]]))
        self.models = models

    def _founded(self, grouping: Grouping, distances: Floats) -> Params:
        """Return what a group begins with that a newcomer founded, whose distances to all old clients are given."""
        nearest = int(distance_to_groups(grouping, distances[None]).argmin())
        return self.models[nearest] if self.found == "nearest" else self.start

    def save(self) -> dict[str, Any]:
        """The groups and their models; what clients sent is written once."""
        if self._sent is None or self._sent.value.keys() != {str(client) for client in self.described}:
            self._sent = WriteOnce({str(client): description for client, description in self.described.items()})
        return {
            **super().save(),
            "described": self._sent,
            "noise": self._noise,
            "grouping": None if self.grouping is None else self.grouping.save(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take all of it back."""
        super().load(state)
        self._noise = state["noise"]
        self.described = {int(client): description for client, description in state["described"].items()}
        self.grouping = None if state["grouping"] is None else Grouping(**state["grouping"])

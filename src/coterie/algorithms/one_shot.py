"""What one-shot methods share: group once, by what clients send; then one model per group (PACFL, FLIS-HC, FLAG)."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.algorithms.grouped import GroupedMethod
from coterie.clustering import Grouping, Rule, RuleSupport, by_landmarks, matched
from coterie.clustering.landmarks import BLOCK, MANY, MOST_EXACT, Points
from coterie.errors import CoterieError
from coterie.federation import Federation, Traits, saved
from coterie.garbage import no_search_for_cycles
from coterie.messages import ClientId, Params
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
D = TypeVar("D")
"""What describes a client."""
AGAIN = " Grouped anew in round "


@dataclass(kw_only=True)
class OneShotClustering(GroupedMethod, Generic[D]):
    """Group clients once, by descriptions that they send; then train one model per group (PACFL, Alg. 1).

    A method says how clients are described and how far apart two descriptions are.
    """

    traits = Traits(rules=RuleSupport(("distances",)), one_shot=True, allows_new_groups=True)

    assign: Annotated[
        Literal["frozen", "recluster"],
        "clients that come later join groups that stay as they are, or all are grouped anew by the same cut",
    ] = "frozen"
    found: Annotated[
        Literal["start", "nearest"], "a group that later ones found begins with θ⁰, or with the nearest group's model"
    ] = "start"

    grouping: Grouping | None = saved(default=None)
    described: dict[ClientId, D] = saved(default_factory=dict, once=True)
    """What the clients of the grouping sent, in its order; where it is of landmarks, only they."""
    split_noise: Floats | None = saved(default=None)
    """How far chance moves each of these descriptions, where the rule needs that."""

    @abstractmethod
    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, D]:
        """Ask clients to describe themselves."""

    @abstractmethod
    def distances(self, a: Sequence[D], b: Sequence[D] | None = None) -> npt.NDArray[Any]:
        """Return how far descriptions are from each other, (len a, len b), or the records that the rule needs."""

    @abstractmethod
    def rule(self, fed: Federation) -> Rule:
        """Return the rule by which groups are formed."""

    def noise(self, fed: Federation, described: Mapping[ClientId, D], proximity: Floats) -> Floats | None:
        """Return how far chance moves descriptions, where the rule needs that.

        Of the last m of the n clients described, whose distances to all are given, (m, n).
        """
        return None

    def noise_beside(
        self, fed: Federation, clients: Mapping[ClientId, D], others: Mapping[ClientId, D], proximity: Floats
    ) -> Floats | None:
        """Return the same of clients whose distances to others are given, (clients, others), by way of these."""
        return None

    def points(self, fed: Federation, described: Sequence[D]) -> Points:
        """Return a point for each description, by which landmarks are chosen; for methods that have landmarks."""
        raise NotImplementedError(f"{type(self).__name__} has no points: its rules have no landmarks")

    def by_landmarks(self, fed: Federation, clients: int) -> bool:
        """Say whether so many clients are grouped by way of some of them; refuse more than can be compared."""
        support, scale = self.traits.rules, fed.settings.grouping.scale
        able = support is not None and support.landmarks
        if able and (scale == "landmarks" or (scale is None and clients > MANY)):
            if self.assign == "recluster":
                raise CoterieError(
                    "assign = 'recluster' compares every two clients: write --grouping exact, up to "
                    f"{MOST_EXACT:,} clients, or assign = 'frozen'"
                )
            return True
        if clients > MOST_EXACT:
            instead = "write --grouping landmarks" if able else "use pacfl, which has landmarks, or fewer clients"
            raise CoterieError(f"every two of {clients:,} clients can't be compared, only of {MOST_EXACT:,}: {instead}")
        return False

    def form(self, fed: Federation, proximity: Floats) -> Grouping:
        """Form the groups of all clients described."""
        return self.rule(fed).group(proximity, self.split_noise)

    def form_anew(self, rule: Rule, old: Grouping, proximity: Floats) -> Grouping:
        """Form the groups of clients and newcomers together, by distances in the unit of the grouping."""
        return rule.regroup(old, proximity)

    def begin(self, fed: Federation) -> None:
        """θ_z ← θ⁰ for all groups z, which are formed of all clients that answer."""
        self.start = fed.initial()
        self.place(fed, fed.trainable)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none: the first ones form them, later ones join them or form new ones."""
        landmarks = self.grouping is None and self.by_landmarks(fed, len(clients))
        with no_search_for_cycles():
            new = self.describe(fed, clients) if clients else {}
        if new and landmarks:
            self._form_by_landmarks(fed, new)
        elif new:
            self._place(fed, new)

    def _form_by_landmarks(self, fed: Federation, new: dict[ClientId, D]) -> None:
        """Form groups of some clients, whom all others join; keep only what the landmarks sent."""
        clients = [*new]
        found = by_landmarks(self.rule(fed), _Described(self, fed, new), stream(fed.seed, "landmarks"))
        order = [clients[i] for i in found.landmarks]
        self.described = {client: new[client] for client in order}
        self.grouping, self.split_noise = found.grouping, found.noise
        self.models = [self.start] * self.grouping.n_groups
        groups = dict(zip(clients, found.labels.tolist(), strict=True))
        self.member = {client: groups[client] for client in order} | groups  # landmarks first, as in the grouping

    def _place(self, fed: Federation, new: dict[ClientId, D]) -> None:
        """Place clients by what they sent, at once; many that come later in blocks."""
        if self.grouping is not None and self.assign == "frozen" and len(new) > BLOCK:
            ahead = dict(list(new.items())[:BLOCK])
            self._place(fed, ahead)
            self._place(fed, {client: told for client, told in new.items() if client not in ahead})
            return
        earlier = list(self.described.values())
        self.described = {**self.described, **new}
        among = self.distances(list(new.values()))
        if self.grouping is None:
            self.split_noise = self.noise(fed, self.described, among)
            self.grouping = self.form(fed, among)
            self.models = [self.start] * self.grouping.n_groups
        else:
            self._extend(fed, self.grouping, self.distances(list(new.values()), earlier), among)
        self.member.update(zip(self.described, self.grouping.labels.tolist(), strict=True))

    def _extend(self, fed: Federation, grouping: Grouping, cross: Floats, among: Floats) -> None:
        """Add newcomers to a grouping, whose distances to its clients and among each other are given."""
        rule, later = self.rule(fed), self.noise(fed, self.described, np.hstack([cross, among]))
        cross, among = rule.scaled(cross, later, self.split_noise), rule.scaled(among, later, later)
        if self.split_noise is not None:
            self.split_noise = None if later is None else np.concatenate([self.split_noise, later])
        if self.assign == "frozen":
            self._join(rule, grouping, cross, among)
        else:
            self.regroup(rule, grouping, cross, among)

    def _join(self, rule: Rule, grouping: Grouping, cross: Floats, among: Floats) -> None:
        """Groups stay as they are; newcomers near enough join, others form new ones (PACFL, Alg. 2 and 3)."""
        self.grouping = rule.extend(grouping, cross, among)
        for group in range(grouping.n_groups, self.grouping.n_groups):
            founder = int(np.flatnonzero(self.grouping.labels[len(grouping.labels) :] == group)[0])
            self.models.append(self._first_model(rule, grouping, cross[founder]))

    def regroup(self, rule: Rule, old: Grouping, cross: Floats, among: Floats) -> list[int | None]:
        """Cut the tree of all clients at the same height; a group goes on with the model of the old one it is most of.

        Old clients may change groups: a newcomer can be the bridge between two. Return the old group of each new one,
        None of one that has only newcomers.
        """
        n = len(old.labels)
        distances = self.distances(list(self.described.values())[:n])
        distances = rule.scaled(distances, None if self.split_noise is None else self.split_noise[:n], None)
        new = self.form_anew(rule, old, np.block([[distances, cross.T], [cross, among]]))
        self.grouping = replace(new, reason=f"{old.reason} All were grouped anew with {len(among)} more.")
        heirs, models = matched(new.labels[:n], old.labels), []
        parents: list[int | None] = []
        for group in range(new.n_groups):
            came_from = old.labels[new.labels[:n] == group]
            if len(came_from):  # of several parts of one old group the largest is its heir, but all have its model
                parents.append(parent := heirs.get(group, int(np.bincount(came_from).argmax())))
                models.append(self.models[parent])
            else:
                parents.append(None)
                models.append(self._first_model(rule, old, cross[np.flatnonzero(new.labels[n:] == group)[0]]))
        self.models = models
        return parents

    def follow(self, fed: Federation, changed: Mapping[ClientId, D], why: str) -> list[int]:
        """Group all clients anew; a group goes on with the model of the old one that most of its clients look like.

        `changed` are descriptions that are no longer what clients sent before. Return the old group of each new one.
        """
        earlier, old, before = [*self.described.values()], self.grouping, self.split_noise
        self.described = {**self.described, **changed}
        now, rule = [*self.described.values()], self.rule(fed)
        proximity = self.distances(now)
        self.split_noise = self.noise(fed, self.described, proximity)
        new = self.form_again(fed, old, proximity)
        alike = np.zeros(len(now), np.int64)  # of the one group that there is as long as nobody can be compared
        if old is not None:
            alike = rule.nearest(old, rule.scaled(self.distances(now, earlier), self.split_noise, before))
        parents = [int(np.bincount(alike[new.labels == group]).argmax()) for group in range(new.n_groups)]
        self.models = [self.models[parent] for parent in parents]
        reason = new.reason.partition(AGAIN)[0]
        self.grouping = replace(new, reason=f"{reason}{AGAIN}{fed.round}: {why}.")
        self.member = dict(zip(self.described, new.labels.tolist(), strict=True))
        return parents

    def form_again(self, fed: Federation, old: Grouping | None, proximity: Floats) -> Grouping:
        """Form the groups of all clients when some have changed: by the same cut."""
        if old is None:
            return self.form(fed, proximity)
        rule = self.rule(fed)
        return self.form_anew(rule, old, rule.scaled(proximity, self.split_noise, None))

    def _first_model(self, rule: Rule, grouping: Grouping, distances: Floats) -> Params:
        """Return what a newcomer's own group begins with; its distances to all earlier clients are given."""
        nearest = int(rule.nearest(grouping, distances[None])[0])
        return self.models[nearest] if self.found == "nearest" else self.start


class _Described(Generic[D]):
    """Clients by what they sent, as landmarks need them."""

    def __init__(self, method: OneShotClustering[D], fed: Federation, described: Mapping[ClientId, D]) -> None:
        self.method, self.fed = method, fed
        self.clients, self.told = [*described], [*described.values()]
        self.points = method.points(fed, self.told)

    def apart(self, a: Ints, b: Ints | None = None) -> Floats:
        """Return distances of the method."""
        return self.method.distances([self.told[i] for i in a], None if b is None else [self.told[i] for i in b])

    def noise(self, a: Ints, b: Ints, proximity: Floats) -> Floats | None:
        """Return what chance does; of clients among themselves as where all are compared."""
        if a is b:
            return self.method.noise(self.fed, self._of(a), proximity)
        return self.method.noise_beside(self.fed, self._of(a), self._of(b), proximity)

    def _of(self, some: Ints) -> dict[ClientId, D]:
        return {self.clients[i]: self.told[i] for i in some}

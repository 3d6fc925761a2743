"""Clustered federated learning by recursive bipartition (CFL, Sattler, Müller and Samek, 2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.clustering import bipartition, should_split, update_norms
from coterie.federation import Federation, saved
from coterie.federation.checkpoint import WriteOnce
from coterie.messages import Array, ClientId, Params, Train, TrainReply, update
from coterie.similarity import update_cosines


@dataclass(frozen=True)
class Split:
    """A group that became two, of which the first goes on under its number."""

    round: int
    groups: tuple[int, int]
    then: WriteOnce
    """The group's ``model`` before, and the mean Δ of either side, the ``directions``, (2, parameters)."""

    def side(self, delta: Array) -> int:
        """Return the group whose direction has the larger cosine with an update; of equals, the first."""
        return self.groups[int(update_cosines([delta], self.then.value["directions"]).argmax())]


@algorithm("cfl")
@dataclass(kw_only=True)
class CFL(GroupedMethod):
    """One model for all at first; a group whose clients pull in different directions is split in two."""

    not_private = "it divides groups by the angles between updates, of which noise leaves little"
    traits = replace(GroupedMethod.traits, rules=None)

    eps1: Annotated[float, Gt(0), "split a group when ‖mean Δ_i‖ is below this: as a whole it hardly moves"] = 0.4
    eps2: Annotated[float, Gt(0), "and max ‖Δ_i‖ is above this: some of its clients do"] = 1.6
    relative: Annotated[
        bool, "eps1 and eps2 are multiples of the mean ‖Δ_i‖ of round 1, not lengths that depend on the network"
    ] = False
    min_round: Annotated[int, Ge(0), "no split up to this round"] = 20

    splits: list[Split] = saved(default_factory=list)
    """In order; the first is that of all clients."""
    standing: dict[ClientId, int] = saved(default_factory=dict)
    """The split at which a client stands whose side is not known yet."""
    last: dict[ClientId, WriteOnce] = saved(default_factory=dict)
    """The last known ``update`` of each client: for its side at a split, never for a mean."""
    unit: float = saved(default=0.0)
    """Of eps1 and eps2; 0 until it is known."""
    norms: dict[int, tuple[float, float]] = saved(default_factory=dict)
    """‖mean Δ_i‖ and max ‖Δ_i‖ of each group when it last trained, in that unit."""

    def begin(self, fed: Federation) -> None:
        """All clients are in one group, with θ⁰."""
        self.start = fed.initial()
        self.models = [self.start]
        self.place(fed, fed.trainable)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Δ_i ← LocalSGD(θ_c(i)) − θ_c(i); split groups that stand still while their clients do not.

        Then θ_z ← θ_z + mean Δ_i over the clients that are in group z now, which is the plain mean of their models.
        Norms, directions and means are of the clients that trained in this round.
        """
        self.place(fed, [client for client in cohort if client not in self.member])
        trained = fed.aggregator.tamed(self.train(fed, cohort), self.trained_from)
        deltas = {client: update(t.params, self.models[self.member[client]]) for client, t in trained.items()}
        self.last |= {client: WriteOnce({"update": delta}) for client, delta in deltas.items()}
        if not self.unit and deltas:
            self.unit = float(np.mean([np.linalg.norm(d) for d in deltas.values()])) if self.relative else 1.0
        for group in sorted({self.member[client] for client in deltas}):
            own = {client: delta for client, delta in deltas.items() if self.member[client] == group}
            rows = np.stack([*own.values()]) / np.float32(self.unit or 1.0)
            self.norms[group] = update_norms(rows)
            if fed.round > self.min_round and should_split(rows, self.eps1, self.eps2):
                self.split(fed, group, own)
        self.average(fed, trained, equal=True)

    def split(self, fed: Federation, group: int, deltas: Mapping[ClientId, Array]) -> None:
        """Divide a group by the cosines of the Δ_i of this round; its other clients follow their last known ones.

        Who has none stands at the split until it takes part.
        """
        clients, rows = np.array([*deltas]), np.stack([*deltas.values()])
        halves, groups = bipartition(update_cosines(rows)), (group, len(self.models))
        directions = np.stack([rows[half].mean(axis=0, dtype=np.float64) for half in halves])
        split = Split(fed.round, groups, WriteOnce({"model": self.models[group], "directions": directions}))
        self.splits.append(split)
        self.models.append(self.models[group])
        for client in [client for client, z in self.member.items() if z == group]:
            if client in self.last:
                self.member[client] = split.side(self.last[client].value["update"])
            else:
                self.standing[client] = len(self.splits) - 1
                del self.member[client]
        self.member.update({int(client): z for z, half in zip(groups, halves, strict=True) for client in clients[half]})

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Walk down the splits: at each, train the model of then, and go where the Δ_i points more."""
        for client in clients:
            if client not in self.standing:
                self._enter(client, 0, 0)
        walk = Train(self.plan(fed), keep=False, purpose="walk")
        while walking := {client: self.standing[client] for client in clients if client in self.standing}:
            models = {s: self.splits[s].then.value["model"] for s in walking.values()}
            requests = {s: fed.request(walk, model=model, kind="walk") for s, model in models.items()}
            clients = []
            for client, reply in fed.ask({client: requests[s] for client, s in walking.items()}).items():
                s = self.standing.pop(client)
                delta = update(reply.answer(TrainReply).params, models[s])
                self.last[client] = WriteOnce({"update": delta})
                self._enter(client, self.splits[s].side(delta), s + 1)
                clients.append(client)

    def _enter(self, client: ClientId, group: int, since: int) -> None:
        """Put a client into a group; if that was split, at its first split since."""
        later = [s for s, split in enumerate(self.splits) if s >= since and split.groups[0] == group]
        if later:
            self.standing[client] = later[0]
        else:
            self.member[client] = group

    def model_for(self, client: ClientId) -> Params:
        """Return the model of a client's group; at a split, of the largest group that came of it."""
        if client not in self.standing:
            return self.models[self.member.get(client, 0)]
        first = self.standing[client]
        groups = [self.splits[first].groups[0]]
        for split in self.splits[first:]:
            groups += split.groups[1:] if split.groups[0] in groups else ()
        return self.models[max(groups, key=[*self.member.values()].count)]

    @property
    def reason(self) -> str:
        """Why there are these groups, and what eps1 and eps2 were compared with."""
        rounds = ", ".join(str(split.round) for split in self.splits)
        history = f"Groups were split in rounds {rounds}" if rounds else "No group was split"
        norms = "; ".join(f"{a:.3g} and {b:.3g} in group {z}" for z, (a, b) in self.norms.items()) or "not known"
        return f"{history}. At last ‖mean Δ‖ and max ‖Δ‖ were {norms} (eps1 = {self.eps1:g}, eps2 = {self.eps2:g})."

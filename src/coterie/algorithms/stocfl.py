"""Stochastic clustered federated learning (StoCFL, Zeng et al., 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.federation import Federation, Fold, saved
from coterie.messages import Anchor, Array, ClientId, Params, Train, TrainReply, update, weighted_mean


@algorithm("stocfl")
@dataclass(kw_only=True)
class StoCFL(GroupedMethod):
    """Groups grow as clients come: those whose first updates point the same way merge; all lean on a global model."""

    not_private = "its clients train once more to be grouped"
    traits = replace(GroupedMethod.traits, rules=None, battery={"algorithm_options": {"warmup": 1}})

    tau: Annotated[float, Ge(-1), Le(1), "merge groups whose mean updates have a cosine of at least this"] = 0.5
    lam: Annotated[
        float, Ge(0), "strength λ of the proximal term λ/2·‖θ − ω‖² that holds groups near the global model"
    ] = 0.05
    warmup: Annotated[int, Ge(1), "local epochs from the common start after which a client's update is compared"] = 10

    omega: Params = saved()
    """ω, the global model."""
    directions: list[Array] = saved(default_factory=list)
    """The mean of the first updates of each group's clients."""
    sizes: list[int] = saved(default_factory=list)
    """How many clients that is the mean of."""

    def begin(self, fed: Federation) -> None:
        """ω ← θ⁰; there are no groups until clients come."""
        self.start = self.omega = fed.initial()

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_i ← LocalSGD of f_i(θ) + λ/2·‖θ − ω‖² from θ_z, ω_i ← LocalSGD(ω); θ_z and ω ← their means."""
        self.place(fed, [client for client in cohort if client not in self.member])
        own = Train(replace(self.plan(fed), anchors=(Anchor("global", self.lam),) if self.lam else ()))
        common = Train(self.plan(fed), start=("global",), keep=False, purpose="global")
        groups = {client: self.member[client] for client in cohort if client in self.member}
        requests = {
            group: fed.request(own, common, models={"model": self.models[group], "global": self.omega})
            for group in sorted({*groups.values()})
        }
        within, everyone = Fold[int](fed.aggregator), Fold[int](fed.aggregator)
        for reply in fed.replies({client: requests[group] for client, group in groups.items()}):
            client, (own_model, common_model) = reply.client, (reply.answer(TrainReply, which) for which in (0, 1))
            within.add(groups[client], within.contribution(client, own_model, self.trained_from(client)))
            everyone.add(0, everyone.contribution(client, common_model, self.omega))
        for group, model in within.means(dict(enumerate(self.models))).items():
            self.models[group] = model
        self.omega = everyone.means().get(0, self.omega)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Ψ_i ← LocalSGD(θ⁰) − θ⁰ of clients that come; each is a group, then groups that point the same way merge."""
        verb = Train(replace(self.plan(fed), epochs=self.warmup), start=("initial",), keep=False, purpose="warm-up")
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="describe"))) if clients else {}
        answers = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        came = fed.aggregator.tamed(answers, self.start, kind="describe")
        if not came:
            return
        trained = [*self.sizes, *[0] * len(came)]  # whose models count where two groups merge
        for client, answer in came.items():
            self.member[client] = len(self.models)
            self.models.append(self.omega)
            self.directions.append(update(answer.params, self.start))
            self.sizes.append(1)
        self.merge(trained)

    def merge(self, trained: list[int]) -> None:
        """Merge the two groups with the largest cosine as long as it is at least τ.

        The model of the merged group is the mean of both by the clients whose models they are; groups of clients that
        just came have trained none.
        """
        rows = np.stack(self.directions).astype(np.float64)
        products = rows @ rows.T
        while len(products) > 1:
            lengths = np.sqrt(np.maximum(products.diagonal(), np.finfo(np.float64).tiny))
            cosines = np.triu(products / lengths[:, None] / lengths, 1) - 2 * np.tri(len(products))
            a, b = (int(group) for group in np.unravel_index(cosines.argmax(), cosines.shape))
            if cosines[a, b] < self.tau:
                return
            if trained[a] and trained[b]:
                self.models[a] = weighted_mean([self.models[a], self.models[b]], [trained[a], trained[b]])
            elif trained[b]:
                self.models[a] = self.models[b]
            share = self.sizes[b] / (self.sizes[a] + self.sizes[b])
            self.directions[a] = self.directions[a] + np.float32(share) * (self.directions[b] - self.directions[a])
            self.sizes[a] += self.sizes[b]
            trained[a] += trained[b]
            mixed = np.eye(len(products))
            mixed[a, [a, b]] = 1 - share, share
            mixed = np.delete(mixed, b, axis=0)
            products = mixed @ products @ mixed.T
            del self.models[b], self.directions[b], self.sizes[b], trained[b]
            self.member = {client: a if z == b else z - (z > b) for client, z in self.member.items()}

    def model_for(self, client: ClientId) -> Params:
        """Return the model of a client's group; ω for a client that is in none."""
        return self.models[self.member[client]] if client in self.member else self.omega

    def global_model(self) -> Params:
        """Return ω."""
        return self.omega

    @property
    def transfers(self) -> float:
        """The group's model and ω down, and up."""
        return 4.0

    @property
    def reason(self) -> str:
        """How many groups the cosines left."""
        return f"Groups whose first updates have a cosine of at least {self.tau:g} were merged as clients came."

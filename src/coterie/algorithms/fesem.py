"""Multi-centre federated learning (FeSEM, Xie et al., 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod, default_group_count
from coterie.clustering import k_means
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.messages import ClientId, Params, Train, TrainReply, distance, update
from coterie.streams import stream


@algorithm("fesem")
@dataclass(kw_only=True)
class FeSEM(GroupedMethod):
    """K centres; a client belongs to the one nearest to the model that it trained last, and goes on from there."""

    init: Annotated[
        Literal["k-means", "random"],
        "centres at first: found by k-means among models that the first cohort trains from θ⁰, as others do later "
        "to find their centre; or random models, of which all clients may fall to one",
    ] = "k-means"
    layer: Annotated[
        Literal["all", "last"], "what distances are taken over: all parameters, or the last layer's as in FeSEM's code"
    ] = "all"
    weights: Annotated[Literal["samples", "equal"], "of a group's members in its mean"] = "samples"

    def begin(self, fed: Federation) -> None:
        """M_k ← different random models; or none until a cohort has trained."""
        self.start, size = fed.initial(), len(fed.cohort(1))
        if self.init == "random":
            self.models = [fed.initial(k) for k in range(1, 1 + default_group_count(fed))]  # θ⁰ would attract all
        elif size < (fed.settings.grouping.groups or 0):
            raise CoterieError(
                f"k-means can't find {fed.settings.grouping.groups} groups in a first cohort of {size}: raise "
                "--fraction, lower --groups, or let fesem start with init=random"
            )

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_i ← LocalSGD(M_c(i)); E-step: c(i) ← argmin_k ‖θ_i − M_k‖²; M-step: M_k ← mean of its θ_i.

        Clients that did not train keep their groups: the server has no models of theirs.
        """
        self.place(fed, [client for client in cohort if client not in self.member])
        started = {client: self.trained_from(client) for client in cohort if client in self.member}
        trained = fed.aggregator.tamed(self.train(fed, cohort), started.__getitem__)
        self.member.update({client: self.nearest(t.params) for client, t in trained.items()})
        self.average(fed, trained, self.weights == "equal", started.__getitem__)

    def nearest(self, model: Params) -> int:
        """Return argmin_k ‖θ − M_k‖²; of equals, the first."""
        compared = self._compared(model)
        return int(np.argmin([distance(compared, centre) for centre in self.models]))

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Newcomers train once from θ⁰, and join the centre nearest to that."""
        self.place(fed, newcomers, train=True)

    def place(self, fed: Federation, clients: Sequence[ClientId], train: bool = False) -> None:
        """E-step for clients that have not trained yet: θ_i is θ⁰, or, with k-means, LocalSGD(θ⁰)."""
        models = dict.fromkeys(clients, self.start)
        if train or self.init == "k-means":
            verb = Train(self.plan(fed), start=("initial",), keep=False, purpose="place")
            replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="place")))
            answers = {client: reply.answer(TrainReply) for client, reply in replies.items()}
            answers = {**fed.aggregator.tamed(answers, self.start, kind="place")}
            models = {client: answer.params for client, answer in answers.items()}
            if not self.models and not self._find_centres(fed, clients, answers):
                return
        self.member.update({client: self.nearest(model) for client, model in models.items()})

    def _find_centres(
        self, fed: Federation, clients: Sequence[ClientId], answers: Mapping[ClientId, TrainReply]
    ) -> bool:
        """Find the centres by k-means; if too few clients have answered, wait for the next cohort."""
        K = min(default_group_count(fed), len(clients))
        if len(answers) >= max(K, 1):
            points = [update(answer.params, self._compared(self.start)) for answer in answers.values()]
            labels = k_means(points, K, stream(fed.seed, "k-means")).labels.tolist()
            members = fed.aggregator.contributions(answers, self.start, equal=True)
            by_centre = {k: [m for m, own in zip(members, labels, strict=True) if own == k] for k in sorted({*labels})}
            self.models = [*fed.aggregator.averages(by_centre, kind="place").values()]
        return bool(self.models)

    def _compared(self, model: Params) -> Params:
        """Return the parameters that distances are taken over."""
        last = [*model][-1].rpartition(".")[0]
        return model if self.layer == "all" else {n: v for n, v in model.items() if n.rpartition(".")[0] == last}

    @property
    def reason(self) -> str:
        """What became of the centres, of which all clients may fall to one."""
        taken = len({*self.member.values()})
        if not self.models:
            return "In no round have enough clients answered for k-means to find centres."
        if taken == 1 < min(len(self.models), len(self.member)):
            hint = ": try init=k-means" if self.init == "random" else ""
            return f"All clients fell to one of {len(self.models)} centres, as if there were no groups{hint}."
        return f"Each client is nearest to one of {len(self.models)} centres; {taken} of these have clients."

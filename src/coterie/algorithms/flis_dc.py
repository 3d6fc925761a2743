"""Dynamic clusters by inference similarity (FLIS-DC, Morafah et al., 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.algorithms.inference import RULES, Cluster, Inference, clusters, together
from coterie.clustering import Grouping
from coterie.errors import CoterieError
from coterie.federation import CandidateModels, Federation, ServedModel, saved
from coterie.messages import (
    Array,
    ClassCounts,
    ClassCountsReply,
    ClientId,
    Losses,
    Params,
    Plan,
    Reply,
    Train,
    TrainReply,
)
from coterie.similarity import inference_similarity
from coterie.training import losses


@algorithm("flis-dc")
@dataclass(kw_only=True)
class FLISDC(Inference, GroupedMethod):
    """A model around each client of the cohort, shared with those whose models predict alike; the next ones choose."""

    traits = replace(
        GroupedMethod.traits,
        rules=replace(RULES, refuses=("degrees", "count", "components", "spectral")),
        of_labels=True,
    )
    linkage: ClassVar[str] = "average"

    select_on: Annotated[
        Literal["train", "holdout", "server", "test"],
        "where a client finds its best model: by loss on training samples, or on a tenth of them that it keeps out of "
        "training; by loss on the server's samples of the labels that it has; or by accuracy on its test samples, "
        "which is the authors' code (a leak)",
    ] = "train"

    clusters: list[Cluster] = saved(default_factory=list)
    """G_i: the members of the cluster around each client that answered last; they overlap."""
    cohort: int = saved(default=1)
    """How many clients are in a cohort."""
    grouping: Grouping | None = saved(default=None)
    """By which β was found in the last round."""
    has_label: dict[ClientId, Array] = saved(default_factory=dict)
    """Which labels each client has, where models are chosen on the server, (classes,)."""
    server_losses: Array | None = saved(default=None)
    """Then also: the summed losses of each model on the server's samples of each label, (models, classes)."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """There are as many models as clients trained in the last round."""
        return ("models",)

    def begin(self, fed: Federation) -> None:
        """θ⁰ is all there is."""
        self.samples(fed)  # refuse what can't work before any client does
        self.start, self.cohort = fed.initial(), len(fed.cohort(1))
        if self.select_on == "server":
            self.server_labels(fed)
            self.learn_labels(fed, fed.trainable)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Each takes the best θ_j and trains it; G_i ← {j: A_ij ≥ β}; θ_i ← mean over G_i (Alg. 1 and 2)."""
        served = self.candidates()
        if self.select_on == "server":
            replies = self.train_chosen(fed, cohort)
        else:
            replies = fed.ask(self.requests_for(fed, served, cohort))
        trained = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        if not trained:
            return
        A = inference_similarity(self.predictions(fed, [t.params for t in trained.values()]))
        self.grouping = self.rule(fed).group(1 - A)
        self.clusters = clusters(list(trained), A, self.threshold(self.grouping))
        models = self.models or [self.start]
        taken = {client: self.taken(client, served, reply) for client, reply in replies.items()}
        members = {m.client: m for m in fed.aggregator.contributions(trained, lambda client: models[taken[client]])}
        averages = fed.aggregator.averages(
            {i: [members[j] for j in G] for i, G in enumerate(self.clusters)},
            models={i: models[taken[client]] for i, client in enumerate(trained)},
        )
        self.models = [*averages.values()]
        self.member = {client: i for i, client in enumerate(trained)}
        if self.select_on == "server":
            self.server_losses = self.losses_by_label(fed)

    def taken(self, client: ClientId, served: ServedModel, reply: Reply) -> int:
        """Return which of the last models a client has trained."""
        if self.select_on == "server":
            return self.chosen(client) if self.models else 0
        return served.taken(reply) if isinstance(served, CandidateModels) else 0

    def server_labels(self, fed: Federation) -> npt.NDArray[np.int64]:
        """Return the labels of the server's samples; refuse samples whose labels are not the clients'."""
        y, labels = self.server_set(fed).y, fed.spec.classes
        if y is None or y.max(initial=0) >= labels:
            which = "have none" if y is None else f"go up to {y.max()}, beyond the {labels} classes"
            raise CoterieError(
                f"select_on = 'server' needs the labels of the server's samples, but those of server_data = "
                f"'{self.server_data}' {which}: use select_on = 'train', or server_data = 'reserved'"
            )
        return y

    def learn_labels(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Ask clients which labels they have."""
        new = [client for client in clients if client not in self.has_label]
        for client, reply in (fed.ask(dict.fromkeys(new, fed.request(ClassCounts()))) if new else {}).items():
            self.has_label[client] = reply.answer(ClassCountsReply).counts > 0

    def losses_by_label(self, fed: Federation) -> Array:
        """Sum the losses of each model over the server's samples of each label, (models, classes)."""
        y, classes = self.server_labels(fed), fed.spec.classes
        outputs = fed.logits(self.models, self.samples(fed))
        by_model = [losses(logits, y, fed.spec.loss) for logits in outputs]
        return np.stack([np.bincount(y, values, minlength=classes) for values in by_model])

    def chosen(self, client: ClientId) -> int:
        """argmin_j L(D_k^server; θ_j), where D_k^server are the server's samples of client k's labels; else all."""
        assert self.server_losses is not None
        own = self.has_label.get(client, np.ones(self.server_losses.shape[1], bool))
        sums = self.server_losses[:, own].sum(axis=1)
        return int((sums if sums.any() else self.server_losses.sum(axis=1)).argmin())

    def train_chosen(self, fed: Federation, cohort: Sequence[ClientId]) -> dict[ClientId, Reply]:
        """Let each client of the cohort train the model that the server has chosen for it."""
        self.learn_labels(fed, cohort)
        verb, models = Train(self.plan(fed)), self.models or [self.start]
        taken = {client: self.chosen(client) if self.models else 0 for client in cohort}
        requests = {which: fed.request(verb, model=models[which]) for which in sorted({*taken.values()})}
        return fed.ask({client: requests[which] for client, which in taken.items()})

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Clients that come take the best model, or are given it."""
        if self.select_on != "server":
            super().place(fed, clients)
            return
        self.learn_labels(fed, clients)
        if self.models:
            self.member.update({client: self.chosen(client) for client in clients})

    def threshold(self, grouping: Grouping) -> float:
        """β; where a rule finds it, 1 − where that cuts the tree of 1 − A, and 0 where it finds one group."""
        if self.beta is not None:
            return self.beta
        return 1 - grouping.threshold if grouping.n_groups > 1 else 0.0

    def plan(self, fed: Federation) -> Plan:
        """LocalSGD, without the samples that a client chooses by where it holds some out."""
        return replace(fed.plan, holdout=Losses.share) if self.select_on == "holdout" else fed.plan

    def candidates(self, last: int | None = None) -> Params | CandidateModels:
        """All models of the last round, and how clients choose; θ⁰ as long as there are none."""
        if not self.models or self.select_on == "server":
            return self.start
        by: Literal["loss", "accuracy"] = "accuracy" if self.select_on == "test" else "loss"
        return CandidateModels(tuple(self.models), self.select_on, by, last)

    def model_for(self, client: ClientId) -> Params | CandidateModels:
        """Everyone receives all models, unless the server chooses."""
        if self.select_on == "server" and self.models:
            return self.models[self.chosen(client)]
        return self.candidates(self.member.get(client))

    def groups(self) -> dict[ClientId, int]:
        """Return who of the last cohort has a cluster of the same members; and newcomers, by what they took."""
        return together({client: self.clusters[i] for client, i in self.member.items()})

    def memberships(self) -> dict[ClientId, list[int]]:
        """Return which of the models each client of the last cohort is part of."""
        parts = {client: [i for i, G in enumerate(self.clusters) if client in G] for client in self.member}
        return {client: models for client, models in parts.items() if models}

    @property
    def transfers(self) -> float:
        """As many models down as there are clients in a cohort, or the one that the server chose; one up."""
        return 2.0 if self.select_on == "server" else self.cohort + 1.0

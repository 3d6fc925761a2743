"""Dynamic clusters by inference similarity (FLIS-DC, Morafah et al., 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.algorithms.inference import RULES, Cluster, Inference, clusters, together
from coterie.clustering import Grouping
from coterie.federation import CandidateModels, Federation, saved
from coterie.messages import ClientId, Losses, Params, Plan, TrainReply, average_models
from coterie.similarity import inference_similarity


@algorithm("flis-dc")
@dataclass(kw_only=True)
class FLISDC(Inference, GroupedMethod):
    """A model around each client of the cohort, shared with those whose models predict alike; the next ones choose."""

    traits = replace(
        GroupedMethod.traits, rules=replace(RULES, refuses=("degrees", "count", "components", "spectral"))
    )
    linkage: ClassVar[str] = "average"

    select_on: Annotated[
        Literal["train", "holdout", "test"],
        "where a client finds its best model: by loss on training samples, or on a tenth of them that it keeps out of "
        "training; or by accuracy on its test samples, which is the authors' code (a leak)",
    ] = "train"

    clusters: list[Cluster] = saved(default_factory=list)
    """G_i: the members of the cluster around each client that answered last; they overlap."""
    cohort: int = saved(default=1)
    """How many clients are in a cohort."""
    grouping: Grouping | None = saved(default=None)
    """By which β was found in the last round."""

    def begin(self, fed: Federation) -> None:
        """θ⁰ is all there is."""
        self.samples(fed)  # refuse what can't work before any client does
        self.start, self.cohort = fed.initial(), len(fed.cohort(1))

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Each takes the best θ_j and trains it; G_i ← {j: A_ij ≥ β}; θ_i ← mean over G_i (Alg. 1 and 2)."""
        replies = self.train_served(fed, self.candidates(), cohort)
        trained = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        if not trained:
            return
        A = inference_similarity(self.predictions(fed, [t.params for t in trained.values()]))
        self.grouping = self.rule(fed).group(1 - A)
        self.clusters = clusters(list(trained), A, self.threshold(self.grouping))
        self.models = [average_models([trained[j] for j in G]) for G in self.clusters]
        self.member = {client: i for i, client in enumerate(trained)}

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
        by: Literal["loss", "accuracy"] = "accuracy" if self.select_on == "test" else "loss"
        return CandidateModels(tuple(self.models), self.select_on, by, last) if self.models else self.start

    def model_for(self, client: ClientId) -> Params | CandidateModels:
        """Everyone receives all models."""
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
        """As many models down as there are clients in a cohort, one up."""
        return self.cohort + 1.0

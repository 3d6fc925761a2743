"""Federated learning under distributed concept drift (FedDrift, Jothimurugesan et al., AISTATS 2023)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.clustering import cut, tree
from coterie.federation import CandidateModels, Federation, as_request, saved
from coterie.messages import ClientId, LossesReply, Train, TrainReply, weighted_mean

APART = 1e9
"""The distance of groups of which too few are in the cohort to be compared; they do not merge."""


@algorithm("feddrift")
@dataclass(kw_only=True)
class FedDrift(GroupedMethod):
    """Clients take the best of all models; where its loss has risen they start their own, and like models merge."""

    not_private = "its clients choose among models by their losses, which are told without noise"
    traits = replace(GroupedMethod.traits, rules=None, battery={"algorithm_options": {"isolated": 2}})

    delta: Annotated[
        float,
        Gt(0),
        "a rise of the loss by more is a drift; groups merge while either's model costs the other's clients no more",
    ] = 1.0
    isolated: Annotated[
        int, Ge(1), "local epochs in which a client without a model that fits trains its own from the common start"
    ] = 20

    last: dict[ClientId, float] = saved(default_factory=dict)
    """The loss of the best model, when each client last compared."""
    drifted: int = saved(default=0)
    """How often a client was found to have drifted."""
    merged: int = saved(default=0)
    """How often two groups became one."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How many models are compared depends on who drifts."""
        return ("models",)

    def begin(self, fed: Federation) -> None:
        """There is no model until a cohort has trained."""
        self.start = fed.initial()

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Compare, isolate, merge; then θ_z ← mean of LocalSGD(θ_z) over the clients of group z (Alg. 1 and 2)."""
        alone = self.compare(fed, cohort)
        if alone:
            waiting = {*alone} - {*self.isolate(fed, alone)}  # they drift again when they compare next
            self.merge(fed, [client for client in cohort if client in self.member and client not in waiting])
        self.forget_empty()
        self.average(fed, self.train(fed, cohort))

    def compare(self, fed: Federation, clients: Sequence[ClientId]) -> list[ClientId]:
        """z_i ← argmin_k f(θ_k; D_i); return the clients whose smallest loss is more than δ above what it was.

        Who compares for the first time is measured by the members of that group.
        """
        if not self.models:
            return list(clients)
        alone = []
        usual = self.usual_losses()
        for client, losses in self.losses(fed, clients).items():
            best = int(np.argmin(losses.losses))
            loss = losses.losses[best]
            before = self.last.get(client, usual.get(best, loss))
            if loss > before + self.delta:  # what it was stays, until its own model is there
                alone.append(client)
            else:
                self.member[client], self.last[client] = best, loss
        return alone

    def losses(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, LossesReply]:
        """Return the losses of all models on the training samples of each client that answers."""
        verbs, _, models = as_request(CandidateModels(tuple(self.models)))
        replies = fed.ask(dict.fromkeys(clients, fed.request(*verbs, models=models)))
        return {client: reply.answer(LossesReply) for client, reply in replies.items()}

    def usual_losses(self) -> dict[int, float]:
        """Return the mean of the last losses in each group."""
        by_group: dict[int, list[float]] = {}
        for client, group in self.member.items():
            if client in self.last:
                by_group.setdefault(group, []).append(self.last[client])
        return {group: float(np.mean(losses)) for group, losses in by_group.items()}

    def isolate(self, fed: Federation, clients: Sequence[ClientId]) -> list[ClientId]:
        """Let each of these train a model of its own from θ⁰, which is a new group; return who has."""
        plan = replace(self.plan(fed), epochs=self.isolated)
        verb = Train(plan, start=("initial",), keep=False, purpose="isolated")
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="isolated")))
        answers = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        own = fed.aggregator.tamed(answers, self.start, kind="isolated")
        for client, answer in own.items():
            self.drifted += client in self.member
            self.member[client] = len(self.models)
            self.models.append(answer.params)
            self.last[client] = answer.loss
        return [*own]

    def merge(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Merge groups by complete linkage up to δ of d(a, b) = max(L_ab − L_bb, L_ba − L_aa, 0).

        L_ab is the loss of θ_a on the clients of b. The merged model is the mean of both by their samples.
        """
        answers = self.losses(fed, clients) if len(self.models) > 1 else {}
        apart = self.distances(answers)
        labels = cut(tree(apart, "complete"), threshold=self.delta) if len(apart) > 1 else np.zeros(len(apart), int)
        samples = [0] * len(self.models)
        for client, answer in answers.items():
            samples[self.member[client]] += answer.samples
            self.last[client] = answer.losses[self.member[client]]
        parts = [np.flatnonzero(labels == group).tolist() for group in range(int(labels.max(initial=-1)) + 1)]
        self.merged += len(self.models) - len(parts)
        self.models = [
            self.models[part[0]]
            if len(part) == 1
            else weighted_mean([self.models[k] for k in part], [samples[k] for k in part])
            for part in parts
        ]
        self.member = {client: int(labels[group]) for client, group in self.member.items()}

    def distances(self, answers: Mapping[ClientId, LossesReply]) -> npt.NDArray[np.float64]:
        """Return d(a, b) of all groups, by the clients of the cohort that are in them."""
        K = len(self.models)
        total, samples = np.zeros((K, K)), np.zeros(K)
        for client, answer in answers.items():
            group = self.member[client]
            total[:, group] += answer.samples * np.asarray(answer.losses)
            samples[group] += answer.samples
        loss = total / np.maximum(samples, 1)  # of the row's model on the column's clients
        rise = np.maximum(loss - loss.diagonal(), 0.0)
        known = (samples > 0)[:, None] & (samples > 0)
        apart = np.where(known, np.minimum(np.maximum(rise, rise.T), APART), APART)
        np.fill_diagonal(apart, 0.0)
        return apart

    def forget_empty(self) -> None:
        """Drop the models of groups that nobody is in, so that there are never more than clients."""
        kept = sorted({*self.member.values()})
        if len(kept) < len(self.models):
            numbers = {group: k for k, group in enumerate(kept)}
            self.models = [self.models[group] for group in kept]
            self.member = {client: numbers[group] for client, group in self.member.items()}

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Newcomers take the best model there is; in their first round they may find that it does not fit."""
        if self.models and clients:
            self.member.update({c: int(np.argmin(answer.losses)) for c, answer in self.losses(fed, clients).items()})

    @property
    def transfers(self) -> float:
        """K models down to be compared, one to be trained and one up."""
        return len(self.models) + 2.0

    @property
    def reason(self) -> str:
        """What has happened to groups."""
        return (
            f"Clients take the model of smallest loss; {self.drifted} times one drifted away from all, and "
            f"{self.merged} times two groups that cost each other at most {self.delta:g} became one."
        )

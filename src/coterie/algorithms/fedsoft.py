"""Soft clustered federated learning with proximal local updates (FedSoft, Ruan and Joe-Wong, AAAI 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.federation import Answers, Contribution, Federation, Fold, Trained, saved
from coterie.messages import Anchor, ClientId, Losses, LossesReply, Params, Train
from coterie.streams import stream


@algorithm("fedsoft")
@dataclass(kw_only=True)
class FedSoft(GroupedMethod):
    """Clients belong to all groups in shares, and train models of their own that are held near the groups' centres."""

    not_private = "its clients choose among models by their losses, which are told without noise"

    lam: Annotated[float, Ge(0), "strength λ of the proximal term λ/2·Σ_s u_is ‖w − c_s‖²"] = 0.1
    tau: Annotated[int, Ge(1), "all clients estimate their shares once in this many rounds"] = 2
    sigma: Annotated[float, Gt(0), Lt(1), "share in a group whose centre suits none of a client's samples best"] = 1e-4
    selection: Annotated[
        bool, "each centre draws clients by their shares; else the round's cohort trains, and counts by its shares"
    ] = True

    u: dict[ClientId, list[float]] = saved(default_factory=dict)
    """Of the samples of each client that has answered, the share that each centre suits best."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How strong each centre's pull is depends on a client's shares."""
        return ("anchors",)

    def begin(self, fed: Federation) -> None:
        """c_s ← different random models; clients' own models w_i are θ⁰."""
        self.start = fed.initial()
        self.models = [fed.initial(s) for s in range(fed.settings.grouping.groups or 2)]

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """w_i ← LocalSGD of f_i(w) + λ/2·Σ_s u_is ‖w − c_s‖² from w_i; c_s ← mean of w_i over those drawn for s.

        Every τ rounds the u_is come first. Who was away then is asked again in the next round.
        """
        due = (fed.round - 1) % self.tau == 0
        self.place(fed, [client for client in fed.trainable if due or client not in self.u])
        eligible = [client for client in (fed.trainable if self.selection else cohort) if client in self.u]
        chosen = [self.chosen(fed, s, eligible) for s in range(len(self.models))]
        fold = Fold[int](fed.aggregator)
        for client, answer in self.train(fed, sorted({client for weights in chosen for client in weights})).items():
            for s, weights in enumerate(chosen):
                if client in weights:
                    fold.add(s, Contribution(client, answer.params, self.models[s], weights[client]))
        for s, model in fold.means().items():
            self.models[s] = model

    def chosen(self, fed: Federation, s: int, clients: Sequence[ClientId]) -> dict[ClientId, float]:
        """Draw K = qN/S clients for c_s, with probabilities v_si = u_is n_i / Σ_j u_js n_j; each counts the same.

        Without selection it is all of them, and they count by v_si.
        """
        samples = fed.samples
        n = fed.aggregator.weights({client: samples[client] for client in clients})
        v = np.array([self.u[client][s] * n[client] for client in clients])
        v /= v.sum()
        if not self.selection or not clients:
            return dict(zip(clients, v.tolist(), strict=True))
        K = min(max(round(fed.fraction * len(fed.trainable) / len(self.models)), 1), len(clients))
        drawn = stream(fed.seed, "fedsoft", fed.round, s).choice(len(clients), K, replace=False, p=v)
        return {clients[i]: 1.0 for i in sorted(drawn)}

    def train(self, fed: Federation, cohort: Sequence[ClientId]) -> Answers:
        """Let clients go on with their own models, held near all centres by their shares."""
        centres, requests = self._centres(), {}
        for client in cohort:
            anchors = tuple(Anchor(name, self.lam * u) for name, u in zip(centres, self.u[client], strict=True))
            verb = Train(replace(self.plan(fed), anchors=anchors), start=("own",))
            requests[client] = fed.request(verb, models=centres)
        return Trained(fed.replies(requests))

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """u_is ← share of the client's samples on which c_s has the smallest loss, σ where there are none."""
        centres = self._centres()
        request = fed.request(Losses(tuple(centres)), models=centres)
        for client, reply in fed.ask(dict.fromkeys(clients, request)).items():
            answer = reply.answer(LossesReply)
            self.u[client] = [wins / max(answer.samples, 1) or self.sigma for wins in answer.wins]
            self.member[client] = int(np.argmax(self.u[client]))

    @property
    def selects_clients(self) -> bool:
        """Whether the centres draw clients, regardless of the cohort."""
        return self.selection

    def memberships(self) -> dict[ClientId, list[float]]:
        """Return u_is, the shares of each client in all groups; `groups` has the largest."""
        return {client: list(u) for client, u in self.u.items()}

    @property
    def transfers(self) -> float:
        """S centres down, one model up."""
        return len(self.models) + 1.0

    def _centres(self) -> dict[str, Params]:
        return {f"centre{s}": model for s, model in enumerate(self.models)}

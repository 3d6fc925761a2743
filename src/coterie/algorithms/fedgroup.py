"""Groups by the directions of clients' first updates (FedGroup and FedGrouProx, Duan et al., 2021)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod, default_group_count
from coterie.clustering import Count, Grouping, k_means
from coterie.federation import Answers, Contribution, Federation, ServedModel, saved
from coterie.messages import (
    Anchor,
    Array,
    ClientId,
    Params,
    Plan,
    Train,
    TrainReply,
    Weighing,
    distance,
    frozen,
    update,
    weighted_mean,
)
from coterie.messages.params import STATISTICS
from coterie.messages.plan import total_steps
from coterie.models.learning import frozen_part
from coterie.similarity import cosine_features, madc, update_cosines
from coterie.streams import stream

DECIMALS = 6
"""Of cosines between updates; what is behind them is rounding of float32."""


@algorithm("fedgroup")
@dataclass(kw_only=True)
class FedGroup(GroupedMethod):
    """One model per group of clients whose first updates point in similar directions; some of them form the groups."""

    not_private = "its clients train once more to be grouped"
    traits = replace(GroupedMethod.traits, one_shot=True)

    measure: Annotated[
        Literal["edc", "madc"],
        "edc: k-means on the cosines of first updates with their m main directions; madc: complete linkage on their "
        "cosines with each other",
    ] = "edc"
    alpha_pre: Annotated[int, Ge(1), "how many clients per group pre-train at first and form the groups"] = 20
    pretrain_steps: Annotated[int, Ge(1), "mini-batches of pre-training"] = 50
    pretrain_epochs: Annotated[int | None, Ge(1), "epochs of pre-training, instead of mini-batches"] = None
    centres: Annotated[
        Literal["clustered", "random"], "random: each group is founded by one client that is drawn (ablation RCC)"
    ] = "clustered"
    assignment: Annotated[
        Literal["nearest", "random-once", "random-each"],
        "of other clients: to the nearest direction, or drawn, once or at every selection (ablation RAC)",
    ] = "nearest"
    eager: Annotated[bool, "find groups for all clients before round 1, not when they are first selected"] = False
    direction: Annotated[
        Literal["cold-start", "latest"],
        "of a group, for other clients: of its founders' first updates, or of its own last one (FedGroup's code)",
    ] = "cold-start"
    continue_pretraining: Annotated[
        bool,
        "a client that pre-trains when it is selected goes on from there for the rest of its epochs, instead of "
        "training its group's model, and its whole update from w₀ is added to that",
    ] = False
    auxiliary: Annotated[bool, "measure the server's auxiliary model, the mean of all groups', under G"] = False
    eta_g: Annotated[float, Ge(0), "learning rate between groups"] = 0.0
    normalise: Annotated[
        bool, "between groups take means (FedGroup's code), not the paper's sums, which grow without bound"
    ] = True

    grouping: Grouping | None = saved(default=None)
    """From the group cold start, then with those that joined, in the order of `member`."""
    directions: list[Array] = saved(default_factory=list)
    """Δ^(g) of each group, (parameters,)."""
    cold: set[ClientId] = saved(default_factory=set)
    """Who could train, but is in no group yet."""
    _pretrained: dict[ClientId, Params] = field(init=False, default_factory=dict, repr=False)
    """What clients pre-trained in this round, where they go on from there."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """Who goes on after pre-training has fewer epochs, or the steps that are left of them by its samples."""
        if not self.continue_pretraining:
            return ()
        return ("steps",) if self.pretrain_epochs is None else ("epochs",)

    def error_in_server_step(self) -> str | None:
        """What η_g adds is a step of its own, behind which no moments would be those of the model."""
        if self.eta_g and not self.server_step.takes_means:
            return "eta_g is a server's step of its own: leave it out, or the server's optimiser"
        return super().error_in_server_step()

    @property
    def weighing(self) -> Weighing | None:
        """In groups clients count by their samples, unless single ones go on from what they pre-trained."""
        return None if self.continue_pretraining else "samples"

    def begin(self, fed: Federation) -> None:
        """Cold start of the groups; that of other clients waits until they are selected, unless it is eager."""
        self.start = fed.initial()
        self.place(fed, fed.trainable if self.eager else [])

    def pretrain(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, Params]:
        """w_i ← a short LocalSGD from w₀."""
        epochs, steps = self.pretrain_epochs, self.pretrain_steps
        plan = replace(fed.plan, steps=steps) if epochs is None else replace(fed.plan, steps=None, epochs=epochs)
        verb = Train(plan, start=("initial",), keep=False, purpose="pre-train")
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="pre-train")))
        answers = {client: reply.answer(TrainReply) for client, reply in replies.items()}
        tamed = fed.aggregator.tamed(answers, self.start, kind="pre-train")
        return {client: answer.params for client, answer in tamed.items()}

    def group_cold_start(self, fed: Federation) -> list[ClientId]:
        """Form m groups of the first updates Δ_i of α_pre·m clients (Alg. 3); return the clients asked for one.

        w^(g) ← the plain mean of its clients' models, and Δ^(g) ← w^(g) − w₀. A client that did not move is in group 0.
        """
        m, eligible = default_group_count(fed), fed.trainable
        size = m if self.centres == "random" else self.alpha_pre * m
        asked = sorted(eligible[i] for i in stream(fed.seed, "cold start", fed.round).permutation(len(eligible))[:size])
        models = self.pretrain(fed, asked)
        if models:
            moved = [client for client, model in models.items() if update(model, self.start).any()] or [*models]
            self.grouping = self.group(fed, m, np.stack([update(models[client], self.start) for client in moved]))
            self.member = dict(zip(moved, self.grouping.labels.tolist(), strict=True))
            self.member.update({client: 0 for client in models if client not in self.member})
            founding: dict[int, list[Contribution]] = {group: [] for group in range(self.grouping.n_groups)}
            for client, model in models.items():
                founding[self.member[client]].append(Contribution(client, model, self.start, 1.0))
            self.models = [*fed.aggregator.averages(founding, kind="pre-train").values()]
            self.directions = [update(model, self.start) for model in self.models]
        return asked

    def group(self, fed: Federation, m: int, deltas: Array) -> Grouping:
        """Divide the Δ_i, (clients, parameters), into m groups: by EDC (Eq. 8), by MADC (Eq. 7), or one each."""
        n, features = len(deltas), cosine_features(deltas, m).round(DECIMALS)
        k = max(1, min(m, n - 1, len(np.unique(features, axis=0))))
        if self.centres == "random":
            grouping, how = _without_tree(np.arange(n)), ", each of a client drawn at random"
        elif self.measure == "edc":
            rng = stream(fed.seed, "k-means", fed.round)
            labels = k_means(features[:, :k], k, rng, iterations=20).labels
            grouping, how = _without_tree(labels), " by EDC and k-means"
        else:
            grouping, how = Count("complete", "MADC", groups=k).group(madc(deltas)), " by MADC and complete linkage"
        groups = grouping.n_groups
        reason = f"{groups} group{'s' * (groups > 1)} of {n} first update{'s' * (n > 1)}{how}"
        few = f"; {m} would take more updates that differ" if groups < m else ""
        return replace(grouping, reason=f"{reason}{few}.")

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Client cold start; before it that of the groups, until somebody answers."""
        asked = self.group_cold_start(fed) if self.grouping is None else []
        new = [client for client in clients if client not in self.member and client not in asked]
        if self.grouping is not None:
            self.member.update(self.nearest(fed, new) if self.assignment == "nearest" else self.drawn(fed, new))
            labels, founding = np.array([*self.member.values()]), self.grouping.weights
            weights = np.pad(founding, (0, len(labels) - len(founding)))
            self.grouping = replace(self.grouping, labels=labels, weights=weights)
        self.cold = {*fed.trainable, *clients} - self.member.keys()

    def nearest(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, int]:
        """g* ← argmin_g (1 − cos(Δ^(g), Δ_pre)) / 2 (Eq. 9); a group whose Δ^(g) is 0 is never chosen."""
        models = self.pretrain(fed, clients) if clients else {}
        self._pretrained = models if self.continue_pretraining else {}
        deltas = {client: update(model, self.start) for client, model in models.items()}
        if not deltas:
            return {}
        apart = (1 - update_cosines([*deltas.values()], self.directions)) / 2
        apart[:, [not direction.any() for direction in self.directions]] = np.inf
        return dict(zip(deltas, apart.argmin(axis=1).tolist(), strict=True))

    def drawn(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, int]:
        """g* ← any group."""
        when = (fed.round,) if self.assignment == "random-each" else ()
        streams = {client: stream(fed.seed, "random group", client, *when) for client in clients}
        return {client: int(rng.integers(len(self.models))) for client, rng in streams.items()}

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """One round of Alg. 2; where groups are drawn at every selection, all but the founders leave theirs before."""
        if self.assignment == "random-each" and self.grouping is not None:
            founders = {client for client, weight in zip(self.member, self.grouping.weights, strict=True) if weight}
            self.member = {c: group for c, group in self.member.items() if c in founders or c not in cohort}
        self._pretrained = {}
        super().round(fed, cohort)

    def train(self, fed: Federation, cohort: Sequence[ClientId]) -> Answers:
        """Let clients train their groups' models; those that have just pre-trained may go on from there instead.

        Of the latter w_i, E epochs from w₀, the group gets the update: w^(g) + w_i − w₀ takes the place of w_i.
        """
        new = {client: model for client, model in self._pretrained.items() if client in cohort}
        others = super().train(fed, [client for client in cohort if client not in new])
        if not new:
            return others
        trained = dict(others.items())
        requests = {
            client: fed.request(Train(self.rest_of_plan(fed, client)), model=model) for client, model in new.items()
        }
        for client, reply in fed.ask(requests).items():
            answer, group = reply.answer(TrainReply), self.models[self.member[client]]
            trained[client] = replace(answer, params=_moved(group, answer.params, self.start))
        return dict(sorted(trained.items()))

    def rest_of_plan(self, fed: Federation, client: ClientId) -> Plan:
        """Return what is left of a client's local training after pre-training: E − 1 epochs, if that was one."""
        plan = self.plan(fed)
        if self.pretrain_epochs is not None:
            return replace(plan, epochs=max(0, plan.epochs - self.pretrain_epochs))
        return replace(plan, steps=max(0, total_steps(fed.samples[client], plan) - self.pretrain_steps))

    def average(
        self,
        fed: Federation,
        trained: Answers,
        equal: bool = False,
        start: Callable[[ClientId], Params] | None = None,
    ) -> None:
        """Aggregate inside groups, then between them (Alg. 2, lines 7 and 10)."""
        before = [*self.models]
        super().average(fed, trained, equal, start)
        if self.direction == "latest":
            changes = zip(self.directions, before, self.models, strict=True)
            self.directions = [delta if new is old else update(new, old) for delta, old, new in changes]
        if self.eta_g:
            self.aggregate_groups(frozen_part(fed.spec, fed.seed))

    def aggregate_groups(self, stays: Collection[str]) -> None:
        """w_j ← w̃_j + η_g Σ_{l ≠ j} w̃_l / ‖w̃_l‖ (Alg. 2, line 18), over the sum of these weights if normalised.

        What the network freezes `stays` as it is.
        """
        lengths = [distance(model, dict.fromkeys(model, np.zeros(()))) for model in self.models]
        shares = [self.eta_g / length if length else 0.0 for length in lengths]
        weights = [[*shares[:j], 1.0, *shares[j + 1 :]] for j in range(len(shares))]
        means = [weighted_mean(self.models, row) for row in weights]
        self.models = [
            m if self.normalise else _scaled(m, sum(row), stays) for m, row in zip(means, weights, strict=True)
        ]

    def global_model(self) -> Params | None:
        """Return the auxiliary model, the plain mean of all groups' (text below Alg. 2), if it is to be measured."""
        return weighted_mean(self.models, [1] * len(self.models)) if self.auxiliary and self.models else None

    def model_for(self, client: ClientId) -> ServedModel | None:
        """Return the model of a client's group; none as long as it is in none, unless it can't train."""
        return None if self.models and client in self.cold else super().model_for(client)


@algorithm("fedgrouprox")
@dataclass(kw_only=True)
class FedGrouProx(FedGroup):
    """FedGroup whose clients are held near the model that they received."""

    mu: Annotated[float, Ge(0), "strength of the proximal term μ/2·‖w − w^(g)‖²"] = 1.0

    def plan(self, fed: Federation) -> Plan:
        """Add μ(w − w^(g)) to the gradient; pre-training is without."""
        return replace(fed.plan, anchors=(Anchor("model", self.mu),))


def _without_tree(labels: npt.NDArray[np.int64]) -> Grouping:
    """Describe groups that no tree of merges led to."""
    weights = 1 / np.bincount(labels)[labels]
    return Grouping(labels, np.zeros((0, 4)), 0.0, "EDC", "count", "k-means", "", weights)


def _moved(model: Params, end: Params, start: Params) -> Params:
    """Return a model moved by the way from a start to an end; what is counted, not learnt, is that of the end."""
    counted = {name for name, value in end.items() if value.dtype.kind != "f" or name.endswith(STATISTICS)}
    return frozen({n: v.copy() if n in counted else np.asarray(model[n] + (v - start[n])) for n, v in end.items()})


def _scaled(model: Params, by: float, stays: Collection[str]) -> Params:
    """Return a model times a number, but for its integers, and for what stays as it is."""
    times = {name for name, value in model.items() if value.dtype.kind == "f" and name not in stays}
    return frozen({name: np.asarray(v * by, v.dtype) if name in times else v for name, v in model.items()})

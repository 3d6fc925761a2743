"""Kindred: one method for every federation (Coterie's own; docs/no-settings.md).

Which labels a client has is no reason to part clients: it goes into the softmax as an offset (`labels`). That the same
label looks different is one: such clients get models of their own, before training begins.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.algorithms import algorithm
from coterie.algorithms.one_shot import Floats, OneShotClustering
from coterie.clustering import Grouping, Rule, RuleSupport
from coterie.errors import counted
from coterie.federation import CandidateModels, Contribution, Federation, Trained, saved
from coterie.federation.algorithm import LabelUse
from coterie.messages import (
    Array,
    ClassCounts,
    ClassCountsReply,
    ClientId,
    Moments,
    MomentsReply,
    Params,
    Reply,
    Request,
    Train,
    TrainReply,
    Verb,
)
from coterie.similarity import ClassMoments, class_distances
from coterie.similarity.moments import VARIANCES

CHANGED = 2.0
"""Times chance by which labels of a client look different than they did, squared: as much as groups differ by."""
WITHHELD = "withheld"
LEAST_OWN = 0.1
"""Share of a client's own model below which it is left out: chance alone makes labels differ a little."""


@algorithm("kindred")
@dataclass(kw_only=True)
class Kindred(OneShotClustering[MomentsReply]):
    """One model per group to which labels look alike; label frequencies are offsets, not a reason to part."""

    not_private = "its clients tell means of labels, which have no private form"
    traits = replace(
        OneShotClustering.traits, rules=RuleSupport(("chance",), VARIANCES, refuses=("count",)), of_labels=True
    )

    labels: LabelUse = "both"
    rows: Annotated[
        Literal["labels", "samples"],
        "in means, rows of the last layer count by samples of their label, or by all samples as the rest does",
    ] = "labels"

    mixes_own: Annotated[
        bool, "clients use a mean of their group's model and their own, by how far their labels are from the group's"
    ] = True

    counts: dict[ClientId, Array] = saved(default_factory=dict)
    """Samples of each label that clients told of, n_iy."""
    mute: set[ClientId] = saved(default_factory=set)
    """Clients that can't be compared: none of their labels has enough samples, or they hold that back."""
    reticent: set[ClientId] = saved(default_factory=set)
    """Clients that held back how their labels look when they were last asked: they are not asked again."""
    by_loss: dict[ClientId, int] = saved(default_factory=dict)
    """The groups of these."""
    head: tuple[str, ...] = saved(default=())
    """The tensors of the last layer, which have a row for each label."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How many models a client compares that can't be compared itself: one of each group."""
        return ("models",)

    def seldom_asked(self, fed: Federation) -> Sequence[Request]:
        """Return what clients are asked that can't be compared."""
        return [self.which_model(fed, CandidateModels((self.start, self.start)))]

    def error_in_privacy(self) -> str | None:
        """Moments of labels are told as they are."""
        return "it compares means of labels, which have no private form here: use pacfl"

    def begin(self, fed: Federation) -> None:
        """Group by how labels look; θ_g ← θ⁰ for all groups."""
        self.head = last_layer(fed.initial(), fed.spec.classes) if self.rows == "labels" else ()
        super().begin(fed)

    @property
    def description(self) -> tuple[Verb, ...]:
        """What clients tell of themselves: how each label looks and, for rows by label, how many samples it has."""
        return (Moments(), ClassCounts()) if self.rows == "labels" else (Moments(),)

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, MomentsReply]:
        """Ask clients how their labels look; those without a label that can be compared are left out."""
        request = fed.request(*self.description, kind="describe")
        replies = {reply.client: reply for reply in self.describing(fed, dict.fromkeys(clients, request), clients)}
        self.note_counts(replies)
        told = {client: reply.answer(MomentsReply) for client, reply in replies.items()}
        described = {client: moments for client, moments in told.items() if moments.counts.any()}
        self.mute |= {c for c in clients if c not in described and (c in told or c in self.reticent)}
        return described

    def describing(
        self, fed: Federation, requests: Mapping[ClientId, Request], describing: Sequence[ClientId]
    ) -> Iterator[Reply]:
        """Ask clients, some of whom are to describe themselves; note in the end which of these hold that back.

        Who was to train as well, and answered nothing, may have held back the training: it is asked for its description
        alone.
        """
        before, replied = {client: fed.events.times(client, WITHHELD) for client in describing}, set()
        for reply in fed.replies(requests):
            replied.add(reply.client)
            yield reply
        held = {client for client, times in before.items() if fed.events.times(client, WITHHELD) > times}
        held -= replied  # who replies may have left out a few labels
        trained = sorted(client for client in held if len(requests[client].verbs) > len(self.description))
        self.reticent |= held.difference(trained)
        if trained:
            alone = fed.request(*self.description, kind="describe")
            again = self.describing(fed, dict.fromkeys(trained, alone), trained)
            self.note_counts({reply.client: reply for reply in again})

    def note_counts(self, replies: Mapping[ClientId, Reply]) -> None:
        """Note n_iy of clients that told it."""
        if self.rows == "labels":
            self.counts |= {client: reply.answer(ClassCountsReply).counts for client, reply in replies.items()}

    def distances(self, a: Sequence[MomentsReply], b: Sequence[MomentsReply] | None = None) -> npt.NDArray[Any]:
        """Σ_y w_y (d² − chance) / Σ_y w_y s_y² over the labels that two clients share, and d² / chance."""
        return class_distances([*map(_moments, a)], None if b is None else [*map(_moments, b)])

    def rule(self, fed: Federation) -> Rule:
        """Part what differs by over twice what chance explains, and clearly."""
        return fed.settings.grouping.make("concepts", unit=VARIANCES)

    def form(self, fed: Federation, proximity: npt.NDArray[Any]) -> Grouping:
        """Group by pairs of clients, then by what groups tell of labels together."""
        return self.pooled(self.rule(fed), super().form(fed, proximity), proximity)

    def form_anew(self, rule: Rule, old: Grouping, proximity: npt.NDArray[Any]) -> Grouping:
        """The same for clients and newcomers."""
        return self.pooled(rule, super().form_anew(rule, old, proximity), proximity)

    def pooled(self, rule: Rule, grouping: Grouping, proximity: npt.NDArray[Any]) -> Grouping:
        """Let the rule look again at the groups of all clients described."""
        return rule.pool(grouping, proximity, [*map(_moments, self.described.values())])

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Place clients by how their labels look; who can't be compared takes the model that fits its samples best.

        As long as all groups have the same model, that is the largest group. Who does not answer stays in none.
        """
        super().place(fed, clients)
        if not self.models:
            self.models = [self.start]
        lost = [client for client in clients if client in self.mute]
        if lost:
            self.by_loss |= self.best_models(fed, lost, least=2)  # never a group of one
        self.member.update(self.by_loss)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """FedAvg inside groups; clients whose labels look different than before are placed anew.

        What these have trained, from a model that may no longer be theirs, counts nowhere.
        """
        self.place(fed, [client for client in cohort if client not in self.member])
        changed: dict[ClientId, MomentsReply] = {}

        def stayed() -> Iterator[Reply]:
            for reply in self.train_described(fed, [client for client in cohort if client in self.member]):
                told = self.changed({reply.client: reply})
                changed.update(told)
                if not told:
                    yield reply

        self.average(fed, Trained(stayed()))
        if changed:
            self.follow(fed, changed, f"labels of {counted(len(changed), 'client')} had changed their looks")

    def train_described(self, fed: Federation, clients: Sequence[ClientId]) -> Iterator[Reply]:
        """Let clients train their groups' models, and describe themselves again in the same reply."""
        train = Train(self.plan(fed))
        kinds = {client: (self.member[client], client not in self.reticent) for client in clients}
        requests = {
            (group, told): fed.request(train, *(self.description if told else ()), model=self.models[group])
            for group, told in sorted({*kinds.values()})
        }
        asked = {client: requests[kind] for client, kind in kinds.items()}
        return self.describing(fed, asked, [client for client, (_, told) in kinds.items() if told])

    def weighed(self, member: Contribution, answer: TrainReply) -> Contribution:
        """Rows of the last layer count by the samples of their label."""
        if not self.head:
            return member
        share = member.weight / max(answer.samples, 1)  # less than 1 where weights are limited
        labels = len(self.start[self.head[0]])
        rows = share * self.samples_by_label(member.client, answer.samples, labels)
        return member._replace(tensor_weights=dict.fromkeys(self.head, rows))

    def own_shares(self, clients: Sequence[ClientId]) -> dict[ClientId, float]:
        """a_i by the labels of a client and of its group, of which others may have more; nothing where it is silent."""
        if not self.mixes_own or self.rows != "labels":
            return {}
        of_groups: dict[int, Array] = {}
        for client, group in self.member.items():
            if client in self.counts:
                of_groups[group] = of_groups.get(group, np.int64(0)) + self.counts[client]
        told = self.counts.keys() & self.member.keys()
        return {
            client: own_share(self.counts[client], of_groups[self.member[client]]) if client in told else 0.0
            for client in clients
        }

    def samples_by_label(self, client: ClientId, samples: int, classes: int) -> npt.NDArray[np.float64]:
        """Return n_iy; what a client does not tell is spread evenly over the labels that it tells nothing of."""
        counts = np.asarray(self.counts.get(client, np.zeros(classes)), np.float64)
        silent = counts == 0
        untold = max(samples - counts.sum(), 0.0)
        return np.where(silent, untold / max(int(silent.sum()), 1), counts)

    def changed(self, replies: Mapping[ClientId, Reply]) -> dict[ClientId, MomentsReply]:
        """Return the descriptions of clients to whom labels look different than when they were placed.

        A few more samples are no change: by what chance explains, and by what was told then, however slowly it comes.
        """
        telling = {client: reply for client, reply in replies.items() if client not in self.reticent}
        self.note_counts(telling)
        told = {client: reply.answer(MomentsReply) for client, reply in telling.items()}
        return {c: now for c, now in told.items() if now.counts.any() and self.differs(now, self.described.get(c))}

    def differs(self, now: MomentsReply, before: MomentsReply | None) -> bool:
        """Whether labels look different than before, or can be compared with nothing of it."""
        pair = None if before is None else self.distances([now], [before])[0, 0]
        return pair is None or pair["shared"] == 0 or bool(pair["excess"] > CHANGED)

    def follow(self, fed: Federation, changed: Mapping[ClientId, MomentsReply], why: str) -> list[int]:
        """Group all clients anew; those that can't be compared stay with the model that they had."""
        parents = super().follow(fed, changed, why)
        self.mute -= {*changed}
        self.by_loss = {client: group for client, group in self.by_loss.items() if client in self.mute}
        self.renumber(parents)
        self.member.update(self.by_loss)
        return parents

    def regroup(self, rule: Rule, old: Grouping, cross: Floats, among: Floats) -> list[int | None]:
        """Those that can't be compared stay with the model that they had."""
        parents = super().regroup(rule, old, cross, among)
        self.renumber(parents)
        return parents

    def renumber(self, parents: Sequence[int | None]) -> None:
        """Let who can't be compared go on in the first group that has its old one's model."""
        heirs = {parent: group for group, parent in reversed([*enumerate(parents)])}
        self.by_loss = {client: heirs.get(group, 0) for client, group in self.by_loss.items()}

    def form_again(self, fed: Federation, old: Grouping | None, proximity: npt.NDArray[Any]) -> Grouping:
        """By what chance explains now, not by an earlier cut."""
        return self.form(fed, proximity)

    @property
    def reason(self) -> str | None:
        """Why there is one group, where no rule could say it."""
        return None if self.grouping else "No client has enough samples of a label to be compared: there is one group."


def own_share(counts: Array, of_group: Array) -> float:
    """a_i = TV(labels of i, labels of its group) / 2, to the hundredth; less than a tenth is taken for chance.

    >>> own_share(np.array([5, 5, 0, 0]), np.array([20, 20, 20, 20])), own_share(np.array([6, 5]), np.array([50, 50]))
    (0.25, 0.0)
    """
    if not (counts.sum() and of_group.sum()):
        return 0.0
    share = round(float(np.abs(counts / counts.sum() - of_group / of_group.sum()).sum()) / 4, 2)
    return share if share >= LEAST_OWN else 0.0


def last_layer(model: Params, labels: int) -> tuple[str, ...]:
    """Return the tensors of the last layer, if these have a row per label; else none.

    >>> last_layer({"fc.weight": np.zeros((5, 8)), "head.weight": np.zeros((3, 5)), "head.bias": np.zeros(3)}, 3)
    ('head.weight', 'head.bias')
    """
    layer = next(reversed([*model])).rpartition(".")[0]
    tensors = tuple(name for name in model if name.rpartition(".")[0] == layer)
    return tensors if all(model[name].shape[:1] == (labels,) for name in tensors) else ()


def _moments(reply: MomentsReply) -> ClassMoments:
    return ClassMoments(reply.means, reply.variances, reply.counts)

"""What to run, and why: the four corners of docs/no-settings.md, decided from what clients may send.

                      the same label looks the same     the same label looks different
    labels are alike  one model                         a model per group
    labels differ     one model, with label offsets     a model per group, with label offsets

Whether the same label looks different, and in which groups, is decided as the method `kindred` decides it. Labels
differ where the mixtures of clients of one group do, by more than chance. Beside the corners: where labels look
different to each client, so much that they are not found again at others, nobody has mates, and clients train alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from coterie.clustering import Concepts, Grouping
from coterie.inspect.labels import Counts, Floats, apart, beyond_chance, recognised
from coterie.messages import Guarantee
from coterie.similarity import ClassMoments, class_distances
from coterie.similarity.moments import FEWEST

SLIGHT = 0.1
"""Mixtures of labels that differ by less, beyond chance, do not count as different."""
STRANGE = 1 / 3
"""Labels mean different things that are found again at others less than this times as well as by a perfect reader."""

Choice = Literal["one model", "cluster", "alone"]


@dataclass(frozen=True)
class Advice:
    """What to do, and why."""

    choice: Choice
    groups: int
    """How many models that makes."""
    offsets: bool
    """Whether clients' labels differ, so that label offsets help."""
    command: str
    """That does it."""
    sentence: str
    evidence: dict[str, float | int | None]


@dataclass(frozen=True)
class Evidence:
    """What the advice rests on; None where nothing can be compared."""

    clients: int
    compared: int
    """Clients with enough samples of a label to be compared."""
    groups: int
    """Of clients to whom labels look alike."""
    parts: int
    """That no chain of shared labels connects."""
    excess: float | None
    """How many times as far apart as chance explains groups are, squared; of one group, its most different halves."""
    silhouette: float | None
    """How clear groups are; of one group, the clearest that chance does not explain, if any are near clear."""
    labels_apart: float | None
    """How far mixtures of labels are apart beyond chance, mean over pairs of one group."""
    labels_recognised: float | None
    """How well labels of one client are found again at another by their means, mean over pairs; None also where means
    do not tell labels of one client apart."""

    @property
    def skewed(self) -> bool:
        """Whether clients of a group have different labels."""
        return self.labels_apart is not None and self.labels_apart >= SLIGHT


def advise(counts: Counts, moments: Sequence[ClassMoments], flags: str = "") -> Advice:
    """Say what to do with clients that have so many samples per class, (clients, classes), and whose labels look so.

    `flags` say to ``coterie run`` which data these are.
    """
    usable = [client for client, told in enumerate(moments) if told.counts.any()]
    if len(usable) < 2:
        few = f"fewer than two clients have {FEWEST} samples of a label, too few to tell whether labels look alike"
        return _corner(Evidence(len(moments), len(usable), 1, 1, None, None, _labels_apart([counts]), None), few, flags)
    rule, compared = Concepts(), [moments[client] for client in usable]
    pairs = class_distances(compared)
    seen = rule.structure(pairs)
    pooled = rule.pooled(pairs, seen.parts, compared)
    grouping = rule.by_pools(rule.by_pairs(pairs, seen), pairs, pooled)
    own = _mean(np.array([apart(client) for client in compared]))
    within = [counts[usable][grouping.members(group)] for group in range(grouping.n_groups)]
    evidence = Evidence(
        clients=len(moments),
        compared=len(usable),
        groups=grouping.n_groups,
        parts=int(seen.parts.max()) + 1,
        excess=seen.highest if pooled is None else pooled.excess,
        silhouette=seen.silhouette if pooled is None else pooled.silhouette,
        labels_apart=_labels_apart(within if len(within) > 1 else [counts]),
        labels_recognised=_mean(recognised(compared)) if (own or 0) > rule.chance else None,
    )
    reason = f"{grouping.reason[:1].lower()}{grouping.reason[1:]}".rstrip(".")
    found, unclear = evidence.labels_recognised, seen.made is None and seen.beyond(rule.chance)
    if unclear and grouping.n_groups == 1 and found is not None and found < STRANGE:
        share = _percent(max(found, 0))
        again = f"only {share} of the labels of one client are found again at another, beyond guessing"
        return _advice("alone", evidence, "solo", flags, f"Let clients train alone: {reason}; {again}.")
    return _corner(evidence, reason, flags)


def advise_privately(grouping: Grouping, private: Guarantee, flags: str = "") -> Advice:
    """Say what to do by the groups alone that were found from private signatures; labels are not compared."""
    groups, clients = grouping.n_groups, len(grouping.labels)
    evidence = Evidence(clients, 0, groups, 1, None, None, None, None)
    reason = f"{grouping.reason[:1].lower()}{grouping.reason[1:]}".rstrip(".")
    told = "whether labels look alike is not compared: means of labels have no private form"
    if groups == 1:
        return _advice("one model", evidence, "fedavg", flags, f"Train one model: {reason}; {told}.")
    flags = f"--dp-signature epsilon={private.epsilon:g},delta={private.delta:g} {flags}"
    return _advice("cluster", evidence, "pacfl", flags, f"Train a model for each of {groups} groups: {reason}; {told}.")


def _corner(evidence: Evidence, reason: str, flags: str) -> Advice:
    """Say which of the four corners the evidence is in."""
    differ, groups = evidence.labels_apart, evidence.groups
    models = f"Train a model for each of {groups} groups" if groups > 1 else "Train one model"
    proportions = "within groups, label proportions" if groups > 1 else "label proportions"
    if differ is None:
        told = "label proportions can't be compared"
    elif evidence.skewed:
        models += ", with each client's label frequencies as offsets in its softmax"
        told = f"{proportions} differ by {_percent(differ)} beyond chance, which is no reason to split clients"
    else:
        told = f"{proportions} differ no more than by chance ({_percent(max(differ, 0))} beyond it)"
    choice: Choice = "cluster" if groups > 1 else "one model"
    method = "kindred" if evidence.skewed or groups > 1 else "fedavg"
    return _advice(choice, evidence, method, flags, f"{models}: {reason}; {told}.")


def _advice(choice: Choice, evidence: Evidence, method: str, flags: str, sentence: str) -> Advice:
    groups = evidence.clients if choice == "alone" else evidence.groups
    command = f"coterie run --algorithm {method} {flags}".rstrip()
    return Advice(choice, groups, method == "kindred" and evidence.skewed, command, sentence, asdict(evidence))


def _labels_apart(groups: Sequence[Counts]) -> float | None:
    """Return how far mixtures of labels are apart beyond chance, mean over pairs of clients of one group."""
    pairs = [beyond_chance(counts)[np.triu_indices(len(counts), 1)] for counts in groups if len(counts) > 1]
    return _mean(np.concatenate(pairs)) if pairs else None


def _mean(values: Floats) -> float | None:
    """Return the mean of finite values; None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

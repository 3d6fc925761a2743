"""One model for all, groups, or everyone alone? A rule, from what clients may send, checked against training.

What decides (docs/heterogeneity.md has the numbers behind the three limits):

1. How many groups the grouping rule tells apart. One: train one model.
2. Whether the same labels look alike to clients of different groups. If they do not, a shared model has to learn
   several concepts at once: cluster.
3. If they do, groups differ by their mixtures of labels. While mixtures overlap, one model serves all; where clients of
   different groups have little in common, cluster.
4. To cluster, clients need mates: where most are alone in their groups, let them train alone.

Where all are in one group but the same labels look different, labels mean different things, if clients can tell labels
apart at all: groups by what labels look like are counted instead. Where samples are too few to compare mixtures of
labels, or labels cannot be told apart, the advice says so: train one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from coterie.clustering import Grouping, Silhouette
from coterie.inspect.labels import Counts, Floats, Vectors, beyond_chance, recognisable, recognised, samples_per_label

APART = 0.7
"""Groups have little in common whose clients would have to change so much of their labels, beyond chance, to agree."""
HALF = 0.5
"""Concepts differ where labels are found again between groups less than this times as well as within them."""
STRANGE = 1 / 3
"""Labels mean different things where they are found again less well than this among clients of one group."""
ENOUGH = 5
"""Samples that clients should have of each label that they have, on average, for their mixtures to be compared."""
SLIGHT = 0.1
"""Mixtures of labels that differ by less, beyond chance, do not count as different."""


@dataclass(frozen=True)
class Advice:
    """What to do, and why."""

    choice: Literal["one model", "cluster", "alone"]
    groups: int
    """How many models that makes."""
    sentence: str
    evidence: dict[str, float | int | None]


@dataclass(frozen=True)
class Evidence:
    """What the advice rests on; means over pairs of clients, None where no pair has them."""

    clients: int
    groups: int
    highest_merge: float | None
    cut: float | None
    with_mates: float
    """The share of the clients that are not alone in their group."""
    labels_apart: float | None
    """How far mixtures of labels are apart, beyond chance."""
    labels_apart_between_groups: float | None
    labels_recognised: float | None
    """How well the labels of one client are found again at another."""
    labels_recognised_between_groups: float | None
    labels_recognised_within_groups: float | None

    @classmethod
    def of(cls, grouping: Grouping, apart: Floats, alike: Floats) -> Evidence:
        """Take the means of how far mixtures are apart, and how well labels are found again, (clients, clients)."""
        labels = grouping.labels
        different = labels[:, None] != labels
        pairs = ~np.eye(len(labels), dtype=bool)
        return cls(
            clients=len(labels),
            groups=grouping.n_groups,
            highest_merge=float(grouping.heights[-1]) if len(grouping.heights) else None,
            cut=grouping.threshold,
            with_mates=_with_mates(grouping),
            labels_apart=_mean(apart[pairs]),
            labels_apart_between_groups=_mean(apart[different]),
            labels_recognised=_mean(alike[pairs]),
            labels_recognised_between_groups=_mean(alike[different]),
            labels_recognised_within_groups=_mean(alike[~different & pairs]),
        )


def advise(grouping: Grouping, counts: Counts, vectors: Sequence[Vectors]) -> Advice:
    """Say what to do with clients that are grouped so, have so many samples per class, and describe labels so."""
    alike = recognised(vectors)
    evidence = Evidence.of(grouping, beyond_chance(counts), alike)
    samples = samples_per_label(counts)
    if evidence.groups == 1:  # 1
        everywhere = evidence.labels_recognised
        strange = everywhere is not None and everywhere < STRANGE
        if everywhere is not None and strange and recognisable(vectors):
            return _group_by_labels(alike, everywhere, evidence)
        return _keep_together(grouping, strange, samples, evidence)
    between, within = evidence.labels_recognised_between_groups, evidence.labels_recognised_within_groups
    if concepts_differ(between, within) and not (samples < ENOUGH and within is None):  # 2
        why = f"{_percent(max(between or 0, 0))} are found again at a client of another group"
        why += "" if within is None else f", {_percent(max(within, 0))} in the same"
        why = f"the same labels look different in different groups ({why})"
    elif overlap := _overlap(evidence, samples, int(np.count_nonzero(counts.sum(axis=0)))):  # 3
        tuned = f"Train one model, and let clients fine-tune it: {evidence.groups} groups can be told apart, but"
        return Advice("one model", 1, f"{tuned} {overlap}.", asdict(evidence))
    else:
        differ = _percent(evidence.labels_apart_between_groups or 1)
        why = f"clients of different groups have few labels in common (mixtures differ by {differ})"
    return _group_those_with_mates(why, evidence)  # 4


def _keep_together(grouping: Grouping, strange: bool, samples: float, evidence: Evidence) -> Advice:
    """Train one model for one group; say what else was seen."""
    reason = grouping.reason.split(". ")[0].rstrip(".")  # in the rule's own words
    sentence = f"Train one model: {reason[:1].lower()}{reason[1:]}"
    skewed = evidence.labels_apart or 0.0
    if strange:
        sentence += "; labels cannot be told apart by the directions of their samples"
    if samples < ENOUGH:
        sentence += f"; {_too_few(samples)} whether mixtures of labels differ"
    elif skewed >= SLIGHT:
        sentence += f", though their mixtures of labels differ by {_percent(skewed)} beyond chance"
    return Advice("one model", 1, f"{sentence}.", asdict(evidence))


def _group_by_labels(alike: Floats, everywhere: float, evidence: Evidence) -> Advice:
    """Group clients that have the same kind of samples, but name them differently."""
    unlike = np.clip(1 - np.nan_to_num((alike + alike.T) / 2, nan=0.0), 0.0, None)
    np.fill_diagonal(unlike, 0.0)
    by_labels = Silhouette("average", unit="").group(unlike)
    k = by_labels.n_groups
    seen = asdict(evidence) | {"groups_by_labels": k}
    why = f"samples are alike, but only {_percent(max(everywhere, 0))} of the labels are found again at another client"
    if k == 1 or _with_mates(by_labels) < 0.5:
        return Advice("alone", len(alike), f"Let clients train alone: {why}, so that they name them differently.", seen)
    return Advice(
        "cluster",
        k,
        f"Cluster into {k} groups by what clients learn (`--algorithm flag` or `fedgroup`): {why}, so "
        "that groups name them differently, which angles between whole clients do not see.",
        seen,
    )


def concepts_differ(between: float | None, within: float | None) -> bool:
    """Whether labels are found again much worse between groups than within, or than by a perfect reader.

    >>> concepts_differ(0.2, 0.9), concepts_differ(0.8, 0.9), concepts_differ(0.2, None), concepts_differ(None, 0.9)
    (True, False, True, False)
    """
    return between is not None and max(between, 0.0) < HALF * (1.0 if within is None else max(within, 0.0))


def _overlap(evidence: Evidence, samples: float, classes: int) -> str | None:
    """Say why groups do not differ enough by their labels to be trained apart; None if they do."""
    apart = evidence.labels_apart_between_groups
    if classes < 2:
        return "not by labels: there is one label only"
    if samples < ENOUGH:
        return f"{_too_few(samples)} whether by labels"
    if apart is None or apart >= APART:
        return None
    if apart < SLIGHT:
        return "not by labels: mixtures of labels are the same but for chance"
    differ = f"they differ by {_percent(apart)} beyond chance, below {_percent(APART)}"
    return f"by their mixtures of labels, which overlap ({differ})"


def _group_those_with_mates(why: str, evidence: Evidence) -> Advice:
    mates, seen = evidence.with_mates, asdict(evidence)
    if mates < 0.5:
        lonely = f"{_percent(1 - mates)} of the clients have no other like them"
        return Advice("alone", evidence.clients, f"Let clients train alone: {why}, and {lonely}.", seen)
    k, company = evidence.groups, f"{_percent(mates)} of the clients have mates"
    return Advice("cluster", k, f"Cluster into {k} groups: {why}, and {company}.", seen)


def _with_mates(grouping: Grouping) -> float:
    return float(np.mean(np.bincount(grouping.labels)[grouping.labels] > 1))


def _too_few(samples: float) -> str:
    return f"samples ({samples:.1f} per client and label, below {ENOUGH}) are too few to tell"


def _mean(values: Floats) -> float | None:
    """Return the mean of finite values; None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

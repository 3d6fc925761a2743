"""One model for all, groups, or everyone alone? A rule, from what clients may send, checked against training.

What decides (docs/heterogeneity.md has the numbers behind the three limits):

1. How many groups the grouping rule tells apart. One: train one model.
2. Whether the same labels look alike to clients of different groups. If they do not, a shared model has to learn
   several concepts at once: cluster.
3. If they do, groups differ by their mixtures of labels. While mixtures overlap, one model serves all; where clients of
   different groups have little in common, cluster.
4. To cluster, clients need mates: where most are alone in their groups, let them train alone.

Where all are in one group but the same labels look different, labels mean different things: groups by what labels look
like are counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, Silhouette
from coterie.similarity import label_total_variation

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

APART = 0.7
"""Groups have little in common whose clients would have to change so much of their labels, beyond chance, to agree."""
HALF = 0.5
"""Concepts differ where labels are found again between groups less than this times as well as within them."""
STRANGE = 1 / 3
"""Labels mean different things where they are found again less well than this among clients of one group."""


@dataclass(frozen=True)
class Advice:
    """What to do, and why."""

    choice: Literal["one model", "cluster", "alone"]
    groups: int
    """How many models that makes."""
    sentence: str
    evidence: dict[str, float | int | None]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Vectors:
    """One vector per label that a client has: the main direction of its samples of that label."""

    labels: npt.NDArray[np.int64]
    vectors: Floats
    """(labels, features), of length 1."""


def advise(grouping: Grouping, counts: Counts, vectors: Sequence[Vectors]) -> Advice:
    """Say what to do with clients that are grouped so, have so many samples per class, and describe labels so."""
    labels = grouping.labels
    apart = beyond_chance(counts)
    found = recognised(vectors)
    different = labels[:, None] != labels
    pairs = ~np.eye(len(labels), dtype=bool)
    between, within = _mean(found[different]), _mean(found[~different & pairs])
    mates = float(np.mean(np.bincount(labels)[labels] > 1))
    mixture = _mean(apart[different])
    evidence: dict[str, float | int | None] = {
        "clients": len(labels),
        "groups": grouping.n_groups,
        "highest_merge": float(grouping.heights[-1]) if len(grouping.heights) else None,
        "cut": grouping.threshold,
        "with_mates": mates,
        "labels_apart": _mean(apart[pairs]),
        "labels_apart_between_groups": mixture,
        "labels_recognised": _mean(found[pairs]),
        "labels_recognised_between_groups": between,
        "labels_recognised_within_groups": within,
    }
    if grouping.n_groups == 1:
        everywhere = _mean(found[pairs])
        if everywhere is not None and everywhere < STRANGE:
            return _strange(found, everywhere, evidence)
        skewed = _mean(apart[pairs]) or 0.0
        told = f"Train one model: {_one_group(grouping)}"
        if skewed >= 0.1:
            told += f", though their mixtures of labels differ by {_percent(skewed)} beyond chance"
        return Advice("one model", 1, f"{told}.", evidence)
    k = grouping.n_groups
    if concepts_differ(between, within):
        why = f"the same labels look different in different groups ({_found(between, within)})"
    elif mixture is not None and mixture < APART:
        return Advice(
            "one model",
            1,
            f"Train one model, and let clients fine-tune it: {k} groups can be told apart, but by their mixtures of "
            f"labels, which overlap (they differ by {_percent(mixture)} beyond chance, below {_percent(APART)}).",
            evidence,
        )
    else:
        why = f"clients of different groups have few labels in common (mixtures differ by {_percent(mixture or 1)})"
    if mates < 0.5:
        return Advice(
            "alone",
            len(labels),
            f"Let clients train alone: {why}, and {_percent(1 - mates)} of the clients have no other like them.",
            evidence,
        )
    return Advice(
        "cluster", k, f"Cluster into {k} groups: {why}, and {_percent(mates)} of the clients have mates.", evidence
    )


def concepts_differ(between: float | None, within: float | None) -> bool:
    """Whether labels are found again much worse between groups than within, or than by a perfect reader.

    >>> concepts_differ(0.2, 0.9), concepts_differ(0.8, 0.9), concepts_differ(0.2, None), concepts_differ(None, 0.9)
    (True, False, True, False)
    """
    return between is not None and between < HALF * (1.0 if within is None else max(within, 0.0))


def beyond_chance(counts: Counts) -> Floats:
    """Return how far clients' mixtures of labels are apart beyond what drawing their samples explains, 0 to 1, (n, n).

    (TV − e) / (1 − e), at least 0, with TV the total variation and e what it would be on average if both clients drew
    their samples from the mixture of the two: Σ_c √(2/π · p_c (1 − p_c) (1/n_i + 1/n_j)) / 2, by the normal
    approximation.

    >>> beyond_chance(np.array([[500, 500, 0], [400, 600, 0], [0, 0, 900]])).round(2)
    array([[0.  , 0.08, 1.  ],
           [0.08, 0.  , 1.  ],
           [1.  , 1.  , 0.  ]])
    """
    variation = label_total_variation(counts)
    sizes = np.maximum(counts.sum(axis=1), 1)
    expected = np.empty_like(variation)
    for i, own in enumerate(counts):
        shares = (own + counts) / np.maximum(sizes[i] + sizes, 1)[:, None]
        variance = shares * (1 - shares) * (1 / sizes[i] + 1 / sizes)[:, None]
        expected[i] = np.sqrt(2 / np.pi * variance).sum(axis=1) / 2
    expected = np.minimum(expected, 0.99)
    result = np.clip((variation - expected) / (1 - expected), 0.0, 1.0)
    np.fill_diagonal(result, 0.0)
    return result


def recognised(clients: Sequence[Vectors]) -> Floats:
    """Return how well client j finds the labels of client i again, (n, n): 1 is all, 0 no better than guessing.

    Of the labels that both have, it is the share whose vector at i is nearest to the vector of the same label at j,
    scaled so that choosing any of j's labels gives 0. NaN where they have no label in common, or j has one only.
    """
    n = len(clients)
    result = np.full((n, n), np.nan)
    for j, there in enumerate(clients):
        if len(there.labels) < 2:
            continue
        guess = 1 / len(there.labels)
        for i, here in enumerate(clients):
            shared = np.isin(here.labels, there.labels)
            if i == j or not shared.any():
                continue
            alike = np.abs(here.vectors[shared] @ there.vectors.T)
            right = float(np.mean(there.labels[alike.argmax(axis=1)] == here.labels[shared]))
            result[i, j] = (right - guess) / (1 - guess)
    return result


def _strange(found: Floats, everywhere: float, evidence: dict[str, float | int | None]) -> Advice:
    """All clients have the same kind of samples, but name them differently."""
    alike = np.nan_to_num((found + found.T) / 2, nan=0.0)
    unlike = np.clip(1 - alike, 0.0, None)
    np.fill_diagonal(unlike, 0.0)
    by_labels = Silhouette("average", unit="").group(unlike)
    sizes = np.bincount(by_labels.labels)
    mates = float(np.mean(sizes[by_labels.labels] > 1))
    why = f"samples are alike, but only {_percent(max(everywhere, 0))} of the labels are found again at another client"
    evidence = evidence | {"groups_by_labels": by_labels.n_groups}
    if by_labels.n_groups == 1 or mates < 0.5:
        return Advice(
            "alone", len(found), f"Let clients train alone: {why}, so that they name them differently.", evidence
        )
    return Advice(
        "cluster",
        by_labels.n_groups,
        f"Cluster into {by_labels.n_groups} groups by what clients learn (`--algorithm flag` or `fedgroup`): {why}, so "
        "that groups name them differently, which angles between whole clients do not see.",
        evidence,
    )


def _one_group(grouping: Grouping) -> str:
    """Say why there is one group, in the rule's own words."""
    reason = grouping.reason.split(". ")[0].rstrip(".")
    return reason[:1].lower() + reason[1:]


def _found(between: float | None, within: float | None) -> str:
    text = f"{_percent(max(between or 0, 0))} are found again at a client of another group"
    return text if within is None else f"{text}, {_percent(max(within, 0))} in the same"


def _mean(values: Floats) -> float | None:
    """Return the mean of what is known; None of nothing."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

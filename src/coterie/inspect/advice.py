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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping, Silhouette
from coterie.similarity import label_total_variation
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

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
TIE = 1e-6
"""Cosines so close are equal: vectors come in single precision."""


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
    samples = samples_per_label(counts)
    few = samples < ENOUGH
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
        strange = everywhere is not None and everywhere < STRANGE
        if strange and recognisable(vectors):
            return _strange(found, everywhere or 0.0, evidence)
        skewed = _mean(apart[pairs]) or 0.0
        told = f"Train one model: {_one_group(grouping)}"
        if strange:
            told += "; labels cannot be told apart by the directions of their samples"
        if few:
            told += f"; {_too_few(samples)} whether mixtures of labels differ"
        elif skewed >= SLIGHT:
            told += f", though their mixtures of labels differ by {_percent(skewed)} beyond chance"
        return Advice("one model", 1, f"{told}.", evidence)
    k = grouping.n_groups
    tuned = f"Train one model, and let clients fine-tune it: {k} groups can be told apart, but"
    if concepts_differ(between, within) and not (few and within is None):
        why = f"the same labels look different in different groups ({_found(between, within)})"
    elif np.count_nonzero(counts.sum(axis=0)) < 2:
        return Advice("one model", 1, f"{tuned} not by labels: there is one label only.", evidence)
    elif few:
        return Advice("one model", 1, f"{tuned} {_too_few(samples)} whether by labels.", evidence)
    elif mixture is not None and mixture < SLIGHT:
        same = "mixtures of labels are the same but for chance"
        return Advice("one model", 1, f"{tuned} not by labels: {same}.", evidence)
    elif mixture is not None and mixture < APART:
        return Advice(
            "one model",
            1,
            f"{tuned} by their mixtures of labels, which overlap (they differ by {_percent(mixture)} beyond chance, "
            f"below {_percent(APART)}).",
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
    return between is not None and max(between, 0.0) < HALF * (1.0 if within is None else max(within, 0.0))


def samples_per_label(counts: Counts) -> float:
    """Return how many samples clients have of each label that they have, on average over clients and labels.

    >>> samples_per_label(np.array([[4, 2, 0], [0, 0, 9]]))
    5.0
    """
    return float(counts.sum() / max(np.count_nonzero(counts), 1))


def beyond_chance(counts: Counts, shuffles: int = 20) -> Floats:
    """Return how far clients' mixtures of labels are apart beyond what drawing their samples explains, (n, n).

    (TV − e) / (1 − e), with TV the total variation and e what it is on average if the samples of all clients are dealt
    out again at random, as many to each as it has. 1 is no label in common, 0 chance; single pairs may be closer than
    chance, below 0, so that the mean over pairs of equal clients is 0.

    >>> beyond_chance(np.array([[500, 500, 0], [400, 600, 0], [0, 0, 900]])).round(1)
    array([[0. , 0.1, 1. ],
           [0.1, 0. , 1. ],
           [1. , 1. , 0. ]])
    """
    variation = label_total_variation(counts)
    expected = np.zeros_like(variation)
    for shuffle in range(shuffles):
        expected += label_total_variation(_dealt(counts, stream(0, "advice-shuffle", shuffle)))
    expected = np.minimum(_by_sizes(expected / shuffles, counts.sum(axis=1)), 0.99)
    result = (variation - expected) / (1 - expected)
    np.fill_diagonal(result, 0.0)
    return result


def _by_sizes(values: Floats, sizes: Counts) -> Floats:
    """Return the mean over all pairs of clients that have as many samples as each pair: chance knows sizes only."""
    kinds, kind = np.unique(sizes, return_inverse=True)
    pair = kind[:, None] * len(kinds) + kind
    others = ~np.eye(len(sizes), dtype=bool)
    total = np.bincount(pair[others], values[others], len(kinds) ** 2)
    known = np.bincount(pair[others], minlength=len(kinds) ** 2)
    return np.asarray((total / np.maximum(known, 1))[pair], np.float64)


def _dealt(counts: Counts, rng: np.random.Generator) -> Counts:
    """Deal the samples of all clients out again at random, as many to each as it has."""
    left = counts.sum(axis=0)
    dealt = np.zeros_like(counts)
    for client, size in enumerate(counts.sum(axis=1)):
        dealt[client] = rng.multivariate_hypergeometric(left, int(size), method="marginals")
        left = left - dealt[client]
    return dealt


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
            same = here.labels[:, None] == there.labels
            shared = same.any(axis=1)
            if i == j or not shared.any():
                continue
            right = float((_nearest(here, there) * same).sum() / shared.sum())
            result[i, j] = (right - guess) / (1 - guess)
    return result


def recognisable(clients: Sequence[Vectors], rounds: int = 300) -> bool:
    """Whether labels can be told apart by their vectors, whatever each client calls them.

    A label is looked up at a second client, what is found there at a third, and what is found there at the first: it
    should come back to itself, and does so by chance once in as many times as there are labels. Two clients have only
    the way there and back, which nearest vectors of k and m labels return from in m / (k + m − 1) of the cases. Labels
    are recognisable if they come back at least half as often beyond chance as they could, and more often than by two
    standard deviations of chance.
    """
    known = [client for client in clients if len(client.labels) > 1]
    stops = min(len(known), 3)
    if stops < 2:
        return False
    rng = stream(0, "advice-rounds")
    back, chance = [], []
    for _ in range(rounds):
        way = [known[k] for k in rng.choice(len(known), stops, replace=False)]
        path = np.eye(len(way[0].labels))
        for here, there in zip(way, [*way[1:], way[0]], strict=True):
            path = path @ _nearest(here, there)
        k, m = len(way[0].labels), len(way[1].labels)
        back.append(np.trace(path) / k)
        chance.append(1 / k if stops == 3 else m / (k + m - 1))
    guess = float(np.mean(chance))
    trials = sum(len(client.labels) for client in known) / stops
    beyond = float(np.mean(back)) - guess
    return bool(beyond >= max(HALF * (1 - guess), 2 * np.sqrt(guess * (1 - guess) / trials)))


def _nearest(here: Vectors, there: Vectors) -> Floats:
    """Return which label there is nearest to each label here, as shares of 1: several that tie are guessed among."""
    alike = np.abs(here.vectors @ there.vectors.T)
    best = alike >= alike.max(axis=1, keepdims=True) - TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True), np.float64)


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


def _too_few(samples: float) -> str:
    return f"samples ({samples:.1f} per client and label, below {ENOUGH}) are too few to tell"


def _found(between: float | None, within: float | None) -> str:
    text = f"{_percent(max(between or 0, 0))} are found again at a client of another group"
    return text if within is None else f"{text}, {_percent(max(within, 0))} in the same"


def _mean(values: Floats) -> float | None:
    """Return the mean of what is known; None of nothing."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

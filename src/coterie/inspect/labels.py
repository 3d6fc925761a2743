"""How the labels of two clients compare: by how many samples each has, and by what they look like."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.similarity import label_total_variation
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

HALF = 0.5
"""Labels can be told apart that come back at least this share as often, beyond chance, as they could."""
TIE = 1e-6
"""Cosines so close are equal: vectors come in single precision."""


@dataclass(frozen=True)
class Vectors:
    """One vector per label that a client has: the main direction of its samples of that label."""

    labels: npt.NDArray[np.int64]
    vectors: Floats
    """(labels, features), of length 1."""


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
    pairs = np.bincount(pair[others], minlength=len(kinds) ** 2)
    return np.asarray((total / np.maximum(pairs, 1))[pair], np.float64)


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
    choosers = [client for client in clients if len(client.labels) > 1]
    stops = min(len(choosers), 3)
    if stops < 2:
        return False
    rng = stream(0, "advice-rounds")
    back, chance = [], []
    for _ in range(rounds):
        way = [choosers[k] for k in rng.choice(len(choosers), stops, replace=False)]
        path = np.eye(len(way[0].labels))
        for here, there in zip(way, [*way[1:], way[0]], strict=True):
            path = path @ _nearest(here, there)
        k, m = len(way[0].labels), len(way[1].labels)
        back.append(np.trace(path) / k)
        chance.append(1 / k if stops == 3 else m / (k + m - 1))
    guess = float(np.mean(chance))
    trials = sum(len(client.labels) for client in choosers) / stops
    beyond = float(np.mean(back)) - guess
    return bool(beyond >= max(HALF * (1 - guess), 2 * np.sqrt(guess * (1 - guess) / trials)))


def _nearest(here: Vectors, there: Vectors) -> Floats:
    """Return which label there is nearest to each label here, as shares of 1: several that tie are guessed among."""
    alike = np.abs(here.vectors @ there.vectors.T)
    best = alike >= alike.max(axis=1, keepdims=True) - TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True), np.float64)

"""How the labels of two clients compare: by how many samples each has, and by what they look like."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.similarity import ClassMoments, label_total_variation
from coterie.similarity.moments import TINY
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


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


def recognised(clients: Sequence[ClassMoments]) -> Floats:
    """Return how well client j finds the labels of client i again, (n, n): 1 is all, 0 no better than guessing.

    Of the labels that both have, it is the share whose mean at i is nearest to the mean of the same label at j, scaled
    so that choosing any of j's labels gives 0. NaN where they have no label in common, or j has one only.
    """
    n = len(clients)
    result = np.full((n, n), np.nan)
    labels = [np.flatnonzero(client.counts) for client in clients]
    for j, there in enumerate(labels):
        if len(there) < 2:
            continue
        guess = 1 / len(there)
        for i, here in enumerate(labels):
            same = here[:, None] == there
            shared = same.any(axis=1)
            if i != j and shared.any():
                nearest = _squares(clients[i].means[here], clients[j].means[there]).argmin(axis=1)
                right = float(same[np.arange(len(here)), nearest].sum() / shared.sum())
                result[i, j] = (right - guess) / (1 - guess)
    return result


def apart(client: ClassMoments) -> float:
    """Return how far the labels of a client are from each other, squared, in times chance; NaN if it has one only."""
    has = np.flatnonzero(client.counts)
    pairs = np.triu_indices(len(has), 1)
    spread = np.maximum(client.variances[has], TINY) / client.counts[has]
    squares = _squares(client.means[has], client.means[has])[pairs]
    return float(np.mean(squares / (spread[:, None] + spread)[pairs])) if len(has) > 1 else np.nan


def _squares(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Floats:
    return np.asarray(((a[:, None].astype(np.float64) - b) ** 2).sum(axis=2), np.float64)

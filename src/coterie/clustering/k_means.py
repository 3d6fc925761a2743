"""K-means with k-means++ and re-seeding of empty groups (FedGroup's groups of clients).

Not scikit-learn's: that sums in the order in which threads finish, and warns where points coincide.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import Floats, Ints, canonical


@dataclass(frozen=True)
class KMeans:
    """The groups that k-means finds."""

    labels: Ints
    """Each client's group, numbered by first appearance, (n,)."""
    centres: Floats
    """Mean of each group, (groups, features)."""
    inertia: float
    """Sum of the squared distances of clients from their centres."""


def k_means(
    features: npt.ArrayLike, k: int, rng: np.random.Generator, *, restarts: int = 10, iterations: int = 300
) -> KMeans:
    """Divide clients into `k` groups around their means: the tightest result of several restarts.

    `features` is (n, features). Equal clients fall into one group, so with fewer than `k` distinct ones there are fewer
    groups; no group is empty. The same generator gives the same groups, for any number of threads.

    >>> result = k_means([[0.0], [0.1], [9.0]], k=2, rng=np.random.default_rng(0))
    >>> result.labels, result.centres.ravel()
    (array([0, 0, 1]), array([0.05, 9.  ]))
    """
    x = np.asarray(features, np.float64)
    if x.ndim != 2:
        raise ValueError(f"features are (clients, features), got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"the features of client {np.argwhere(~np.isfinite(x))[0, 0]} are not finite")
    if min(k, restarts, iterations) < 1:
        raise ValueError(f"k, restarts and iterations are at least 1, got {k}, {restarts} and {iterations}")
    k = min(k, len(np.unique(x, axis=0)))
    if k == 0:
        return KMeans(np.zeros(0, np.int64), np.zeros((0, x.shape[1])), 0.0)
    return min((_lloyd(x, _seeds(x, k, rng), iterations) for _ in range(restarts)), key=lambda result: result.inertia)


def _seeds(x: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Draw k of the points, each with probability ∝ its squared distance from those drawn before (k-means++)."""
    chosen = [int(rng.integers(len(x)))]
    while len(chosen) < k:
        nearest = _squared_distances(x, x[chosen]).min(axis=1)
        total = nearest.sum()
        chosen.append(int(rng.choice(len(x), p=nearest / total if total > 0 else None)))
    return x[chosen]


def _lloyd(x: Floats, centres: Floats, iterations: int) -> KMeans:
    """Assign points to the nearest centre and move centres to the mean, until nothing changes."""
    k = len(centres)
    labels = _squared_distances(x, centres).argmin(axis=1)
    for _ in range(iterations):
        for empty in np.setdiff1d(np.arange(k), labels):
            own = _means(x, labels, k)[labels]
            labels[((x - own) ** 2).sum(axis=1).argmax()] = empty  # never the only member of a group
        before, labels = labels, _squared_distances(x, _means(x, labels, k)).argmin(axis=1)
        if np.array_equal(before, labels):
            break
    labels = canonical(labels)
    centres = _means(x, labels, labels.max() + 1)
    return KMeans(labels, centres, float(((x - centres[labels]) ** 2).sum()))


def _squared_distances(x: Floats, centres: Floats) -> Floats:
    """Return (points, centres); without a matrix product, whose rounding would depend on threads."""
    return np.stack([((x - centre) ** 2).sum(axis=1) for centre in centres], axis=1)


def _means(x: Floats, labels: Ints, k: int) -> Floats:
    """Return the mean of each group, (k, features); infinitely far if it is empty."""
    members = [x[labels == group] for group in range(k)]
    return np.stack([m.mean(axis=0) if len(m) else np.full(x.shape[1], np.inf) for m in members])

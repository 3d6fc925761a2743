"""Does the same label look the same to two clients? Moments of each label's samples, and distances between them.

Which labels a client has, and how often, does not enter: only labels that both of two clients have are compared, and
from each squared distance of means is taken what chance alone gives it. So clients of one distribution are at 0 on
average, however many samples they have.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.similarity.outlines import outlines
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.void]

VARIANCES = "of a label's variance"
"""The unit of distances."""
FEWEST = 4
"""Samples of a label that make a mean worth telling."""
DIMENSIONS = 64
"""Numbers that a mean has."""
SEED = 0
"""Of the projection, which is the same in all federations."""
TINY = 1e-12
"""No variance is taken to be smaller: samples may all be equal."""

PAIR = np.dtype([("distance", np.float64), ("weight", np.float64), ("excess", np.float64), ("shared", np.float64)])
"""What is known of two clients.

- ``distance``: how far apart the labels that they share are, Σ w (d² − chance) / Σ w s² over these; NaN without any.
  Its unit is the variance of a label's samples.
- ``weight``: Σ w s², by which a pair counts in means of distances.
- ``excess``: d² / chance, the mean over shared labels; 1 is what one distribution gives.
- ``shared``: how many labels they share.
"""


class ClassMoments(NamedTuple):
    """What a client tells of its labels; one of which it has too few samples counts 0."""

    means: npt.NDArray[np.floating]
    """(classes, dimensions)."""
    variances: npt.NDArray[np.floating]
    """Total variance of a label's samples, over n − 1, (classes,)."""
    counts: npt.NDArray[np.integer]
    """(classes,)."""


def class_moments(
    x: npt.ArrayLike, y: npt.ArrayLike, classes: int, dimensions: int = DIMENSIONS, fewest: int = FEWEST
) -> ClassMoments:
    """Return mean and total variance of each label's samples, as `described` shows them.

    `x` are inputs as networks see them, (n, *shape), `y` their labels. A label with fewer than `fewest` samples is left
    out: mean, variance and count are 0.
    """
    labels = np.asarray(y)
    rows = described(x, dimensions)
    counts = np.bincount(labels, minlength=classes)
    counts = np.where(counts >= max(fewest, 2), counts, 0)
    means, variances = np.zeros((classes, rows.shape[1])), np.zeros(classes)
    for label in np.flatnonzero(counts):
        own = rows[labels == label].astype(np.float64)
        means[label] = own.mean(axis=0)
        variances[label] = ((own - means[label]) ** 2).sum() / (len(own) - 1)
    return ClassMoments(means, variances, counts)


def described(x: npt.ArrayLike, dimensions: int = DIMENSIONS) -> npt.NDArray[np.float32]:
    """Return inputs as vectors, (n, numbers): what is in them, or a common random projection to so many dimensions.

    Images, (n, channels, height, width), are described by their `outlines`; other inputs are taken as they are. Only
    what has more numbers than `dimensions` is projected, which keeps squared distances and variances on average.
    """
    inputs = np.asarray(x, np.float32)
    rows = outlines(inputs) if inputs.ndim == 4 else inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
    if rows.shape[1] > dimensions:
        return np.asarray(rows @ projection(rows.shape[1], dimensions))
    return rows


@lru_cache(4)
def projection(features: int, dimensions: int) -> npt.NDArray[np.float32]:
    """Return the random projection that all clients share, (features, dimensions)."""
    matrix = stream(SEED, "moments", features, dimensions).normal(size=(features, dimensions))
    made: npt.NDArray[np.float32] = (matrix / np.sqrt(dimensions)).astype(np.float32)
    made.flags.writeable = False
    return made


def class_distances(a: Sequence[ClassMoments], b: Sequence[ClassMoments] | None = None) -> Pairs:
    """Compare clients by the labels that they share, (len a, len b), a record of type `PAIR` for each two.

    For a label with n and m samples, means at distance d, and variances s² and t²: chance = s²/n + t²/m, which is what
    d² is on average for one distribution; w = nm/(n + m); and both together have the variance (n s² + m t²)/(n + m). A
    client is at 0 from itself.

    >>> one, other = (ClassMoments(np.array([[mean], [0]]), np.array([2, 0]), np.array([8, 0])) for mean in (0, 3))
    >>> pair = class_distances([one, other])[0, 1]
    >>> round(float(pair["distance"]), 2), float(pair["excess"]), int(pair["shared"])  # (9 - 2/8 - 2/8) / 2
    (4.25, 18.0, 1)
    """
    others = a if b is None else b
    result = np.zeros((len(a), len(others)), PAIR)
    if not result.size:
        return result
    (M, S, N), (Q, T, K) = _stacked(a), _stacked(others)
    if M.shape[1:] != Q.shape[1:]:
        raise ValueError(f"moments of shape {M.shape[1:]} and of {Q.shape[1:]} can't be compared")
    apart = np.zeros(result.shape)
    for label in range(N.shape[1]):
        rows, columns = np.flatnonzero(N[:, label]), np.flatnonzero(K[:, label])
        if len(rows) == 0 or len(columns) == 0:
            continue
        n, m = N[rows, label][:, None], K[columns, label]
        s, t = np.maximum(S[rows, label][:, None], TINY), np.maximum(T[columns, label], TINY)
        squares = _squares(M[rows, label], Q[columns, label])
        chance = s / n + t / m
        w = n * m / (n + m)
        here = np.ix_(rows, columns)
        apart[here] += w * (squares - chance)
        result["weight"][here] += w * (n * s + m * t) / (n + m)
        result["excess"][here] += squares / chance
        result["shared"][here] += 1
    known = result["shared"] > 0
    result["distance"] = np.where(known, apart / np.where(known, result["weight"], 1), np.nan)
    result["excess"][known] /= result["shared"][known]
    if b is None:
        np.fill_diagonal(result["distance"], 0.0)
    return result


def _stacked(clients: Sequence[ClassMoments]) -> tuple[Floats, Floats, Floats]:
    return (
        np.stack([np.asarray(client.means, np.float64) for client in clients]),
        np.stack([np.asarray(client.variances, np.float64) for client in clients]),
        np.stack([np.asarray(client.counts, np.float64) for client in clients]),
    )


def _squares(a: Floats, b: Floats) -> Floats:
    """Return the squared distances of all points of the first to all of the second."""
    centre = (a.mean(axis=0) + b.mean(axis=0)) / 2
    a, b = a - centre, b - centre
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(squares, 0.0))

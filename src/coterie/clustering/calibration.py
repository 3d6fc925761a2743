"""How far apart two clients of the same distribution would be: noise, measured by halves of their own data (ours).

A client cuts its samples at random into two halves, several times, and sends how far apart the halves' signatures
are on average. Both halves come from one distribution, so this is the effect of chance alone. With n samples chance
moves a signature by ν = σ/√n, two independent signatures by √(ν_i² + ν_j²); two halves, of n/2 samples each, are thus
d = 2ν apart, and ν = d/2.

Distances between clients are then expressed in units of their noise: about 1 for clients of one distribution, for any
measure and any number of samples.
"""

import math

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import Floats

AT_ONCE = 256
"""Clients whose neighbours are looked for at a time."""
SMALLEST = 1e-4
"""Degrees; smaller noise is rounding, as smaller angles are 0."""


def noise(halves: npt.ArrayLike, samples: npt.ArrayLike, proximity: npt.ArrayLike | None = None) -> Floats:
    """Return how far chance moves each client's signature, from the distance of its halves and its sample count, (n,).

    A client's own estimate is rough: σ_i = d_i √n_i / 2 is pulled half-way, geometrically, to the median of similar
    clients, its ⌈√n⌉ nearest by `proximity`, or of all without it. NaN in `halves` stands for clients with too few
    samples to be halved; they use that median. With proximities (m, n), the result is for the last m of the n clients.

    >>> noise([2.0, 2.0], [100, 100])
    array([1., 1.])
    >>> noise([2.0, np.nan], [100, 25])
    array([1., 2.])
    """
    root = np.sqrt(np.maximum(np.asarray(samples, np.float64), 1))
    own = np.maximum(np.asarray(halves, np.float64), SMALLEST) / 2 * root
    typical = np.full(len(own), np.nanmedian(own) if np.isfinite(own).any() else SMALLEST)
    wanted = slice(None)
    if proximity is not None:
        rows = np.asarray(proximity, np.float64)
        wanted = slice(len(own) - len(rows), None)
        like = np.where(np.isfinite(own), own, typical)
        near = math.isqrt(max(len(own) - 1, 0)) + 2  # the client itself is among them
        for i in range(0, len(rows), AT_ONCE):
            nearest = np.argsort(rows[i : i + AT_ONCE], axis=1, kind="stable")[:, :near]
            first = len(own) - len(rows) + i
            typical[first : first + len(nearest)] = np.median(like[nearest], axis=1)
    own = np.where(np.isfinite(own), own, typical)
    return np.asarray((np.sqrt(own * typical) / root)[wanted], np.float64)


def wide_halves(halves: npt.ArrayLike) -> Floats:
    """Return angles between halves, in degrees, so that half of one is what chance does also where angles are wide.

    Angles end at 90°: with much noise, halves are as far apart as wholes are, and not √2 times as far. If α is the
    angle by which noise turns a half, halves are apart by cos d = cos²α; a whole, of both, is turned by tan β = tan α /
    √2, and wholes are apart by cos D = cos²β = 2 cos d / (1 + cos d). Half of √2 D is then the noise of each.

    >>> wide_halves([2.0, 60.0, 90.0]).round(1)
    array([  2. ,  68.2, 127.3])
    """
    cosine = np.cos(np.radians(np.clip(halves, 0, 90)))
    return np.asarray(math.sqrt(2) * np.degrees(np.arccos(np.clip(2 * cosine / (1 + cosine), 0, 1))))


def noise_beside(
    halves: npt.ArrayLike, samples: npt.ArrayLike, others: tuple[npt.ArrayLike, npt.ArrayLike], proximity: Floats
) -> Floats:
    """Return the noise of clients by way of others, their halves and samples, to whom distances are given, (a, b).

    As `noise`, but clients that are similar are looked for among the others only.

    >>> noise_beside([2.0, np.nan], [100, 25], ([2.0, 2.0], [100, 100]), np.ones((2, 2)))
    array([1., 2.])
    """
    root = np.sqrt(np.maximum(np.asarray(samples, np.float64), 1))
    own = np.maximum(np.asarray(halves, np.float64), SMALLEST) / 2 * root
    other_root = np.sqrt(np.maximum(np.asarray(others[1], np.float64), 1))
    like = np.maximum(np.asarray(others[0], np.float64), SMALLEST) / 2 * other_root
    like = np.where(np.isfinite(like), like, np.nanmedian(like) if np.isfinite(like).any() else SMALLEST)
    near = min(len(like), math.isqrt(len(like)) + 1)
    nearest = np.argpartition(proximity, near - 1, axis=1)[:, :near]
    typical = np.median(like[nearest], axis=1)
    own = np.where(np.isfinite(own), own, typical)
    return np.asarray(np.sqrt(own * typical) / root, np.float64)


def in_units_of_noise(proximity: npt.ArrayLike, rows: Floats, columns: Floats | None = None) -> Floats:
    """Divide the distance of each pair by its noise √(ν_i² + ν_j²), (rows, columns)."""
    if columns is None:
        return np.asarray(proximity, np.float64) / np.hypot(rows[:, None], rows[None, :])
    units = np.add.outer(np.square(rows), np.square(columns))  # as np.hypot but for the last bit, in a quarter of time
    return np.asarray(np.divide(proximity, np.sqrt(units, out=units), out=units))

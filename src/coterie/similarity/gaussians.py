"""How far apart the Gaussians are that two clients' samples suggest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.similarity.samples import Floats, checked, each_pair

RIDGE = 1e-6
"""Share of its mean variance that is added to each variance of a covariance."""
ROUNDING = 1e-24
"""A variance below this share of the squared mean is the rounding of equal samples."""


def bhattacharyya(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the Bhattacharyya distance between the Gaussians that two samples suggest.

    1/8 Δμᵀ Σ̄⁻¹ Δμ + 1/2 ln(det Σ̄ / √(det Σx det Σy)) with Σ̄ = (Σx + Σy) / 2, covariances as of maximum likelihood.

    To each covariance Σ of F features 1e-6 tr(Σ)/F is added on the diagonal, so that a singular one (fewer samples
    than features, constant features) has an inverse: distances are then large, but finite. A sample without any
    spread (one row, or equal rows) gets this of both samples together; two such samples that are equal are at 0.
    """
    return _bhattacharyya(*map(_moments, checked([x, y])))


def kl_divergence(x: npt.ArrayLike, y: npt.ArrayLike, symmetric: bool = False) -> float:
    """Return the Kullback-Leibler divergence KL(x ‖ y) of the Gaussians that two samples suggest.

    1/2 [tr(Σy⁻¹ Σx) + Δμᵀ Σy⁻¹ Δμ − F + ln(det Σy / det Σx)]; `symmetric`: the mean of KL(x ‖ y) and KL(y ‖ x).
    Covariances are made regular as in `bhattacharyya`.
    """
    a, b = map(_moments, checked([x, y]))
    return (_kl(a, b) + _kl(b, a)) / 2 if symmetric else _kl(a, b)


def bhattacharyya_of_pairs(samples: Sequence[npt.ArrayLike]) -> Floats:
    """Return the Bhattacharyya distance of all pairs of clients, (clients, clients)."""
    return each_pair(_bhattacharyya, [_moments(rows) for rows in checked(samples)])


def kl_of_pairs(samples: Sequence[npt.ArrayLike]) -> Floats:
    """Return KL(i ‖ j) of all pairs of clients, (clients, clients): the divergence is not symmetric."""
    gaussians = [_moments(rows) for rows in checked(samples)]
    return np.array([[0.0 if a is b else _kl(a, b) for b in gaussians] for a in gaussians])


class _Moments(NamedTuple):
    """A Gaussian."""

    mean: Floats
    covariance: Floats
    variance: float
    """The trace of the covariance."""


def _moments(rows: Floats) -> _Moments:
    shifted = rows - rows[0]  # so that equal rows have exactly no spread
    centred = shifted - shifted.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    mean = rows[0] + shifted.mean(axis=0)
    variance = float(np.trace(covariance))
    if variance <= ROUNDING * float(mean @ mean):
        return _Moments(mean, np.zeros_like(covariance), 0.0)
    return _Moments(mean, covariance, variance)


def _regular(a: _Moments, b: _Moments) -> tuple[Floats, Floats] | None:
    """Return both covariances made regular; None if all samples are equal."""
    together = (a.variance + b.variance) / 2 + float(np.sum((a.mean - b.mean) ** 2)) / 4
    if together == 0:
        return None
    ridge = np.eye(len(a.mean)) * (RIDGE / len(a.mean))
    return a.covariance + ridge * (a.variance or together), b.covariance + ridge * (b.variance or together)


def _bhattacharyya(a: _Moments, b: _Moments) -> float:
    regular = _regular(a, b)
    if regular is None:
        return 0.0
    middle = (regular[0] + regular[1]) / 2
    apart = a.mean - b.mean
    x, y, both = (float(np.linalg.slogdet(sigma)[1]) for sigma in (*regular, middle))
    distance = float(apart @ np.linalg.solve(middle, apart)) / 8 + (both - (x + y) / 2) / 2
    return max(distance, 0.0)


def _kl(a: _Moments, b: _Moments) -> float:
    regular = _regular(a, b)
    if regular is None:
        return 0.0
    apart = a.mean - b.mean
    solved = np.linalg.solve(regular[1], np.column_stack([regular[0], apart]))
    x, y = (float(np.linalg.slogdet(sigma)[1]) for sigma in regular)
    divergence = (float(np.trace(solved)) + float(apart @ solved[:, -1]) - len(apart) + y - x) / 2
    return max(divergence, 0.0)

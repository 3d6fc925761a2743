"""Distances between Gaussians in closed form and against integrals."""

import numpy as np
import pytest
from hypothesis import given
from random_samples import sample, sizes
from scipy.stats import multivariate_normal

from coterie.similarity import bhattacharyya, kl_divergence


def exactly(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Points whose mean and covariance are those given, to rounding."""
    f = len(mean)
    corners = np.vstack([np.eye(f), -np.eye(f)]) * f**0.5
    return mean + corners @ np.linalg.cholesky(covariance).T


def test_gaussian_distances_in_closed_form() -> None:
    """One feature, where they can be written down; the ridge of 1e-6 is in the tolerance."""
    m1, v1, m2, v2 = 1.0, 4.0, -2.0, 9.0
    x, y = (exactly(np.array([m]), np.array([[v]])) for m, v in ((m1, v1), (m2, v2)))
    bd = (m1 - m2) ** 2 / (v1 + v2) / 4 + np.log((v1 + v2) / 2 / np.sqrt(v1 * v2)) / 2
    kl = (v1 / v2 + (m1 - m2) ** 2 / v2 - 1 + np.log(v2 / v1)) / 2
    lk = (v2 / v1 + (m1 - m2) ** 2 / v1 - 1 + np.log(v1 / v2)) / 2
    assert bhattacharyya(x, y) == pytest.approx(bd, rel=1e-5)
    assert kl_divergence(x, y) == pytest.approx(kl, rel=1e-5)
    assert kl_divergence(y, x) == pytest.approx(lk, rel=1e-5)
    assert kl_divergence(x, y, symmetric=True) == pytest.approx((kl + lk) / 2, rel=1e-5)


def test_gaussian_distances_against_integrals() -> None:
    """KL is the mean of a log ratio, BD minus the log of the mean of a root of it: 400,000 draws from the first."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3))
    first, second = a @ a.T + np.eye(3), b @ b.T + np.eye(3)
    means = np.array([0.3, -0.2, 0.1]), np.zeros(3)
    x, y = exactly(means[0], first), exactly(means[1], second)
    p, q = multivariate_normal(means[0], first), multivariate_normal(means[1], second)
    drawn = p.rvs(400_000, random_state=rng)
    ratio = p.logpdf(drawn) - q.logpdf(drawn)
    assert kl_divergence(x, y) == pytest.approx(ratio.mean(), rel=0.02)
    assert bhattacharyya(x, y) == pytest.approx(-np.log(np.exp(-ratio / 2).mean()), rel=0.02)


@given(sizes)
def test_gaussian_distances_do_not_change_with_the_unit_or_a_turn(size: tuple[int, int, int, int]) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n + f + 3, f), sample(seed + 1, m + f + 3, f)
    turn = np.linalg.qr(sample(seed + 2, f, f))[0] * 7.0
    for measure in (bhattacharyya, kl_divergence):
        assert measure(x @ turn + 3, y @ turn + 3) == pytest.approx(measure(x, y), rel=1e-6, abs=1e-9)
    assert bhattacharyya(x, y) == pytest.approx(bhattacharyya(y, x), rel=1e-9)
    assert bhattacharyya(x, y) <= kl_divergence(x, y) / 2 + 1e-9  # BD ≤ KL / 2 in both directions

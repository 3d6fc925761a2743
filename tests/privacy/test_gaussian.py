"""The Gaussian mechanism against integrals of its densities, and as a hypothesis test that half the noise fails."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from coterie.privacy import composed_noise, gaussian_delta, gaussian_epsilon, gaussian_sigma, noised, update_noise


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
def test_delta_is_the_hockey_stick_divergence(epsilon: float, sigma: float) -> None:
    """∫ max(0, p(x) − e^ε q(x)) dx, of noise around 1 and around 0; p is larger above one place."""
    place = sigma**2 * epsilon + 0.5
    p, q = norm(1, sigma), norm(0, sigma)
    excess = quad(lambda x: p.pdf(x) - math.exp(epsilon) * q.pdf(x), place, place + 15 * sigma + 1)[0]
    assert gaussian_delta(epsilon, sigma) == pytest.approx(excess, rel=1e-6, abs=1e-9)
    assert gaussian_delta(epsilon, 7 * sigma, sensitivity=7.0) == pytest.approx(gaussian_delta(epsilon, sigma))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_sigma_and_epsilon_are_inverse_and_on_the_safe_side(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(epsilon, sigma) <= delta < gaussian_delta(epsilon, sigma * (1 - 1e-6))
    assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-6)


def test_published_values() -> None:
    """σ at (1, 10⁻⁵) is smaller than the classic formula's √(2 ln(1.25/δ))/ε = 4.84 (Balle and Wang, 2018)."""
    assert gaussian_sigma(1.0, 1e-5) == pytest.approx(3.730631634816)
    assert math.sqrt(2 * math.log(1.25e5)) == pytest.approx(4.84, abs=0.01)
    assert gaussian_epsilon(1e9, 0.5) == 0.0


def test_dp_accounting_agrees() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for epsilon, delta in [(0.1, 1e-10), (1.0, 1e-5), (10.0, 1e-5), (1000.0, 0.1)]:
        sigma = accounting.get_sigma_gaussian(epsilon, delta)
        assert gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=1e-6)
        assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_outputs_are_private_and_those_with_half_the_noise_are_not(share: float) -> None:
    """Of 0 and of 1 the mechanism gives outputs of which no event S has P(S) > e^ε Q(S) + δ, but for chance."""
    epsilon, delta, count = 1.0, 0.02, 40_000
    sigma = gaussian_sigma(epsilon, delta) * share
    rng = np.random.default_rng(5)
    zero, one = (noised(np.full(count, value), sigma, rng) for value in (0.0, 1.0))
    worst = max((one > t).mean() - math.exp(epsilon) * (zero > t).mean() for t in np.linspace(0, 5 * sigma, 41))
    chance = 4 * math.sqrt((1 + math.exp(2 * epsilon)) * 0.25 / count)
    assert (worst <= delta + chance) == (share == 1.0)


def test_gaussian_mechanisms_compose_to_one() -> None:
    assert composed_noise([2.0]) == 2.0
    assert composed_noise([]) == math.inf
    # what is left for updates goes with the bits, whose sensitivity is ½, to the whole
    assert composed_noise([update_noise(1.3, bits=4.0), 2 * 4.0]) == pytest.approx(1.3)
    with pytest.raises(ValueError, match="should exceed"):
        update_noise(1.3, bits=0.5)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0)]
)
def test_what_is_no_guarantee_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="should be greater than 0"):
        gaussian_sigma(epsilon, delta)

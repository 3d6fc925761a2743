"""The Gaussian mechanism in closed form (Balle and Wang, 2018, Theorem 8), for any ε: σ from (ε, δ), and back."""

import math
from collections.abc import Callable, Iterable

HALVINGS = 100
"""Of an interval in which a number is looked for: more than a float has digits."""


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the δ of noise N(0, σ²) at an ε: Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ).

    >>> round(gaussian_delta(1.0, 3.7306316348), 12)
    1e-05
    """
    from scipy.special import log_ndtr

    if not (epsilon >= 0 and sigma > 0 and sensitivity > 0):
        raise ValueError(f"epsilon = {epsilon}, sigma = {sigma}, sensitivity = {sensitivity}: expected more than 0")
    ratio = sensitivity / sigma
    near, far = log_ndtr(ratio / 2 - epsilon / ratio), epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)
    return float(-math.exp(near) * math.expm1(min(far - near, 0.0)))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the least σ by which noise N(0, σ²) is (ε, δ)-private.

    >>> round(gaussian_sigma(1.0, 1e-5), 2), round(gaussian_sigma(1.0, 1e-5, sensitivity=2.0), 2)
    (3.73, 7.46)
    """
    check_guarantee(epsilon, delta)
    return sensitivity * math.exp(_crossing(lambda log: gaussian_delta(epsilon, math.exp(log)) <= delta, -30.0, 60.0))


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the ε of noise N(0, σ²) at a δ; at least 0.

    >>> round(gaussian_epsilon(3.7306316348, 1e-5), 6)
    1.0
    """
    check_guarantee(1.0, delta)
    if gaussian_delta(0.0, sigma, sensitivity) <= delta:
        return 0.0
    largest = 1.0
    while gaussian_delta(largest, sigma, sensitivity) > delta:
        largest *= 2
    return _crossing(lambda epsilon: gaussian_delta(epsilon, sigma, sensitivity) <= delta, 0.0, largest)


def composed_noise(multipliers: Iterable[float]) -> float:
    """Return the noise multiplier of the one Gaussian mechanism that tells as much as several: (Σ z⁻²)^(−1/2).

    >>> composed_noise([4.0, 4.0, 4.0, 4.0])
    2.0
    """
    told = sum(z**-2 for z in multipliers)
    return 1 / math.sqrt(told) if told else math.inf


def update_noise(total: float, bits: float) -> float:
    """Return z_Δ = (z⁻² − (2σ_b)⁻²)^(−1/2), the noise left for updates where their norms are counted too.

    `total` is z, the multiplier of both together; `bits` is σ_b, that of the number of updates within the norm, whose
    bits are taken as ±½ (Andrew et al., 2021, Theorem 1).

    >>> round(update_noise(1.0, bits=5.0), 4)
    1.005
    """
    if not 2 * bits > total:
        raise ValueError(
            f"bits = {bits} leaves no noise multiplier of {total} for updates: it should exceed {total / 2}"
        )
    return 1 / math.sqrt(total**-2 - (2 * bits) ** -2)


def check_guarantee(epsilon: float, delta: float) -> None:
    """Refuse what is no (ε, δ)."""
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise ValueError(f"epsilon = {epsilon} should be greater than 0, delta = {delta} between 0 and 1")


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number, to the last digits from above, from which on a condition holds; at `high` it does."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high

"""Hidden updates: how far two are apart, their noise, and privacy as a hypothesis test."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

from coterie.privacy import SecretRandomness, cut, gaussian_sigma, hidden

START = {"w": np.zeros((2, 2), np.float32), "b": np.ones(1, np.float32)}


def moved(*numbers: float) -> dict[str, np.ndarray]:
    return {"w": np.float32(numbers[:4]).reshape(2, 2), "b": np.float32([1 + numbers[4]])}


def told(update: dict[str, np.ndarray], clip: float, noise: float, key: int = 0) -> np.ndarray:
    params = hidden(update, START, clip, noise, SecretRandomness(key.to_bytes(16, "little")))
    assert [*params] == ["w", "b"]
    return np.concatenate([params["w"].ravel(), params["b"]]).astype(np.float64)


def test_an_update_of_nothing_stays_nothing() -> None:
    assert cut({"w": np.zeros(2)}, 1.0)["w"].tolist() == [0.0, 0.0]


def test_two_updates_are_twice_the_clip_apart_at_most() -> None:
    """Over all pairs of some, in opposite directions too."""
    updates = [moved(*(s * v for v in (3, 0, 0, 0, 4))) for s in (1, -1, 0.01)] + [moved(0, 1e9, 0, -1e9, 0)]
    sent = [told(update, 0.5, 1e-9) for update in updates]
    apart = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(sent, 2)]
    assert max(apart) == pytest.approx(1.0, rel=1e-6)


def test_the_noise_is_of_z_times_twice_the_clip() -> None:
    noise = np.concatenate([told(moved(0, 0, 0, 0, 0), 0.5, 3.0, key) - [0, 0, 0, 0, 1] for key in range(500)])
    assert kstest(noise / (3.0 * 2 * 0.5), "norm").pvalue > 0.001


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_an_update_is_private_and_one_with_half_the_noise_is_not(share: float) -> None:
    """Who sees it guesses which of two opposite ones it was."""
    epsilon, delta, count = 1.0, 0.1, 4000
    noise, one, other = share * gaussian_sigma(epsilon, delta), moved(3, 0, 0, 0, 4), moved(-3, 0, 0, 0, -4)
    direction = np.float64([3, 0, 0, 0, 4])
    scores = [
        np.array([told(update, 0.5, noise, key) @ direction for key in range(begin, begin + count)])
        for update, begin in ((one, 0), (other, count))
    ]
    cuts = np.linspace(scores[1].min(), scores[0].max(), 80)
    excess = max((scores[0] > t).mean() - math.exp(epsilon) * (scores[1] > t).mean() for t in cuts)
    chance = 4 * math.sqrt((1 + math.exp(2 * epsilon)) * 0.1 / count)
    assert (excess <= delta + chance) == (share == 1.0)

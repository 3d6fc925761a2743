"""Attacks against oracles: scikit-learn's AUC, SciPy's intervals, mechanisms whose ε is known."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from coterie.privacy import attacks


def test_the_auc_is_scikit_learns_also_with_ties() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    for members, others in ((40, 90), (1, 3), (200, 1)):
        high, low = rng.integers(0, 9, members) + 1, rng.integers(0, 9, others)
        truth = [*[1] * members, *[0] * others]
        assert attacks.auc(high, low)[0] == pytest.approx(roc_auc_score(truth, [*high, *low]), abs=1e-12)


def test_its_error_is_the_spread_of_many_samples() -> None:
    rng = np.random.default_rng(1)
    drawn = [attacks.auc(rng.normal(0.5, 1, 60), rng.normal(0, 1, 40)) for _ in range(600)]
    areas, errors = np.array(drawn).T
    assert errors.mean() == pytest.approx(areas.std(), rel=0.1)


def test_a_sample_in_the_span_has_length_one_whatever_the_vectors() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(20, 3)).astype(np.float32)  # not orthonormal
    inside = (vectors @ rng.normal(size=(3, 5))).T
    outside = rng.normal(size=(4, 20))
    projector = vectors @ np.linalg.pinv(vectors)
    expected = np.linalg.norm(outside @ projector, axis=1) / np.linalg.norm(outside, axis=1)
    assert attacks.projection_lengths(vectors, inside) == pytest.approx(np.ones(5), abs=1e-6)
    assert attacks.projection_lengths(vectors, outside) == pytest.approx(expected, abs=1e-6)
    assert attacks.projection_lengths(vectors, np.zeros((2, 20))).tolist() == [0, 0]


def test_the_nearest_cosine_is_that_of_the_nearest_sample() -> None:
    rng = np.random.default_rng(3)
    rows, vectors = rng.normal(size=(6, 4, 5)), rng.normal(size=(20, 2))
    flat = rows.reshape(6, -1)
    found = [max(abs(x @ v) / np.linalg.norm(x) / np.linalg.norm(v) for x in flat) for v in vectors.T]
    assert attacks.nearest_cosines(vectors, rows) == pytest.approx(found)


@pytest.mark.parametrize(("right", "guesses"), [(9, 10), (180, 200), (200, 200), (7, 7)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_bound_is_by_clopper_and_pearson(right: int, guesses: int, confidence: float) -> None:
    low = binomtest(right, guesses, alternative="greater").proportion_ci(confidence, method="exact").low
    assert attacks.lower_limit(right, guesses, confidence) == pytest.approx(low)
    assert attacks.epsilon_bound(right, guesses, 500, 0.0, confidence) == pytest.approx(
        max(0.0, math.log(low / (1 - low)))
    )


def test_the_chance_of_guesses_is_that_of_a_binomial_number_and_a_term_for_delta() -> None:
    """As in the listing of Steinke, Nasr and Jagielski (2023), Appendix D."""
    trials, guesses, right, epsilon, delta = 60, 30, 25, 0.8, 1e-3
    coin = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    larger = max(sum(coin.pmf(right - j) for j in range(1, i + 1)) / i for i in range(1, right + 1))
    expected = coin.sf(right - 1) + 2 * trials * delta * larger
    assert attacks._chance(right, guesses, trials, epsilon, delta) == pytest.approx(expected)


def test_delta_and_units_of_two_steps_show_less() -> None:
    plain = attacks.epsilon_bound(190, 200, 200)
    assert attacks.epsilon_bound(190, 200, 200, steps=2) == pytest.approx(plain / 2)
    assert 0 < attacks.epsilon_bound(190, 200, 200, delta=1e-3) < plain
    assert attacks.epsilon_bound(190, 200, 200, delta=0.5) == 0  # such a mechanism may tell half of all outright
    assert attacks.epsilon_bound(0, 0, 10) == 0


def randomised_response(epsilon: float, trials: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Each trial tells its bit, and lies with probability 1 / (1 + e^ε): ε-private, and nothing less."""
    lies = rng.random((2, trials)) < 1 / (1 + math.exp(epsilon))
    return np.where(lies[0], 0.0, 1.0), np.where(lies[1], 1.0, 0.0)


def test_randomised_response_is_bounded_from_below_and_half_the_noise_is_found() -> None:
    rng = np.random.default_rng(4)
    proven = [attacks.proven_epsilon(*randomised_response(1.0, 500, rng), 0.0, rng).epsilon for _ in range(60)]
    assert np.mean(np.array(proven) > 1.0) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 60)  # with confidence 0.95
    assert np.median(proven) > 0.6
    broken = [attacks.proven_epsilon(*randomised_response(2.0, 500, rng), 1e-5, rng).epsilon for _ in range(5)]
    assert min(broken) > 1.0


def test_noise_shows_nothing_and_a_leak_everything() -> None:
    rng = np.random.default_rng(5)
    shown = [attacks.proven_epsilon(rng.normal(size=300), rng.normal(size=300), 1e-5, rng) for _ in range(20)]
    assert sum(bound.epsilon == 0 for bound in shown) >= 17
    leak = attacks.proven_epsilon(np.ones(300), np.zeros(300), 1e-5, rng)
    assert (leak.right, leak.guesses, leak.trials) == (300, 300, 300)
    assert leak.epsilon > 4
    assert attacks.proven_epsilon([1.0], [0.0], 1e-5, rng).epsilon == 0  # nothing is left to guess

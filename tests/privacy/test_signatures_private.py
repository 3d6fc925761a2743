"""Private signatures: maps, sensitivity by brute force, the noise's distribution, and privacy as a hypothesis test."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from coterie.privacy import (
    SecretRandomness,
    bounded_rows,
    gaussian_sigma,
    leading_vectors,
    mapped_shape,
    noised,
    private_label_counts,
    private_second_moments,
    public_map,
    smat,
    svec,
)
from coterie.privacy.randomness import Floats


class FixedCoins:
    """Coins that are given, and no noise to speak of."""

    def __init__(self, coins: tuple[int, ...]) -> None:
        self.coins = coins

    def random(self, size: int) -> Floats:
        return np.array([0.9 - 0.8 * coin for coin in self.coins[:size]])

    def standard_normal(self, size: int) -> Floats:
        return np.zeros(size)


def mapped(x: Floats, most: int = 64, seed: int = 0) -> Floats:
    return public_map(x, mapped_shape(x.shape[1:], most), seed)


def test_images_become_means_of_cells() -> None:
    rng = np.random.default_rng(0)
    images = rng.random((3, 1, 28, 28))
    by_hand = images.reshape(3, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(3, 49)
    np.testing.assert_allclose(mapped(images), by_hand)
    np.testing.assert_allclose(mapped(images[:, 0]), by_hand)
    colour = rng.random((2, 3, 32, 32))
    np.testing.assert_allclose(mapped(colour), colour.reshape(2, 3, 4, 8, 4, 8).mean(axis=(3, 5)).reshape(2, 48))
    assert mapped(rng.random((2, 1, 29, 31))).shape == (2, 64)  # sides that nothing divides
    assert mapped_shape((1, 3, 40)) == (1, 3, 8)
    np.testing.assert_allclose(mapped(np.ones((1, 29, 31))), 1.0)
    with pytest.raises(ValueError, match="can't be brought"):
        public_map(images, (3, 7, 7))


def test_other_samples_are_projected_by_a_seed_alone() -> None:
    rows = np.random.default_rng(0).random((5, 200))
    assert np.array_equal(mapped(rows[:, :40]), rows[:, :40])
    few = mapped(rows, most=32, seed=3)
    assert few.shape == (5, 32)
    np.testing.assert_allclose(few[2:], mapped(rows[2:], most=32, seed=3))  # each sample for itself
    assert not np.allclose(few, mapped(rows, most=32, seed=4))


@given(st.lists(st.tuples(*[st.floats(allow_subnormal=False)] * 3), max_size=5), st.booleans())
def test_rows_are_never_longer_than_one(rows: list[tuple[float, ...]], exactly: bool) -> None:
    bounded = bounded_rows(np.array(rows).reshape(-1, 3), exactly)
    norms = np.array([math.sqrt(math.fsum(value**2 for value in row)) for row in bounded])
    assert (norms <= 1).all()
    for row, short, length in zip(rows, bounded, norms, strict=True):
        if not np.isfinite(row).all():
            assert not short.any()
        elif any(row) and (exactly or math.hypot(*row) >= 1):
            assert length == pytest.approx(1.0)
        else:
            assert tuple(short) == row


@given(st.lists(st.floats(-1e3, 1e3), min_size=10, max_size=10))
def test_svec_keeps_lengths(numbers: list[float]) -> None:
    matrix = smat(numbers)
    assert np.array_equal(matrix, matrix.T)
    np.testing.assert_allclose(svec(matrix), numbers, atol=1e-9)
    assert np.linalg.norm(svec(matrix)) == pytest.approx(np.linalg.norm(matrix), abs=1e-9)
    with pytest.raises(ValueError, match="no symmetric matrix has 4"):
        smat([1.0, 2.0, 3.0, 4.0])


def told(samples: tuple[int, ...], coins: tuple[int, ...]) -> Floats:
    """What is told of samples of a small alphabet, (vector, label), before the noise: svec of all halves and labels."""
    alphabet = bounded_rows([[1.0, 0.0], [0.0, 5.0], [-0.3, 0.2]])
    rows, labels = alphabet[[s % 3 for s in samples]], np.array([s // 3 for s in samples], np.int64)
    matrices = private_second_moments(rows, 1e-9, FixedCoins(coins), labels, classes=2)
    return np.concatenate([svec(matrix) for matrix in matrices.reshape(4, 2, 2)])


def test_sensitivity_over_all_neighbouring_data_sets() -> None:
    """Adding a sample to any two others moves it all by at most 1, and by 1 for some; replacing one by √2."""
    coins = (0, 1, 1)
    without = {pair: told(pair, coins) for pair in itertools.product(range(6), repeat=2)}
    added = {triple: told(triple, coins) for triple in itertools.product(range(6), repeat=3)}
    moved = [np.linalg.norm(added[triple] - without[triple[:2]]) for triple in added]
    assert max(moved) == pytest.approx(1.0)
    replaced = [np.linalg.norm(without[a] - without[b]) for a in without for b in without if a[0] == b[0]]
    assert max(replaced) == pytest.approx(math.sqrt(2))


def test_label_counts_move_by_one() -> None:
    counts = private_label_counts(np.array([2, 2, 0]), 4, 1e-9, FixedCoins(()))
    np.testing.assert_allclose(counts, [1, 0, 2, 0])


@pytest.mark.parametrize("secret", [True, False])
def test_noise_of_the_matrix(secret: bool) -> None:
    """N(0, σ²) on the diagonal, N(0, σ²/2) off it, different in halves, labels and matrices, also of no samples."""
    source = SecretRandomness(bytes(32)) if secret else np.random.default_rng(1)
    matrices = private_second_moments(np.zeros((0, 30)), 2.0, source, np.zeros(0, np.int64), classes=5)
    assert matrices.shape == (5, 2, 30, 30)
    assert np.array_equal(matrices, matrices.swapaxes(2, 3))
    diagonal = np.diagonal(matrices, axis1=2, axis2=3).ravel()
    above = matrices[:, :, *np.triu_indices(30, 1)].ravel()
    assert kstest(diagonal / 2.0, "norm").pvalue > 0.001
    assert kstest(above / math.sqrt(2.0), "norm").pvalue > 0.001
    assert len(np.unique(above)) > 0.99 * len(above)  # the grid has few numbers in common


def test_the_sum_of_halves_is_the_whole() -> None:
    rows = bounded_rows(np.random.default_rng(0).normal(size=(50, 4)), exactly=True)
    halves = private_second_moments(rows, 1e-7, np.random.default_rng(1))[0]
    np.testing.assert_allclose(halves.sum(axis=0), rows.T @ rows, atol=1e-5)
    assert all(10 < np.trace(half) < 40 for half in halves)


def test_noised_numbers_lie_on_a_grid() -> None:
    """So that digits beyond it tell nothing of what the noise was added to (Mironov, 2012)."""
    values = noised(np.random.default_rng(0).random(1000), 3.0, np.random.default_rng(1))
    grid = 2.0**-19
    assert np.array_equal(values / grid, np.round(values / grid))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_signature_is_private_and_one_with_half_the_noise_is_not(share: float) -> None:
    """Whether a sample was there is guessed from all that is told, by how much of it lies in its direction."""
    epsilon, delta, count = 1.0, 0.1, 1000
    sigma, source = gaussian_sigma(epsilon, delta) * share, SecretRandomness(bytes(range(16)))
    others, sample = bounded_rows([[0.2, 0.1], [0.5, -0.5]]), bounded_rows([[0.6, 0.8]], exactly=True)

    def scores(rows: Floats) -> Floats:
        """As many labels as there are trials, each with these samples."""
        labels = np.repeat(np.arange(count), len(rows))
        told = private_second_moments(np.tile(rows, (count, 1)), sigma, source, labels, count)
        ratios = np.einsum("nhij,ij->nh", told - others.T @ others / 2, sample.T @ sample)
        return ratios.max(axis=1)

    there, absent = scores(np.vstack([others, sample])), scores(others)
    excess = [(there > t).mean() - math.exp(epsilon) * (absent > t).mean() for t in np.linspace(-1, 5, 61) * sigma]
    chance = 4 * math.sqrt((1 + math.exp(2 * epsilon)) * 0.1 / count)
    assert (max(excess) <= delta + chance) == (share == 1.0)


def test_eigenvectors_come_in_order() -> None:
    vectors = leading_vectors(np.diag([1.0, 5.0, 3.0]), 2)
    np.testing.assert_allclose(vectors, [[0, 0], [1, 0], [0, 1]])


def test_rows_and_labels_are_checked() -> None:
    source = np.random.default_rng(0)
    with pytest.raises(ValueError, match="bounded_rows"):
        private_second_moments(np.array([[2.0, 0.0]]), 1.0, source)
    with pytest.raises(ValueError, match="label of 0 to 1"):
        private_second_moments(np.zeros((1, 2)), 1.0, source, np.array([2]), classes=2)
    with pytest.raises(ValueError, match="sigma = 0"):
        noised([1.0], 0.0, source)

"""Noise from halves: what it estimates, and what is done where there are none."""

import numpy as np
import pytest

from coterie.clustering import in_units_of_noise, noise
from coterie.similarity import principal_angles, signature, split_half_distance


def cloud(rng: np.random.Generator, count: int, features: int = 60) -> np.ndarray:
    """Samples around one direction, with two more that vary."""
    axes = np.eye(features)[:3]
    return 10 + rng.normal(size=(count, 3)) @ (axes * [[4.0], [2.0], [1.0]]) + rng.normal(size=(count, features))


@pytest.mark.integration
def test_clients_of_one_distribution_are_about_one_noise_apart() -> None:
    rng = np.random.default_rng(0)
    for count in (50, 200):
        data = [cloud(rng, count) for _ in range(30)]
        halves = [split_half_distance(x, 1, rng) for x in data]
        angles = principal_angles([signature(x, 1) for x in data])
        ratio = in_units_of_noise(angles, noise(halves, [count] * 30))
        assert np.median(ratio[np.triu_indices(30, 1)]) == pytest.approx(1, abs=0.12)


def test_unequal_sizes_have_unequal_noise() -> None:
    # the same σ: four times the samples, half the noise
    found = noise([4.0, 2.0], [25, 100])
    assert found == pytest.approx([2.0, 1.0])
    assert in_units_of_noise([[0, 5.0], [5.0, 0]], found)[0, 1] == pytest.approx(5 / np.hypot(2, 1))


def test_who_cannot_be_halved_borrows_the_typical_noise_for_its_size() -> None:
    found = noise([2.0, 2.0, 2.0, np.nan], [100, 100, 100, 1])
    assert found == pytest.approx([1, 1, 1, 10])


def test_nobody_can_be_halved() -> None:
    assert np.isfinite(noise([np.nan, np.nan], [2, 2])).all()
    assert (noise([np.nan, np.nan], [2, 2]) > 0).all()


def test_no_noise_at_all_leaves_finite_ratios() -> None:
    ratio = in_units_of_noise([[0, 30.0], [30.0, 0]], noise([0.0, 0.0], [10, 10]))
    assert np.isfinite(ratio).all()
    assert ratio[0, 1] > 1e4


def test_halves_of_duplicates_do_not_differ() -> None:
    x = np.tile(np.arange(12.0), (10, 1))
    assert split_half_distance(x, 3, np.random.default_rng(0)) == 0


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_too_few_samples_are_not_halved(count: int) -> None:
    assert split_half_distance(np.ones((count, 5)), 3, np.random.default_rng(0)) is None


def test_black_images_have_halves_at_no_distance() -> None:
    assert split_half_distance(np.zeros((8, 5)), 3, np.random.default_rng(0)) == 0


@pytest.mark.parametrize("measure", ["theta1", "min_abs", "sum_angles"])
def test_coordinates_change_no_angle(measure) -> None:
    """Fewer samples than features: halves are compared in coordinates of their span, with the same result."""
    rng = np.random.default_rng(3)
    x = cloud(rng, 20)
    order = np.random.default_rng(7).permutation(20)
    direct = principal_angles([signature(x[order[:10]], 2)], [signature(x[order[10:]], 2)], measure).item()
    assert split_half_distance(x, 2, np.random.default_rng(7), splits=1, measure=measure) == pytest.approx(direct, 1e-9)


def test_estimates_are_drawn_towards_those_of_clients_nearby() -> None:
    """Two kinds of data with different noise, four times as much in the second: neither spoils the other's."""
    places = np.r_[np.zeros(9), np.full(9, 40.0)]
    proximity = np.abs(np.subtract.outer(places, places))
    halves = np.r_[np.full(9, 1.0), np.full(9, 4.0)]
    assert noise(halves, [100] * 18, proximity) == pytest.approx(halves / 2)
    assert noise(halves, [100] * 18)[0] > 0.6


def test_newcomers_take_the_noise_of_those_they_are_near() -> None:
    halves, proximity = [1.0, 1.0, 1.0, 4.0, 4.0, 4.0, np.nan], [[50.0, 51, 52, 1, 2, 3, 0]]
    assert noise(halves, [100] * 7, proximity) == pytest.approx([2.0])

"""Earth mover's distances against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from random_samples import sample, sizes
from scipy.stats import wasserstein_distance

from coterie.similarity import emd_pixel, sliced_wasserstein
from coterie.streams import stream


@given(sizes)
def test_earth_movers_distance_against_scipy(size: tuple[int, int, int, int]) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n, f), sample(seed + 1, m, f, 1.0)
    assert sliced_wasserstein(x[:, :1], y[:, :1]) == pytest.approx(wasserstein_distance(x[:, 0], y[:, 0]), abs=1e-12)
    directions = stream(3, "projections").normal(size=(f, 5))
    directions /= np.linalg.norm(directions, axis=0)
    each = [wasserstein_distance(x @ d, y @ d) for d in directions.T]
    assert sliced_wasserstein(x, y, projections=5, seed=3) == pytest.approx(np.mean(each), abs=1e-12)
    pixels = wasserstein_distance(x.mean(axis=0), y.mean(axis=0))
    assert emd_pixel(x, y) == pytest.approx(pixels, abs=1e-12)


def test_a_shift_moves_the_earth_by_its_length() -> None:
    """In one feature exactly; in F, the mean of |cos| between a fixed and a random direction."""
    x = sample(0, 50, 3)
    assert sliced_wasserstein(x[:, :1], x[:, :1] + 2.5) == pytest.approx(2.5)
    assert sliced_wasserstein(x, x + np.array([0, 2, 0]), projections=4000) == pytest.approx(2 * 0.5, rel=0.03)

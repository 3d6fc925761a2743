"""Sketches: distances against projections, and halves against signatures made one by one."""

import numpy as np
import pytest

from coterie.similarity import points, principal_angles, projection, signature, sketch, sketched_halves
from coterie.streams import stream


def test_points_are_as_far_apart_as_projections_of_sketches():
    rng = np.random.default_rng(0)
    across = projection(40, 8, 3)
    sketches = [sketch(np.linalg.qr(rng.normal(size=(40, p)))[0], across) for p in (1, 2, 3, 3)]
    for s in sketches:
        np.testing.assert_allclose(s.T @ s, np.eye(s.shape[1]), atol=1e-12)
    at = points(sketches)
    for i, s in enumerate(sketches):
        for j, t in enumerate(sketches):
            expected = np.linalg.norm(s @ s.T - t @ t.T)
            assert np.linalg.norm(at[i] - at[j]) == pytest.approx(expected, abs=1e-5)
            assert expected**2 == pytest.approx(s.shape[1] + t.shape[1] - 2 * np.linalg.norm(s.T @ t) ** 2)


def test_a_sketch_spans_the_projected_space_and_the_seed_decides():
    u = signature(np.random.default_rng(1).normal(size=(9, 30)), 3)
    s = sketch(u, projection(30, 8, 0))
    image = projection(30, 8, 0).T @ u
    np.testing.assert_allclose(s @ (s.T @ image), image, atol=1e-12)
    assert np.array_equal(projection(30, 8, 0), projection(30, 8, 0))
    assert not np.array_equal(projection(30, 8, 0), projection(30, 8, 1))


@pytest.mark.parametrize("samples", [9, 30])  # fewer than features, and more
def test_halves_are_those_of_signatures_one_by_one(samples):
    x = np.random.default_rng(2).random((samples, 20)) + 0.2
    across = projection(20, 8, 0)
    found = sketched_halves(x, 3, stream(0, "halves", 1), across, splits=4, measure="theta1")
    rng, expected = stream(0, "halves", 1), []
    for _ in range(4):
        order = rng.permutation(samples)
        a, b = (sketch(signature(x[part], 3), across) for part in (order[: samples // 2], order[samples // 2 :]))
        expected.append(principal_angles([a], [b]).item())
    assert found == pytest.approx(np.mean(expected), abs=1e-6)


def test_samples_of_one_direction_or_none_have_narrow_sketches():
    across = projection(20, 8, 0)
    row = np.random.default_rng(3).random(20)
    assert sketched_halves(np.tile(row, (6, 1)), 3, stream(0, "halves"), across, splits=2, measure="theta1") == 0
    assert sketched_halves(np.zeros((6, 20)), 3, stream(0, "halves"), across, splits=2, measure="theta1") == 0
    assert sketch(signature(np.zeros((6, 20)), 3), across).shape == (8, 0)


def test_too_few_directions_are_refused():
    with pytest.raises(ValueError, match="needs at least as many directions"):
        sketch(np.eye(20)[:, :3], projection(20, 2, 0))

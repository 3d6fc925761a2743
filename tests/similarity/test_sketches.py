"""Sketches: distances against projections, and halves against signatures made one by one."""

import numpy as np
import pytest

from coterie.similarity import (
    Sketching,
    points,
    principal_angles,
    projection,
    signature,
    sketch,
    sketch_together,
    sketched_halves,
)
from coterie.similarity.halved_sketches import angles_of_halves
from coterie.streams import stream


def orders_of(samples, splits, client=0):
    rng = stream(0, "halves", client)
    return np.array([rng.permutation(samples) for _ in range(splits)])


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
    orders, expected = orders_of(samples, 4, 1), []
    found = sketched_halves(x, 3, orders, across, measure="theta1")
    for order in orders:
        a, b = (sketch(signature(x[part], 3), across) for part in (order[: samples // 2], order[samples // 2 :]))
        expected.append(principal_angles([a], [b]).item())
    assert found == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize(("samples", "p", "k"), [(9, 1, 8), (16, 2, 8), (16, 3, 8), (17, 5, 16), (16, 7, 16)])
def test_halves_of_many_clients_are_those_of_principal_angles(samples, p, k):
    rng, across = np.random.default_rng(6), projection(24, k, 0)
    x = rng.random((4, samples, 24)) ** 3
    orders = np.stack([orders_of(samples, 5, client) for client in range(4)])
    found = angles_of_halves(x @ x.swapaxes(1, 2), x @ across, orders, p)
    assert found.usual.all() == (p <= 6)  # wider ones are left to LAPACK
    for client in range(4 if p <= 6 else 0):
        expected = []
        for order in orders[client]:
            halves = [x[client][order[: samples // 2]], x[client][order[samples // 2 :]]]
            a, b = (np.linalg.qr(across.T @ np.linalg.svd(half.T)[0][:, :p])[0] for half in halves)
            expected.append(np.degrees(np.arccos(np.linalg.svd(a.T @ b)[1].max())))
        assert found.apart[client] == pytest.approx(np.mean(expected), abs=1e-5)


def test_halves_that_span_too_little_are_told():
    rng, across = np.random.default_rng(7), projection(24, 8, 0)
    x = rng.random((3, 16, 24))
    x[1] = x[1, :2].repeat(8, axis=0)
    x[2] = 0.0
    orders = np.stack([orders_of(16, 5, client) for client in range(3)])
    found = angles_of_halves(x @ x.swapaxes(1, 2), x @ across, orders, 3)
    assert found.usual.tolist() == [True, False, False]


def test_samples_of_one_direction_or_none_have_narrow_sketches():
    across = projection(20, 8, 0)
    row = np.random.default_rng(3).random(20)
    assert sketched_halves(np.tile(row, (6, 1)), 3, orders_of(6, 2), across, measure="theta1") == 0
    assert sketched_halves(np.zeros((6, 20)), 3, orders_of(6, 2), across, measure="theta1") == 0
    assert sketch(signature(np.zeros((6, 20)), 3), across).shape == (8, 0)


def test_too_few_directions_are_refused():
    with pytest.raises(ValueError, match="needs at least as many directions"):
        sketch(np.eye(20)[:, :3], projection(20, 2, 0))


def test_sketches_made_together_are_those_made_alone_to_the_last_bit():
    rng, across = np.random.default_rng(4), projection(24, 8, 0)
    pictures = (255 * rng.random((400, 24)) ** 3).astype(np.uint8)
    clients = [rng.integers(0, 400, n) for n in (16, 16, 9, 16, 9, 30, 5, 2, 16)]
    samples = [pictures[drawn] for drawn in clients]
    samples[3] = np.repeat(samples[3][:2], 8, axis=0)  # these span two directions
    samples[8] = np.zeros_like(samples[8])
    asked = [
        Sketching(x, 3, across, orders_of(len(x), 6 if len(x) > 3 else 0, k), "theta1") for k, x in enumerate(samples)
    ]
    for one, made in zip(asked, sketch_together(asked), strict=True):
        alone = one.alone()
        np.testing.assert_array_equal(made.vectors, alone.vectors)
        assert made.halves == alone.halves
        if len(one.orders):
            expected = sketched_halves(one.x, 3, one.orders, across, measure="theta1")
            assert made.halves == expected
    assert [made.vectors.shape[1] for made in sketch_together(asked)] == [3, 3, 3, 2, 3, 3, 3, 2, 0]


def test_samples_that_are_not_numbers_are_refused_by_who_has_them_and_no_other():
    across, x = projection(20, 8, 0), np.random.default_rng(5).random((2, 8, 20))
    x[1, 0, 0] = np.nan
    fine, wrong = (Sketching(one, 3, across, orders_of(8, 2), "theta1") for one in x)
    with pytest.raises(ValueError, match="NaN or infinity"):
        sketch_together([fine, wrong])


def test_no_direction_counts_for_more_than_another():
    across = projection(40, 8, 3)
    np.testing.assert_allclose(across.T @ across, np.eye(8), atol=1e-12)
    assert projection(4, 8, 3).shape == (4, 8)  # more than there are features

"""Principal angles against SciPy and against loops over pairs, and the rules for what is undefined or nearly equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from coterie.similarity import angles as module
from coterie.similarity import principal_angles, signature
from coterie.similarity.angles import ANGLE_MEASURES

SUMS = ("trace", "sum_angles")


def signatures(seed: int, widths: Sequence[int], features: int = 12, near: float = 1.0) -> list[np.ndarray]:
    """Vectors of length 1 around a few common ones, as those of clients are; not orthogonal."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(features, 3))
    made = [common[:, rng.integers(3, size=w)] + near * rng.normal(size=(features, w)) for w in widths]
    return [u / np.linalg.norm(u, axis=0) for u in made]


def loop(a: list[np.ndarray], b: list[np.ndarray], measure: str) -> np.ndarray:
    """The definitions of ALGORITHMS 2, pair by pair."""
    result = np.zeros((len(a), len(b)))
    for i, u in enumerate(a):
        for j, v in enumerate(b):
            products = np.clip(u.T @ v, -1, 1)
            result[i, j] = {
                "min_entry": lambda p: np.degrees(np.arccos(p)).min(),
                "min_abs": lambda p: np.degrees(np.arccos(np.abs(p))).min(),
                "trace": lambda p: np.degrees(np.arccos(np.abs(np.diagonal(p)))).sum(),
                "theta1": lambda p, u=u, v=v: np.degrees(subspace_angles(u, v)).min(),
                "sum_angles": lambda p, u=u, v=v: np.degrees(subspace_angles(u, v)).sum(),
            }[measure](products)
    return result


widths = st.lists(st.integers(1, 7), min_size=1, max_size=6)


@pytest.mark.integration
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
@given(st.integers(0, 10**6), widths, widths, st.sampled_from([0.01, 0.1, 1.0]))
def test_the_definitions_pair_by_pair(
    measure: str, seed: int, first: list[int], second: list[int], near: float
) -> None:
    u = signatures(seed, first + second, near=near)
    a, b = u[: len(first)], u[len(first) :]
    np.testing.assert_allclose(principal_angles(a, b, measure), loop(a, b, measure), atol=1e-4)
    within = loop(a, a, measure)
    np.fill_diagonal(within, 0)
    np.testing.assert_allclose(principal_angles(a, measure=measure), within, atol=1e-4)


@pytest.mark.integration
@pytest.mark.parametrize("measure", ["theta1", "sum_angles"])
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_dependent_vectors_span_no_more(measure: str, seed: int, p: int, q: int, more: int) -> None:
    """Mixtures of vectors, vectors twice and zero vectors change nothing; the angles are those of SciPy."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.normal(size=(10, w)))[0] for w in (p, q))
    wide = np.hstack([u @ rng.normal(size=(p, more)), u, u[:, :1], np.zeros((10, 1))])
    expected = loop([u], [v], measure)
    np.testing.assert_allclose(principal_angles([wide], [v], measure), expected, atol=1e-5)
    np.testing.assert_allclose(principal_angles([v], [wide], measure), expected, atol=1e-5)
    assert principal_angles([wide], [u], measure) == 0


@pytest.mark.integration
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(-6, -2.5))
def test_nearly_equal_spaces(seed: int, p: int, exponent: float) -> None:
    """Turned by 1e-6° to 3e-3° in one direction: exact down to 1e-4°, and 0 below."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(3000, p + 1)))[0]
    angle = 10**exponent
    turned = q[:, :p].copy()
    turned[:, 0] = np.cos(np.radians(angle)) * q[:, 0] + np.sin(np.radians(angle)) * q[:, p]
    expected = 0.0 if angle < 1e-4 else angle
    assert principal_angles([q[:, :1]], [turned[:, :1]], "min_entry") == pytest.approx(expected, abs=1e-6)
    for measure in ("sum_angles", "trace"):
        assert principal_angles([q[:, :p]], [turned], measure)[0, 0] == pytest.approx(expected, abs=1e-6)
    mixed = turned @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    scipy = np.degrees(subspace_angles(q[:, :p], mixed)).sum()
    assert principal_angles([q[:, :p]], [mixed], "sum_angles")[0, 0] == pytest.approx(
        0.0 if angle < 1e-4 else scipy, abs=1e-5
    )


@pytest.mark.integration
@given(st.integers(0, 10**6), widths)
def test_theta1_is_at_most_min_abs_is_at_most_min_entry(seed: int, each: list[int]) -> None:
    u = signatures(seed, each)
    theta1, min_abs, min_entry = (principal_angles(u, measure=m) for m in ("theta1", "min_abs", "min_entry"))
    assert np.all(theta1 <= min_abs + 1e-6)
    assert np.all(min_abs <= min_entry + 1e-9)


@pytest.mark.parametrize("small", [0, 2**22])
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_within_one_list_symmetric_with_a_diagonal_of_0(
    measure: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", small)
    u = signatures(0, [3, 1, 0, 3, 5, 3, 0, 2, 3, 3], features=40, near=0.03)
    angles = principal_angles(u, measure=measure, block=6)
    assert angles.dtype == np.float64
    np.testing.assert_array_equal(angles, angles.T)
    np.testing.assert_array_equal(np.diagonal(angles), 0)
    np.testing.assert_allclose(principal_angles(u, u, measure), angles, atol=1e-3)


@pytest.mark.integration
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_scale_and_order_of_samples_do_not_matter_and_duplicates_are_at_0(measure: str) -> None:
    """ALGORITHMS 12.4; as float32, as signatures travel, too."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (4, 60, 200)) + rng.integers(0, 100, (4, 1, 200))
    y = np.arange(60) % 2
    order = rng.permutation(60)
    for dtype in (np.float64, np.float32):
        plain = [signature(one, 3, y).astype(dtype) for one in x]
        other = [signature(one[order] / 255, 3, y[order]).astype(dtype) for one in x]
        angles = principal_angles(plain + other, measure=measure)
        np.testing.assert_array_equal(np.diagonal(angles[:4, 4:]), 0)
        np.testing.assert_allclose(angles[:4, 4:], angles[:4, :4], atol=1e-4)


@pytest.mark.parametrize("small", [0, 2**22])
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_orthogonal_supports_are_at_90(measure: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", small)
    x = np.abs(np.random.default_rng(0).normal(size=(9, 20)))
    left, right = x * (np.arange(20) < 10), x * (np.arange(20) >= 10)
    expected = 90.0 * (3 if measure in SUMS else 1)
    assert principal_angles([signature(left)], [signature(right)], measure)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_clients_without_vectors(measure: str) -> None:
    """All-black images: at 90° from all others, in sums for each of their vectors, and at 0 from each other."""
    black = signature(np.zeros((5, 12)), 3)
    assert black.shape == (12, 0)
    u = [black, *signatures(0, [2, 3]), np.zeros((12, 0))]
    first = principal_angles(u, measure=measure)[0]
    np.testing.assert_array_equal(first, [0, 180, 270, 0] if measure in SUMS else [0, 90, 90, 0])
    zeros = principal_angles([np.zeros((12, 2))], u[1:3], measure)
    if measure not in ("min_entry", "min_abs"):  # 0 is at 90° from all vectors anyway
        np.testing.assert_array_equal(zeros, [[180, 180 if measure == "trace" else 270]] if measure in SUMS else 90)
    assert not np.isnan(zeros).any()


def test_opposite_vectors() -> None:
    u = signatures(0, [1])
    assert principal_angles(u, [-u[0]], "min_entry") == pytest.approx(180)
    for measure in ("min_abs", "theta1", "trace", "sum_angles"):
        assert principal_angles(u, [-u[0]], measure) == 0


@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_no_clients_and_one(measure: str) -> None:
    u = signatures(0, [2])
    assert principal_angles([], measure=measure).shape == (0, 0)
    assert principal_angles([], u, measure).shape == (0, 1)
    assert principal_angles(u, [], measure).shape == (1, 0)
    np.testing.assert_array_equal(principal_angles(u, measure=measure), [[0]])


@pytest.mark.integration
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
@pytest.mark.parametrize("small", [0, 2**22])
def test_the_size_of_blocks_changes_nothing(measure: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", small)
    a, b = signatures(3, [3] * 20 + [1, 2, 6, 0] * 5, 50), signatures(4, [2, 3, 4] * 6, 50)
    for others in (None, b):
        whole = principal_angles(a, others, measure)
        for block in (1, 7, 30):
            np.testing.assert_allclose(principal_angles(a, others, measure, block=block), whole, atol=1e-4)


@pytest.mark.integration
@pytest.mark.parametrize("measure", ANGLE_MEASURES)
def test_float32_is_good_to_a_thousandth_of_a_degree_and_float64_takes_over_near_0(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of clients at all angles from 1e-5° to 50°, two duplicates among them, in 3072 features."""
    rng = np.random.default_rng(0)
    base = np.linalg.qr(rng.normal(size=(3072, 3)))[0]
    clients = [base, base.copy()]
    for angle in np.geomspace(1e-5, 50, 60):
        away = np.linalg.qr(np.hstack([base, rng.normal(size=(3072, 3))]))[0][:, 3:]
        clients.append(np.cos(np.radians(angle)) * base + np.sin(np.radians(angle)) * away)
    exact = principal_angles(clients, measure=measure)
    monkeypatch.setattr(module, "SMALL", 0)
    angles = principal_angles(clients, measure=measure)
    assert np.abs(angles - exact).max() < 1e-3
    assert np.abs(angles - exact).max() > 0  # it was float32
    near = exact < 1.9
    np.testing.assert_allclose(angles[near], exact[near], atol=1e-6)
    assert angles[0, 1] == 0
    np.testing.assert_allclose(
        exact[0, 2:] / (3 if measure in SUMS else 1), _snapped(np.geomspace(1e-5, 50, 60)), atol=1e-6
    )


def _snapped(angles: np.ndarray) -> np.ndarray:
    return np.where(angles < 1e-4, 0, angles)


def test_patches_cover_what_is_near_and_join_what_is_connected() -> None:
    near = np.zeros((4, 5), bool)
    near[[0, 0, 2, 3], [1, 2, 2, 4]] = True
    patches = [(rows.tolist(), cols.tolist()) for rows, cols in module._patches(near)]
    assert patches == [([0, 2], [1, 2]), ([3], [4])]
    assert list(module._patches(np.zeros((2, 2), bool))) == []


def test_signatures_are_not_changed() -> None:
    u = signatures(0, [3, 3])
    before = [one.copy() for one in u]
    for measure in ANGLE_MEASURES:
        principal_angles(u, measure=measure)
    np.testing.assert_array_equal(u, before)


@pytest.mark.parametrize(
    ("a", "b", "measure", "message"),
    [
        ([np.eye(3), np.eye(4)], None, "theta1", r"a\[1\] has 4 features, but a\[0\] has 3"),
        ([np.eye(3)], [np.eye(3), np.eye(2)], "theta1", r"b\[1\] has 2 features, but b\[0\] has 3"),
        ([np.eye(3)], [np.eye(2)], "theta1", r"b\[0\] has 2 features, but a\[0\] has 3"),
        ([np.eye(3), np.full((3, 1), np.nan)], None, "min_abs", r"a\[1\] holds NaN or infinity"),
        ([np.eye(3)], [np.full((3, 1), np.inf)], "trace", r"b\[0\] holds NaN or infinity"),
        ([np.ones(3)], None, "theta1", r"a\[0\] should have the shape \(features, vectors\), but has \(3,\)"),
        ([np.eye(3)], None, "cosine", "measure = 'cosine' is not one of min_entry, min_abs, theta1, trace, sum_angles"),
    ],
)
def test_bad_input_is_refused(a: list[np.ndarray], b: list[np.ndarray] | None, measure: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        principal_angles(a, b, measure)


def test_blocks_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="block = 0"):
        principal_angles([np.eye(2)], block=0)

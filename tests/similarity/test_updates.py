"""Cosines, EDC and MADC against explicit decompositions and brute force (ALGORITHMS 4, 12.8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.similarity import cosine_features, edc, gradient_diversity, madc, update_cosines
from coterie.similarity import updates as module

sizes = st.tuples(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 12), st.integers(1, 6))


def rows(seed: int, n: int, d: int, zeros: tuple[int, ...] = ()) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, d)) * np.geomspace(0.1, 10, n)[:, None]
    x[list(zeros)] = 0
    return x


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / length) if length > 0 else 0.0


@given(sizes)
def test_cosines_pair_by_pair(size: tuple[int, int, int, int]) -> None:
    seed, n, d, k = size
    x, y = rows(seed, n, d), rows(seed + 1, k, d)
    cosines = update_cosines(x)
    np.testing.assert_allclose(cosines, [[cosine(a, b) for b in x] for a in x], atol=1e-12)
    np.testing.assert_array_equal(cosines, cosines.T)
    np.testing.assert_array_equal(np.diagonal(cosines), 1)
    np.testing.assert_allclose(update_cosines(x, y), [[cosine(a, b) for b in y] for a in x], atol=1e-12)


def test_zero_updates_have_a_cosine_of_0_with_all_but_themselves() -> None:
    x = rows(0, 4, 5, zeros=(1, 3))
    cosines = update_cosines(x)
    np.testing.assert_array_equal(cosines[[1, 3]], np.eye(4)[[1, 3]])
    np.testing.assert_array_equal(update_cosines(x, x)[1], 0)


def test_columns_some_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(0, 5, 103).astype(np.float32), rows(1, 3, 103).astype(np.float32)
    whole, cross = update_cosines(x), update_cosines(x, y)
    monkeypatch.setattr(module, "AT_ONCE", 50)
    np.testing.assert_allclose(update_cosines(x), whole, atol=1e-14)
    np.testing.assert_allclose(update_cosines(x, y), cross, atol=1e-14)


@given(sizes)
def test_features_are_the_cosines_with_the_singular_vectors(size: tuple[int, int, int, int]) -> None:
    seed, n, d, m = size
    x = rows(seed, n, d)
    v = np.linalg.svd(x, full_matrices=False)[2][:m]
    features = cosine_features(x, m)
    assert features.shape == (n, m)
    expected = np.array([[cosine(row, direction) for direction in v] for row in x])
    np.testing.assert_allclose(np.abs(features[:, : len(v)]), np.abs(expected), atol=1e-6)
    np.testing.assert_array_equal(features[:, len(v) :], 0)
    distances = np.array([[np.linalg.norm(a - b) / m for b in expected] for a in expected])
    np.testing.assert_allclose(edc(x, m), distances, atol=1e-6)


def test_zero_updates_are_no_part_of_the_decomposition() -> None:
    x = rows(0, 6, 20, zeros=(2, 4))
    some = [0, 1, 3, 5]
    np.testing.assert_allclose(cosine_features(x, 3)[some], cosine_features(x[some], 3), atol=1e-9)
    np.testing.assert_array_equal(cosine_features(x, 3)[[2, 4]], 0)
    np.testing.assert_array_equal(cosine_features(np.zeros((3, 4)), 2), 0)
    np.testing.assert_array_equal(edc(np.zeros((3, 4)), 2), 0)


def test_parallel_updates_have_one_direction() -> None:
    x = np.outer([1.0, 2.0, -3.0], np.arange(1, 8))
    np.testing.assert_allclose(cosine_features(x, 3), [[-1, 0, 0], [-1, 0, 0], [1, 0, 0]], atol=1e-7)
    assert edc(x, 3)[0, 1] == pytest.approx(0, abs=1e-7)
    assert edc(x, 3)[0, 2] == pytest.approx(2 / 3)


@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(1, 6), st.booleans())
def test_madc_by_three_loops(seed: int, n: int, d: int, zero: bool) -> None:
    x = rows(seed, n, d, zeros=(0,) if zero else ())
    s = update_cosines(x)
    expected = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for z in range(n):
                if z not in (i, j) and i != j:
                    expected[i, j] += abs(s[i, z] - s[j, z]) / (n - 2)
    result = madc(x)
    np.testing.assert_allclose(result, expected, atol=1e-12)
    np.testing.assert_array_equal(result, result.T)
    np.testing.assert_array_equal(np.diagonal(result), 0)


def test_madc_of_two_and_fewer() -> None:
    np.testing.assert_allclose(madc([[1.0, 0.0], [1.0, 1.0]]), (1 - np.sqrt(0.5)) * (1 - np.eye(2)))
    np.testing.assert_array_equal(madc([[1.0, 0.0]]), [[0]])
    assert madc(np.zeros((0, 3))).shape == (0, 0)
    assert edc(np.zeros((0, 3)), 2).shape == (0, 0)
    np.testing.assert_array_equal(edc([[1.0, 0.0]], 2), [[0]])


def test_bad_input_is_refused() -> None:
    good, bad = np.ones((3, 4)), np.ones((3, 4))
    bad[2, 1] = np.nan
    for function in (update_cosines, madc, lambda x: edc(x, 2), lambda x: cosine_features(x, 2)):
        with pytest.raises(ValueError, match=r"updates\[2\] holds NaN"):
            function(bad)
        with pytest.raises(ValueError, match=r"\(clients, entries\)"):
            function(good[0])
    with pytest.raises(ValueError, match=r"others\[2\] holds NaN"):
        update_cosines(good, bad)
    with pytest.raises(ValueError, match="4 entries, but others have 3"):
        update_cosines(good, good[:, :3])
    with pytest.raises(ValueError, match="m = 0"):
        cosine_features(good, 0)
    with pytest.raises(ValueError, match=r"updates\[0\] holds NaN, infinity"):
        update_cosines(good * 1e200)


def test_weighted_gradient_diversity_is_its_equation() -> None:
    """PACFL, supplement, Eq. 4: Σ‖g_k‖² / (|C| ‖Σ g_k‖²)."""
    g = np.random.default_rng(0).normal(size=(7, 40))
    squares = sum(float(row @ row) for row in g)
    whole = sum(float(sum(row[j] for row in g)) ** 2 for j in range(40))
    assert gradient_diversity(g) == pytest.approx(squares / (7 * whole))
    assert gradient_diversity(g) > gradient_diversity(np.tile(g[:1], (7, 1)))
    assert gradient_diversity(np.tile(g[:1], (7, 1))) == pytest.approx(1 / 49)
    assert gradient_diversity([[1.0, -2.0], [-1.0, 2.0]]) == np.inf
    with pytest.raises(ValueError, match=r"gradients\[1\] holds NaN"):
        gradient_diversity([[1.0, 2.0], [np.nan, 0.0]])

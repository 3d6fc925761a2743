"""Signatures against the singular value decomposition, and the invariances that ALGORITHMS 2 and 12.4 ask for."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from coterie.similarity import signature, signatures


def samples(seed: int, n: int, features: int, decay: float = 0.6) -> np.ndarray:
    """Random samples in rows, with singular values 10, 10·decay, 10·decay², …: well apart."""
    rng = np.random.default_rng(seed)
    rank = min(n, features)
    left = np.linalg.qr(rng.normal(size=(n, rank)))[0]
    right = np.linalg.qr(rng.normal(size=(features, rank)))[0]
    return left @ np.diag(10 * decay ** np.arange(rank)) @ right.T


def oracle(x: np.ndarray, p: int) -> np.ndarray:
    """The first p left singular vectors of the matrix with samples in columns, largest entry positive."""
    u = scipy.linalg.svd(x.T, full_matrices=False)[0][:, :p]
    for column in u.T:
        if column[np.abs(column).argmax()] < 0:
            column *= -1
    return u


def assert_same_up_to_sign(a: np.ndarray, b: np.ndarray, atol: float) -> None:
    """Compare column by column; of entries nearly as large as the largest, rounding decides which gives the sign."""
    assert a.shape == b.shape
    signs = np.sign((a * b).sum(axis=0))
    np.testing.assert_allclose(a * signs, b, atol=atol)


sizes = st.tuples(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 25), st.integers(1, 6))


@given(sizes)
def test_the_vectors_of_the_singular_value_decomposition(size: tuple[int, int, int, int]) -> None:
    seed, n, features, p = size
    x = samples(seed, n, features)
    u = signature(x, p)
    assert u.shape == (features, min(n, features, p))
    assert_same_up_to_sign(u, oracle(x, p), atol=1e-8)


@pytest.mark.integration
@pytest.mark.parametrize(("n", "features"), [(7, 40), (40, 7), (12, 12), (60, 3072)])
def test_more_features_than_samples_and_fewer(n: int, features: int) -> None:
    x = np.random.default_rng(n).integers(0, 256, (n, features), dtype=np.uint8)  # pixels
    u = signature(x, 3)
    np.testing.assert_allclose(u, oracle(x.astype(np.float64), 3), atol=1e-8)
    assert u.dtype == np.float64


@given(sizes)
def test_columns_are_orthonormal(size: tuple[int, int, int, int]) -> None:
    seed, n, features, p = size
    u = signature(np.random.default_rng(seed).normal(size=(n, features)), p)
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-9)


@pytest.mark.integration
@given(
    npst.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(-3, 3)),
    st.integers(1, 6),
)
def test_any_samples_give_as_many_orthonormal_vectors_as_they_span(x: np.ndarray, p: int) -> None:
    """Small whole numbers make rank deficiencies, repeated samples and equal singular values common."""
    u = signature(x, p)
    values = np.linalg.svd(x, compute_uv=False)
    rank = int((values > 1e-6 * max(values[0], 1e-300)).sum()) if values[0] > 0 else 0
    assert u.shape == (x.shape[1], min(p, rank))
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-9)
    # they catch as much of the samples as p directions can, and in falling order
    caught = np.linalg.norm(x @ u, axis=0)
    np.testing.assert_allclose(caught, values[: u.shape[1]], atol=1e-7)


@given(sizes, st.floats(1e-3, 1e3))
def test_scale_does_not_matter(size: tuple[int, int, int, int], scale: float) -> None:
    seed, n, features, p = size
    x = samples(seed, n, features)
    assert_same_up_to_sign(signature(scale * x, p), signature(x, p), atol=1e-8)


def test_bytes_and_shades_from_0_to_1_are_alike() -> None:
    x = np.random.default_rng(0).integers(0, 256, (30, 64), dtype=np.uint8)
    np.testing.assert_allclose(signature(x), signature(x.astype(np.float32) / 255), atol=1e-5)


@given(sizes)
def test_the_order_of_samples_does_not_matter(size: tuple[int, int, int, int]) -> None:
    seed, n, features, p = size
    x = samples(seed, n, features)
    shuffled = x[np.random.default_rng(seed).permutation(n)]
    assert_same_up_to_sign(signature(shuffled, p), signature(x, p), atol=1e-8)


def test_the_order_of_samples_does_not_matter_within_labels() -> None:
    x, y = samples(3, 30, 12), np.arange(30) % 4
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(signature(x[order], 2, y[order]), signature(x, 2, y), atol=1e-8)


def test_samples_are_not_centred() -> None:
    """All samples alike but for a little: the first vector is their common direction, not where they differ."""
    direction = np.array([3.0, 4.0, 0.0]) / 5
    x = 100 * direction + 1e-3 * np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(signature(x, 1)[:, 0], direction, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_fewer_samples_than_vectors(n: int) -> None:
    x = samples(0, n, 30)
    u = signature(x, 5)
    assert u.shape == (30, n)
    np.testing.assert_allclose(u @ (u.T @ x.T), x.T, atol=1e-9)  # they span the samples


def test_one_sample_is_its_own_direction() -> None:
    x = np.array([[0.0, -3.0, 4.0]])
    np.testing.assert_allclose(signature(x, 3), np.array([[0.0, -0.6, 0.8]]).T, atol=1e-12)
    np.testing.assert_allclose(signature(-x, 3), np.array([[0.0, -0.6, 0.8]]).T, atol=1e-12)


def test_one_sample_many_times_is_one_direction() -> None:
    assert signature(np.tile([[1.0, 2.0, 2.0]], (50, 1)), 3).shape == (3, 1)
    assert signature(np.tile(np.arange(1.0, 41.0), (5, 1)), 3).shape == (40, 1)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (1, 3), (3, 1)])
def test_black_samples_have_no_direction(shape: tuple[int, int]) -> None:
    assert signature(np.zeros(shape), 3).shape == (shape[1], 0)


def test_black_samples_among_others_add_nothing() -> None:
    x = samples(5, 6, 20)
    np.testing.assert_allclose(signature(np.vstack([x, np.zeros((3, 20))]), 3), signature(x, 3), atol=1e-8)


@pytest.mark.parametrize("labels", [None, []])
def test_no_samples_have_no_direction(labels: list[int] | None) -> None:
    assert signature(np.zeros((0, 7)), 3, labels).shape == (7, 0)


def test_images_are_taken_as_long_vectors() -> None:
    x = np.random.default_rng(2).random((6, 1, 4, 5))
    np.testing.assert_array_equal(signature(x, 2), signature(x.reshape(6, 20), 2))


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(2, 20), st.integers(1, 4), st.integers(1, 5))
def test_labels_stand_side_by_side_in_increasing_order(seed: int, n: int, features: int, p: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, features)), rng.integers(labels, size=n) * 7
    expected = np.hstack([oracle(x[y == label], p) for label in sorted(set(y.tolist()))])
    assert_same_up_to_sign(signature(x, p, y), expected, atol=1e-6)


def test_a_label_with_few_or_black_samples_has_few_vectors() -> None:
    x = np.vstack([samples(0, 5, 8), [[0, 0, 2, 0, 0, 0, 0, 0]], np.zeros((4, 8)), samples(1, 2, 8)])
    y = np.array([4] * 5 + [1] + [0] * 4 + [2] * 2)
    u = signature(x, 3, y)
    assert u.shape == (8, 0 + 1 + 2 + 3)  # labels 0, 1, 2, 4
    np.testing.assert_allclose(u[:, 0], np.eye(8)[2], atol=1e-12)
    np.testing.assert_allclose(u[:, 1:3], oracle(x[y == 2], 3), atol=1e-9)
    np.testing.assert_allclose(u[:, 3:], oracle(x[y == 4], 3), atol=1e-9)


@given(sizes)
def test_the_entry_of_largest_magnitude_is_positive(size: tuple[int, int, int, int]) -> None:
    seed, n, features, p = size
    u = signature(np.random.default_rng(seed).normal(size=(n, features)), p)
    assert np.all(np.take_along_axis(u, np.abs(u).argmax(axis=0)[None], axis=0) > 0)


def test_the_sign_does_not_follow_that_of_the_samples() -> None:
    x = samples(9, 10, 6)
    np.testing.assert_allclose(signature(-x, 3), signature(x, 3), atol=1e-9)


def test_samples_are_not_changed() -> None:
    x = np.random.default_rng(0).normal(size=(5, 9))
    before = x.copy()
    signature(x, 3, np.array([0, 0, 1, 1, 1]))
    np.testing.assert_array_equal(x, before)


def test_many_samples_are_read_some_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).integers(0, 256, (103, 20), dtype=np.uint8)
    monkeypatch.setattr("coterie.similarity.signatures.AT_ONCE", 10)
    np.testing.assert_allclose(signature(x, 3), oracle(x.astype(np.float64), 3), atol=1e-8)


@pytest.mark.parametrize("n", [4, 60])
def test_directions_of_very_different_weight_are_orthogonal_too(n: int) -> None:
    """Singular values of 10, 1e-3, 1e-4: the small ones come from Gram matrices with few digits to spare."""
    u = signature(samples(2, n, 80, decay=1e-4) if n == 4 else samples(2, 3, 80, decay=1e-2), 3)
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-12)


def test_bad_input_is_refused() -> None:
    x = np.ones((4, 6))
    x[2, 3] = np.nan
    for bad in (x, np.full((9, 3), np.inf)):
        with pytest.raises(ValueError, match="the samples hold NaN or infinity"):
            signature(bad)
    with pytest.raises(ValueError, match="4 samples, but 3 labels"):
        signature(x, 3, [0, 0, 1])
    with pytest.raises(ValueError, match="p = 0"):
        signature(x, 0)


@pytest.mark.parametrize("case", ["decaying", "rank 2", "black", "flat"])
def test_wide_samples_are_the_same_without_a_gram_matrix(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """More samples than features, and many of these; where no vectors stand out, by the Gram matrix after all."""
    rng = np.random.default_rng(0)
    scale = {
        "decaying": np.arange(1, 41) ** -1.5,
        "rank 2": np.array([1, 0.5] + [0] * 38),
        "black": np.zeros(40),
        "flat": 1 - 0.001 * np.arange(40),
    }[case]
    left, right = (np.linalg.qr(rng.normal(size=(n, 40)))[0] for n in (90, 40))
    x = left * scale @ right
    usual = signature(x, 3)
    monkeypatch.setattr(signatures, "WIDE", 20)
    monkeypatch.setattr(signatures, "AT_ONCE", 32)
    iterated = []
    plain = signatures._by_iteration
    monkeypatch.setattr(signatures, "_by_iteration", lambda *a: iterated.append(plain(*a)) or iterated[-1])
    found = signature(x, 3)
    assert found.shape == usual.shape
    np.testing.assert_allclose(found, usual, atol=1e-8)
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-12)
    assert (iterated[0] is None) == (case == "flat")
    with pytest.raises(ValueError, match="NaN or infinity"):
        signature(np.where(x == x[3, 4], np.nan, x), 3)

"""CFL's split against scikit-learn's agglomerative clustering, and its criterion by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering

from coterie.clustering import bipartition, canonical, should_split, update_norms


def cosines(updates: np.ndarray) -> np.ndarray:
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


@pytest.mark.integration
@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), single=st.booleans())
def test_as_scikit_learn_splits(seed: int, n: int, single: bool) -> None:
    """On −cosine, as the public code does, and in float32, whose cosines exceed 1."""
    updates = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32 if single else np.float64)
    similarity = cosines(updates)
    left, right = bipartition(similarity)
    expected = canonical(AgglomerativeClustering(2, metric="precomputed", linkage="complete").fit_predict(-similarity))
    np.testing.assert_array_equal(left, np.flatnonzero(expected == 0))
    np.testing.assert_array_equal(right, np.flatnonzero(expected == 1))


@pytest.mark.integration
@given(seed=st.integers(0, 10**6), n=st.integers(2, 12))
def test_two_opposite_directions_come_apart(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    side = rng.permutation(np.arange(n) % 2)
    updates = np.where(side[:, None] == side[0], 1, -1) * np.array([1.0, 2, 3]) + rng.normal(0, 0.1, (n, 3))
    left, right = bipartition(cosines(updates))
    np.testing.assert_array_equal(left, np.flatnonzero(side == side[0]))
    np.testing.assert_array_equal(right, np.flatnonzero(side != side[0]))


@pytest.mark.parametrize("similarity", [np.eye(5), np.ones((5, 5)), np.ones((2, 2))], ids=["zero", "equal", "two"])
def test_there_are_always_two_sides(similarity: np.ndarray) -> None:
    """Also for updates that are all zero (cosine 0 but with themselves) or all equal."""
    left, right = bipartition(similarity)
    assert left[0] == 0
    assert len(right) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate([left, right])), np.arange(len(similarity)))


@pytest.mark.parametrize(
    ("similarity", "says"),
    [
        (np.ones((1, 1)), "at least two clients, got 1"),
        (np.zeros((0, 0)), "at least two clients, got 0"),
        (np.array([[1, 3], [3, 1]]), "between −1 and 1, got 1 to 3"),
        (np.array([[1, np.nan], [np.nan, 1]]), "nan"),
    ],
)
def test_what_cannot_be_split(similarity: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bipartition(similarity)


def test_the_criterion() -> None:
    opposite = np.array([[2.0, 0], [-2, 0], [2, 0], [-2, 0]])
    assert update_norms(opposite) == (0.0, 2.0)
    assert should_split(opposite)
    assert not should_split(opposite * 0.5), "nobody moves far"
    drifting = opposite + np.array([0.5, 0])
    assert not should_split(drifting), "they still move together"
    assert should_split(drifting, eps1=0.6)
    assert not should_split(opposite, eps2=2.0), "strictly above"
    assert not should_split(opposite[:2]), "two are too few"
    assert not should_split(np.zeros((0, 2)))
    assert not should_split(np.zeros((5, 3)), eps1=0.0), "strictly below"


@given(seed=st.integers(0, 10**6), n=st.integers(1, 10))
def test_norms(seed: int, n: int) -> None:
    updates = np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)
    mean_norm, max_norm = update_norms(updates)
    assert mean_norm == pytest.approx(np.linalg.norm(updates.mean(axis=0)), rel=1e-5)
    assert max_norm == pytest.approx(max(np.linalg.norm(u) for u in updates), rel=1e-5)
    assert mean_norm <= max_norm * (1 + 1e-12)


def test_updates_that_are_not_numbers() -> None:
    with pytest.raises(ValueError, match="client 1 is not finite"):
        should_split([[1.0], [np.nan], [2.0]])
    with pytest.raises(ValueError, match="at least one client"):
        update_norms(np.zeros((0, 3)))

"""FLIS-DC's groups: one around each client, overlapping (ALGORITHMS 3 and 12.7)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.clustering import row_groups


@given(seed=st.integers(0, 10**6), n=st.integers(0, 12), threshold=st.floats(-0.5, 1.5))
def test_row_by_row(seed: int, n: int, threshold: float) -> None:
    a = np.random.default_rng(seed).random((n, n)).round(1)  # need not be symmetric
    members = row_groups(a, threshold)
    for i in range(n):
        assert set(np.flatnonzero(members[i])) == {j for j in range(n) if a[i, j] >= threshold or i == j}


def test_at_0_everyone_and_above_1_oneself() -> None:
    a = np.array([[1, 0.0, 1], [0, 1, 0.3], [1, 0.3, 1]])
    assert row_groups(a, 0).all()
    np.testing.assert_array_equal(row_groups(a, 1.01), np.eye(3))
    np.testing.assert_array_equal(row_groups(a, 0.3)[1], [False, True, True])  # equal is enough
    np.testing.assert_array_equal(a.diagonal(), 1)


@pytest.mark.parametrize(("similarity", "n"), [([], 0), (np.zeros((0, 0)), 0), ([[0.0]], 1)])
def test_few_clients(similarity: np.ndarray, n: int) -> None:
    np.testing.assert_array_equal(row_groups(similarity, 0.5), np.eye(n))


@pytest.mark.parametrize(("similarity", "says"), [(np.ones((2, 3)), "square"), ([[1, np.nan], [0, 1]], "nan")])
def test_what_is_no_similarity_is_refused(similarity: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        row_groups(similarity, 0.5)
    with pytest.raises(ValueError, match="nan"):
        row_groups(np.eye(2), np.nan)

"""The total variation of labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.similarity import label_total_variation


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 5))
def test_label_total_variation(seed: int, clients: int, classes: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 9, (clients, classes))
    counts[0] = 0
    found = label_total_variation(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i in range(clients):
        for j in range(clients):
            empty = [counts[i].sum() == 0, counts[j].sum() == 0]
            plain = max(sum(max(a - b, 0) for a, b in zip(*pair, strict=True)) for pair in [(shares[i], shares[j])])
            assert found[i, j] == pytest.approx(0.0 if all(empty) else 1.0 if any(empty) else plain)


def test_label_total_variation_refuses_what_are_no_counts() -> None:
    for wrong in ([1, 2], [[1, -1]], [[1, np.nan]]):
        with pytest.raises(ValueError, match="counts should"):
            label_total_variation(wrong)

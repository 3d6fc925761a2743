"""Secret randomness has the distributions it says, and no two keys or draws share numbers."""

import numpy as np
import pytest
from scipy.stats import kstest

from coterie.privacy import SecretRandomness, derived_key

KEY = bytes(range(32))


def test_distributions() -> None:
    source = SecretRandomness(KEY)
    assert kstest(source.random(20_000), "uniform").pvalue > 0.001
    normal = source.standard_normal(20_001)
    assert len(normal) == 20_001
    assert kstest(normal, "norm").pvalue > 0.001
    assert abs(np.corrcoef(normal[:10_000], normal[10_001:])[0, 1]) < 0.04  # what one pair of numbers was made into


def test_a_key_gives_its_numbers_and_no_draw_those_of_another() -> None:
    one, same = SecretRandomness(KEY), SecretRandomness(KEY)
    first, second = one.random(50), one.random(50)
    assert np.array_equal(first, same.random(50))
    assert not np.intersect1d(first, second).size
    assert not np.intersect1d(first, SecretRandomness(KEY[::-1]).random(50)).size


def test_keys_of_different_parts_differ() -> None:
    assert derived_key(KEY, b"ab", b"c") != derived_key(KEY, b"a", b"bc")
    assert derived_key(KEY, b"ab") != derived_key(KEY[::-1], b"ab")
    with pytest.raises(ValueError, match="at least 16"):
        SecretRandomness(b"short")

"""Fixed-point sums: exact, within half a step of each summand, and never overflowing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.secure.words import Words, decode, encode

DTYPES = (np.uint32, np.uint64)
numbers = st.floats(-50, 50)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=9), st.sampled_from(DTYPES))
def test_a_sum_is_within_half_a_step_of_each(rows: list[list[float]], dtype: type) -> None:
    n, bound = len(rows), 20.0
    words = [encode(np.array(row), bound, n, dtype) for row in rows]
    total = np.zeros(3, dtype)
    for word in words:
        total += word
    step = bound / (2 ** (8 * np.dtype(dtype).itemsize - 2) // n)
    expected = np.clip(np.array(rows), -bound, bound).sum(axis=0)
    assert np.abs(decode(total, bound, n) - expected).max() <= n * step / 2 + 1e-12
    integers = sum(int(w) for w in np.stack(words).view(f"i{np.dtype(dtype).itemsize}")[:, 0])
    assert integers == int(total.view(f"i{np.dtype(dtype).itemsize}")[0])  # nothing has wrapped


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 999])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sum_does_not_overflow(dtype: type, n: int, sign: int) -> None:
    word = encode(np.array([sign * np.inf]), 3.0, n, dtype)
    total = np.zeros(1, dtype)
    for _ in range(n):
        total += word
    assert decode(total, 3.0, n) == pytest.approx([sign * 3.0 * n])


def test_what_can_not_be_encoded() -> None:
    with pytest.raises(ValueError, match="a number that is none"):
        encode(np.array([np.nan]), 1.0, 2, np.uint32)
    with pytest.raises(ValueError, match="smaller groups"):
        encode(np.zeros(1), 1.0, 2**21, np.uint32)


def test_as_flowers_quantisation() -> None:
    """Of as many levels, decoded means of both are within a step of each other."""
    flower = pytest.importorskip("flwr.common.secure_aggregation.quantization")
    rng, n, bound = np.random.default_rng(0), 4, 8.0
    rows, levels = rng.uniform(-10, 10, (n, 50)), 2**22
    theirs = sum(np.asarray(flower.quantize([row], bound, levels)[0], np.int64) for row in rows)
    mean = flower.dequantize([np.asarray(theirs / n)], bound, levels)[0]
    ours = np.zeros(50, np.uint32)
    for row in rows:
        ours += encode(row, bound, n, np.uint32)
    assert np.abs(decode(ours, bound, n) / n - mean).max() <= 2 * bound / levels


def test_words_are_added_and_taken_away_modulo() -> None:
    words = Words(np.array([2**64 - 1], np.uint64), np.array([0], np.uint32))
    words.add(Words(np.array([2], np.uint64), np.array([5], np.uint32)))
    words.add(Words(np.array([0], np.uint64), np.array([6], np.uint32)), -1)
    assert (words.wide.tolist(), words.narrow.tolist()) == ([1], [2**32 - 1])

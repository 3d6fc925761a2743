"""Pool sizes against the formulas of ALGORITHMS 6, in decimal arithmetic of 60 digits; oracle 10 of ALGORITHMS 12."""

import math
from decimal import Decimal, localcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.messages import Curriculum
from coterie.messages.plan import Pacing
from coterie.training import pool_size

PACINGS: tuple[Pacing, ...] = ("exponential", "step", "root", "linear", "quadratic")
hundredths = st.integers(0, 100).map(lambda k: k / 100)


def exact(pacing: str, samples: int, a: float, b: float, t: int, total: int) -> Decimal:
    """g(t) before clipping and rounding, with a and b the decimal numbers that were written."""
    with localcontext() as context:
        context.prec = 60
        N, A, B, T = Decimal(samples), Decimal(str(a)), Decimal(str(b)), Decimal(total)
        if t >= A * T:
            return N
        share = Decimal(t) / (A * T)
        if pacing == "exponential":
            return N * B + N * (1 - B) * ((10 * share).exp() - 1) / (Decimal(10).exp() - 1)
        if pacing == "step":
            return N * B + N * math.floor(share)
        if pacing == "root":
            return N * B + N * (1 - B) * share.sqrt()
        if pacing == "linear":
            return N * B + N * (1 - B) * share
        return N * B + N * (1 - B) * share * share


def clipped(size: Decimal, samples: int, batch_size: int) -> int:
    return min(samples, max(math.floor(size), min(batch_size, samples), 1))


@pytest.mark.integration
@given(
    st.sampled_from(PACINGS), st.integers(1, 400), st.integers(1, 20), st.integers(1, 200), hundredths, hundredths,
    st.data(),
)  # fmt: skip
@settings(max_examples=150)
def test_the_five_pacings(
    pacing: Pacing, samples: int, batch_size: int, total: int, a: float, b: float, data: st.DataObject
) -> None:
    t = data.draw(st.integers(0, total - 1).filter(lambda t: t != Decimal(str(a)) * total), "t")
    size = exact(pacing, samples, a, b, t, total)
    near = Decimal("1e-9")  # rounding of floats may fall on either side of a whole number
    allowed = {clipped(size - near, samples, batch_size), clipped(size + near, samples, batch_size)}
    assert pool_size(Curriculum(pacing=pacing, a=a, b=b), t, total, samples, batch_size) in allowed


def test_by_hand() -> None:
    def sizes(pacing: Pacing) -> list[int]:
        return [pool_size(Curriculum(pacing=pacing, a=0.8, b=0.2), t, 10, 1000, 10) for t in range(10)]

    assert sizes("linear") == [200, 300, 400, 500, 600, 700, 800, 900, 1000, 1000]
    assert sizes("quadratic") == [200, 212, 250, 312, 400, 512, 650, 812, 1000, 1000]
    assert sizes("root") == [200, 482, 600, 689, 765, 832, 892, 948, 1000, 1000]
    assert sizes("step") == [200] * 8 + [1000, 1000]
    assert sizes("exponential") == [200, 200, 200, 201, 205, 218, 265, 429, 1000, 1000]


@pytest.mark.parametrize("pacing", PACINGS)
@given(st.integers(1, 500), st.integers(1, 200), hundredths, st.integers(1, 100).map(lambda k: k / 100))
def test_the_first_pool_is_the_share_b(pacing: Pacing, samples: int, total: int, b: float, a: float) -> None:
    """g(0) = N·b, whatever the pacing; batches of one sample keep clipping out of it, but for the last sample."""
    expected = max(1, math.floor(samples * Decimal(str(b))))
    assert pool_size(Curriculum(pacing=pacing, a=a, b=b), 0, total, samples, 1) == expected


def test_a_whole_share_is_not_rounded_down() -> None:
    """In floats 100 · 0.29 is 28.999…; the pool has 29 samples."""
    for percent in range(1, 101):
        assert pool_size(Curriculum(a=0.8, b=percent / 100), 0, 10, 100, 1) == percent


@pytest.mark.parametrize("pacing", PACINGS)
@given(st.integers(1, 500), st.integers(1, 200), hundredths, hundredths)
def test_from_a_on_the_pool_is_everything(pacing: Pacing, samples: int, total: int, a: float, b: float) -> None:
    first = math.ceil(Decimal(str(a)) * total)  # g(⌈aT⌉) = N
    for t in range(first, total):
        assert pool_size(Curriculum(pacing=pacing, a=a, b=b), t, total, samples, 10) == samples


def test_the_pool_is_everything_at_a_times_t_itself() -> None:
    """Where a·T is a whole number, its product in floats may lie above it: 0.07 · 100 is 7.000000000000001."""
    for a, total, t in ((0.07, 100, 7), (0.14, 50, 7), (0.28, 25, 7), (0.56, 25, 14)):
        sizes = {pacing: pool_size(Curriculum(pacing=pacing, a=a, b=0.2), t, total, 100, 10) for pacing in PACINGS}
        assert sizes == dict.fromkeys(PACINGS, 100)


@pytest.mark.parametrize("pacing", PACINGS)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 80), st.floats(0, 1), st.floats(0, 1))
def test_pools_never_shrink_and_stay_within_their_bounds(
    pacing: Pacing, samples: int, batch_size: int, total: int, a: float, b: float
) -> None:
    sizes = [pool_size(Curriculum(pacing=pacing, a=a, b=b), t, total, samples, batch_size) for t in range(total)]
    assert all(now <= later for now, later in pairwise(sizes))
    assert all(min(batch_size, samples) <= size <= samples for size in sizes)


@pytest.mark.parametrize("pacing", PACINGS)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 80), st.floats(0, 1))
@settings(max_examples=40)
def test_a_0_and_b_1_hide_nothing(pacing: Pacing, samples: int, batch_size: int, total: int, other: float) -> None:
    for curriculum in (Curriculum(pacing=pacing, a=0.0, b=other), Curriculum(pacing=pacing, a=other, b=1.0)):
        assert {pool_size(curriculum, t, total, samples, batch_size) for t in range(total)} == {samples}

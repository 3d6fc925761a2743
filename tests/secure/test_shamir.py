"""Shares against the arithmetic of the field, and against Lagrange's formula in fractions."""

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.secure.shamir import PRIME, combine, split, value_at_zero


def test_the_field_is_one() -> None:
    """Fermat's test to some bases; no smaller number above 2²⁵⁶ passes it."""
    assert all(pow(a, PRIME - 1, PRIME) == 1 for a in (2, 3, 5, 7, 11, 13))
    assert not any(pow(3, n - 1, n) == 1 for n in range(2**256 + 1, PRIME, 2))


@settings(max_examples=25)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 7), st.data())
def test_any_threshold_of_shares_gives_the_secret(secret: bytes, holders: int, data: st.DataObject) -> None:
    least = data.draw(st.integers(1, holders))
    shares = split(secret, holders, least)
    for who in combinations(range(holders), least):
        assert combine({holder: shares[holder] for holder in who}) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """Beside any other secret there is a polynomial through the same shares."""
    shares = split(bytes(range(32)), 5, 3)
    points = {1: int.from_bytes(shares[0], "big"), 2: int.from_bytes(shares[1], "big")}
    for other in (0, 1, 2**256 - 1):
        third = value_at_zero({x - 3: y for x, y in {**points, 0: other}.items()})  # its value at 3
        assert value_at_zero({**points, 3: third}) == other
    assert combine({0: shares[0], 1: shares[1]}) != bytes(range(32))


def test_lagrange_as_in_fractions() -> None:
    points = {1: 10, 3: 2, 4: 77}
    exact = sum(
        (y * math.prod(Fraction(o, o - x) for o in points if o != x) for x, y in points.items()), start=Fraction(0)
    )
    assert value_at_zero(points) == exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


@pytest.mark.parametrize(("secret", "holders", "least"), [(bytes(31), 3, 2), (bytes(32), 3, 4), (bytes(32), 3, 0)])
def test_what_can_not_be_shared(secret: bytes, holders: int, least: int) -> None:
    with pytest.raises(ValueError, match="holders"):
        split(secret, holders, least)

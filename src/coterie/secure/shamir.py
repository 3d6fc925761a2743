"""Shamir's secret sharing over a prime field (Shamir, 1979): any `threshold` shares give the secret, fewer nothing."""

import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**256 + 297
"""The smallest prime above all secrets of 32 bytes."""
SHARE_BYTES = 33


def split(secret: bytes, holders: int, threshold: int) -> list[bytes]:
    """Divide 32 bytes among holders; the share of holder h is that at the point h + 1.

    >>> shares = split(bytes(range(32)), 5, 3)
    >>> combine({4: shares[4], 0: shares[0], 2: shares[2]}) == bytes(range(32))
    True
    """
    if len(secret) != 32 or not 1 <= threshold <= holders:
        raise ValueError(f"{len(secret)} bytes for {holders} holders, {threshold} of whom restore them")
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [value_at(coefficients, holder + 1).to_bytes(SHARE_BYTES, "big") for holder in range(holders)]


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret of which some holders give their shares; of too few, or of wrong ones, other bytes."""
    points = {holder + 1: int.from_bytes(share, "big") for holder, share in shares.items()}
    return (value_at_zero(points) % 2**256).to_bytes(32, "big")


def value_at(coefficients: Sequence[int], x: int, prime: int = PRIME) -> int:
    """Return Σ aⱼ xʲ mod p.

    >>> [value_at([1234, 166, 94], x, 1613) for x in range(1, 7)]
    [1494, 329, 965, 176, 1188, 775]
    """
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % prime
    return value


def value_at_zero(points: Mapping[int, int], prime: int = PRIME) -> int:
    """Return the value at 0 of the polynomial through points, by Lagrange's formula.

    >>> value_at_zero({2: 329, 4: 176, 5: 1188}, 1613)
    1234
    """
    total = 0
    for x, y in points.items():
        over, under = 1, 1
        for other in points:
            if other != x:
                over, under = over * other % prime, under * (other - x) % prime
        total += y * over * pow(under, -1, prime)
    return total % prime

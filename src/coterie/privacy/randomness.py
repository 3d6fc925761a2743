"""Where coins and noise come from: a secret of the client, or in a simulation a stream that anybody can draw again."""

import hashlib
import hmac
import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Randomness(Protocol):
    """What mechanisms draw from. NumPy's generators are such: right for simulations, and for nothing else."""

    def random(self, size: int) -> Floats:
        """Return numbers between 0 and below 1."""
        ...

    def standard_normal(self, size: int) -> Floats:
        """Return numbers of the normal distribution."""
        ...


class SecretRandomness:
    """Numbers by SHAKE-256 from a key: whoever does not have it can't tell them from random ones.

    Two of 53 bits make two normal ones (Box and Muller), which end at 8.6 standard deviations: that adds less than
    10⁻¹⁶ to δ for each.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError(f"a key of {len(key)} bytes can be guessed: it should have at least 16")
        self._key, self._drawn = key, 0

    def random(self, size: int) -> Floats:
        """Return numbers between 0 and below 1, multiples of 2⁻⁵³."""
        block = self._key + self._drawn.to_bytes(8, "little")
        self._drawn += 1
        bits = np.frombuffer(hashlib.shake_256(block).digest(8 * size), "<u8")
        return np.asarray((bits >> np.uint64(11)) * 2.0**-53)

    def standard_normal(self, size: int) -> Floats:
        """Return numbers of the normal distribution."""
        pairs = (size + 1) // 2
        uniform = self.random(2 * pairs)
        radius, angle = np.sqrt(-2 * np.log1p(-uniform[:pairs])), 2 * math.pi * uniform[pairs:]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def derived_key(secret: bytes, *parts: bytes) -> bytes:
    """Return HMAC-SHA-256 of parts, each with its length: no two lists of parts are taken for one another."""
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return hmac.new(secret, framed, hashlib.sha256).digest()

"""Random streams that are addressed, not consumed.

Every use of randomness names its address: the root seed, what it is for, and, where it applies, which
client and which round. The same address always gives the same stream, so neither the order in which
clients are processed, nor the number of workers, nor a resume in the middle changes any number.
"""

import zlib

import numpy as np


def stream(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """Return the random stream at an address.

    >>> a, b = stream(0, "cohort", 7), stream(0, "cohort", 7)
    >>> bool(a.integers(100) == b.integers(100))
    True
    """
    words = [seed, zlib.crc32(purpose.encode()), *address]
    small = 0 <= min(words) <= max(words) < 2**32
    # The stream of `default_rng(words)`, made sooner.
    return np.random.Generator(np.random.PCG64(np.array(words, np.uint32) if small else words))


def derived_seed(seed: int, purpose: str, *address: int) -> int:
    """Return a 63-bit seed for libraries that want a number instead of a generator."""
    return int(stream(seed, purpose, *address).integers(2**63))

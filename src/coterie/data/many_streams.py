"""The streams of many clients at once, where each is asked for a few numbers: of a million, making each takes longest.

They are those of `coterie.streams.stream`, to the last bit: NumPy's SeedSequence, PCG64 and shuffle, with each variable
an array over all clients. Where NumPy should do these in another way one day, they are made one by one.
"""

import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

from coterie.streams import stream

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
Wide = tuple[Longs, Longs]
"""Numbers of 128 bits, the high halves first."""

WORD = np.uint64(32)
LOW = np.uint64(2**32 - 1)
MULTIPLIER = (np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645))
POOL = 4
"""Words in which a SeedSequence mixes what it is given."""


def permutations(seed: int, purpose: str, clients: Index, n: int) -> Index:
    """Return for each client the numbers below n, as its own stream shuffles them, (clients, n).

    >>> permutations(3, "test part", np.array([7]), 4)[0].tolist() == stream(3, "test part", 7).permutation(4).tolist()
    True
    """
    fits = 0 <= seed < 2**32 and clients.size and 0 <= clients.min() <= clients.max() < 2**32
    if not fits or not _as_numpy_does():
        return _one_by_one(seed, purpose, clients, n)
    return _together(seed, purpose, clients, n)


def _one_by_one(seed: int, purpose: str, clients: Index, n: int) -> Index:
    made = [stream(seed, purpose, client).permutation(n) for client in clients.tolist()]
    return np.array(made, np.int64).reshape(len(clients), n)


@cache
def _as_numpy_does() -> bool:
    """Say whether the NumPy that is installed draws these numbers."""
    clients = np.arange(99)
    return np.array_equal(_together(5, "check", clients, 23), _one_by_one(5, "check", clients, 23))


def _together(seed: int, purpose: str, clients: Index, n: int) -> Index:
    words = _words(_seeds([seed, zlib.crc32(purpose.encode()), clients]), n + 8)
    made, used = np.tile(np.arange(n), (len(clients), 1)), np.zeros(len(clients), np.int64)
    everyone = np.arange(len(clients))
    for last in range(n - 1, 0, -1):
        mask, at, without = (1 << last.bit_length()) - 1, np.zeros(len(clients), np.int64), everyone
        while len(without):  # a number beyond the last is drawn again
            at[without] = drawn = words[np.minimum(used[without], len(words) - 1), without] & mask
            used[without] += 1
            without = without[(drawn > last) & (used[without] < len(words))]
        at[at > last] = 0  # of who has no words left
        made[everyone, at], made[:, last] = made[:, last], made[everyone, at]
    if (short := used >= len(words)).any():
        made[short] = _one_by_one(seed, purpose, clients[short], n)
    return made


def _words(seeds: Longs, longs: int) -> Index:
    """Return so many outputs of each PCG64, as words of 32 bits in the order in which they are used, (words, clients).

    On average a shuffle needs less than one and a half words for each number, and two at most.
    """
    state, step = _started(seeds)
    words = np.empty((2 * longs, seeds.shape[1]), np.int64)
    for k in range(longs):
        state = _stepped(state, step)
        output = _output(state)
        words[2 * k], words[2 * k + 1] = output & LOW, output >> WORD
    return words


def _seeds(words: list[int | Index]) -> Longs:
    """Return what SeedSequence makes of up to four words each, (4, clients)."""
    size = max(np.size(word) for word in words)
    given = [np.broadcast_to(np.asarray(word, np.uint32), size) for word in words]
    given += [np.zeros(size, np.uint32)] * (POOL - len(words))
    constant = 0x43B0D7E5

    def hashed(value: Words, by: int) -> Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * by % 2**32
        value = value * np.uint32(constant)
        return np.asarray(value ^ (value >> np.uint32(16)))

    pool = [hashed(word, 0x931E8875) for word in given]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                mixed = pool[target] * np.uint32(0xCA01F9DD) - hashed(pool[source], 0x931E8875) * np.uint32(0x4973F715)
                pool[target] = mixed ^ (mixed >> np.uint32(16))
    constant = 0x8B51F9DD
    made = [hashed(pool[k % POOL], 0x58F38DED).astype(np.uint64) for k in range(2 * POOL)]
    return np.stack([made[k] | made[k + 1] << WORD for k in range(0, 2 * POOL, 2)])


def _started(seeds: Longs) -> tuple[Wide, Wide]:
    """Return state and step of PCG64."""
    one, top = np.uint64(1), np.uint64(63)
    step = (seeds[2] << one | seeds[3] >> top, seeds[3] << one | one)
    return _stepped(_sum(step, (seeds[0], seeds[1])), step), step


def _stepped(state: Wide, step: Wide) -> Wide:
    (high, low), (by_high, by_low) = state, MULTIPLIER
    left, right, by_left, by_right = low >> WORD, low & LOW, by_low >> WORD, by_low & LOW
    across, other = right * by_left, left * by_right
    carried = (right * by_right >> WORD) + (across & LOW) + (other & LOW)
    above = left * by_left + (across >> WORD) + (other >> WORD) + (carried >> WORD)
    return _sum((above + high * by_low + low * by_high, low * by_low), step)


def _sum(a: Wide, b: Wide) -> Wide:
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]), low


def _output(state: Wide) -> Longs:
    """Return the two halves as one, turned by the highest bits."""
    mixed, turn = state[0] ^ state[1], state[0] >> np.uint64(58)
    return np.asarray(mixed >> turn | mixed << (np.uint64(64) - turn & np.uint64(63)))

"""Who shares secrets with whom: a regular graph over the clients of a sum, drawn from what all of them know."""

import math
from collections.abc import Sequence
from functools import lru_cache

from coterie.streams import stream


def degree(clients: int) -> int:
    """Return how many neighbours each of some clients has: up to 60 all others, of more about 10 log₂ of their number.

    >>> [degree(n) for n in (3, 60, 61, 100, 500, 1000)]
    [2, 59, 60, 68, 90, 100]
    """
    return min(clients - 1, 2 * math.ceil(5 * math.log2(max(clients, 2))))


def threshold(holders: int) -> int:
    """Return how many holders of shares restore a secret: two thirds, so always more than half.

    A server that tells one half of the holders that a client is there, and the others that it is not, gets both of its
    secrets only with the help of a third of them.
    """
    return -(-2 * holders // 3)


def neighbours(clients: Sequence[int], seed: int, round: int) -> dict[int, tuple[int, ...]]:
    """Return the neighbours of each client, in order: those next to it on a ring in random order (Harary's graph).

    Everybody can draw it, so no server chooses who holds whose shares.

    >>> neighbours([3, 5, 9], 0, 1)
    {3: (5, 9), 5: (3, 9), 9: (3, 5)}
    """
    return dict(_graph(tuple(sorted(clients)), seed, round))


@lru_cache(maxsize=4)
def _graph(members: tuple[int, ...], seed: int, round: int) -> dict[int, tuple[int, ...]]:
    """Draw it once for all clients of a process."""
    n, k = len(members), degree(len(members))
    if k == n - 1:
        return {client: tuple(other for other in members if other != client) for client in members}
    ring = [members[i] for i in stream(seed, "neighbours", round).permutation(n)]
    steps = [step for distance in range(1, k // 2 + 1) for step in (distance, -distance)]
    found = {client: tuple(sorted(ring[(i + step) % n] for step in steps)) for i, client in enumerate(ring)}
    return {client: found[client] for client in members}

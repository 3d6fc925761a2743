"""For partitions that decide on numbers first: tables of how many samples of which label each client gets.

Such a table is drawn, mended where a client got too few, and the samples are then dealt out by it.
"""

import heapq
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from coterie.data.federated import Index
from coterie.data.parts import ClientParts

Table = npt.NDArray[np.int64]
"""(clients, labels): who gets how many of which."""
Owned = npt.NDArray[np.bool_]
"""(clients, labels): who may have which."""
Shares = npt.NDArray[np.float64]

_DRAWS = 20


class TooFewError(Exception):
    """No way of sharing gives each client the minimum."""


def best_draw(draw: Callable[[], Table], minimum: int) -> Table:
    """Draw tables until one gives each client the minimum; after some draws, return the one that lacks least."""
    best = draw()
    for _ in range(_DRAWS - 1):
        if lacking(best, minimum) == 0:
            break
        best = min(best, draw(), key=lambda table: lacking(table, minimum))
    return best


def lacking(counts: Table, minimum: int) -> int:
    """Return how many samples the clients below the minimum need in all."""
    return int(np.maximum(minimum - counts.sum(axis=1), 0).sum())


def mended(counts: Table, minimum: int, allowed: Owned | None = None) -> tuple[Table, int]:
    """Move samples from the largest clients to those below the minimum; return the table and how many were moved.

    The sample that a client gets next has the label of which it lacks most to keep its label proportions,
    and comes from the largest client that has this label and can spare one. A client without samples has
    no proportions to keep: it gets the commonest label of the largest client. Where clients may not have all
    labels, a sample may have to be passed on by others. If a client still stays below the minimum, nothing
    would help: those that could pass something on hold all samples of all their labels, and have none to
    spare. `TooFewError` is raised then.
    """
    if len(counts) * minimum > counts.sum():
        raise TooFewError
    allowed = np.ones(counts.shape, bool) if allowed is None else allowed
    table, sizes = counts.copy(), counts.sum(axis=1)
    below = np.flatnonzero(sizes < minimum).tolist()
    givers = _Givers(table, sizes, minimum) if below else None
    for client in below:
        assert givers is not None
        wanted = _wanted(table, sizes, minimum, allowed[client], client, givers)
        while sizes[client] < minimum:
            moves = _direct(table[client] - wanted, allowed[client], client, givers)
            for giver, taker, label in moves or _passed_on(table, sizes > minimum, allowed, client):
                table[giver, label] -= 1
                table[taker, label] += 1
                sizes[giver] -= 1
                sizes[taker] += 1
    return table, int(np.abs(table - counts).sum()) // 2


class _Givers:
    """Who can spare a sample of a label: always the largest client, of equals the first.

    Samples only go from clients above the minimum to clients that are not above it afterwards, so who can spare none
    never will again, and sizes of the others only fall. So a heap by label is enough, in which what was written down of
    a client is looked at again when it comes to the top.
    """

    def __init__(self, table: Table, sizes: Index, minimum: int) -> None:
        self._table, self._sizes, self._minimum, self._clients = table, sizes, minimum, len(sizes)
        able = np.flatnonzero(sizes > minimum)
        owned = table[able] > 0
        self._heaps = [[self._key(client) for client in able[column].tolist()] for column in owned.T]
        for heap in self._heaps:
            heapq.heapify(heap)

    def _key(self, client: int) -> int:
        return client - int(self._sizes[client]) * self._clients

    def largest(self, label: int) -> int | None:
        """Return who gives the next sample of a label; None: nobody can."""
        heap = self._heaps[label]
        while heap:
            client = heap[0] % self._clients
            if self._sizes[client] <= self._minimum or not self._table[client, label]:
                heapq.heappop(heap)
            elif heap[0] != self._key(client):
                heapq.heapreplace(heap, self._key(client))
            else:
                return client
        return None

    def largest_of(self, labels: Owned) -> int | None:
        """Return the largest client that can spare a sample of one of some labels."""
        found = [giver for label in np.flatnonzero(labels).tolist() if (giver := self.largest(label)) is not None]
        return min(found, key=self._key, default=None)


def _wanted(table: Table, sizes: Index, minimum: int, allowed: Owned, client: int, givers: _Givers) -> Shares:
    """Return the counts, not rounded, that a client should have when it has reached the minimum."""
    if sizes[client]:
        kept: Shares = table[client] * (minimum / sizes[client])
        return kept
    largest = givers.largest_of(allowed)
    if largest is None:  # nobody can spare one, so it must be passed on
        largest = int(np.argmax(np.where((table * allowed).any(axis=1), sizes, -1)))
    wanted = np.zeros(table.shape[1])
    wanted[np.argmax(table[largest] * allowed)] = minimum
    return wanted


def _direct(beyond: Shares, allowed: Owned, client: int, givers: _Givers) -> list[tuple[int, int, int]]:
    """Return the move (giver, taker, label) of one sample to a client, if somebody can spare one.

    Labels are tried in the order of what the client has beyond what it wants.
    """
    for label in np.argsort(beyond, kind="stable").tolist():
        if allowed[label] and (giver := givers.largest(label)) is not None:
            return [(giver, client, label)]
    return []


def _passed_on(table: Table, spare: Owned, allowed: Owned, client: int) -> list[tuple[int, int, int]]:
    """Return the shortest chain of moves that ends in a sample for a client and begins with one that is spare."""
    reached: dict[int, tuple[int, int, int]] = {}
    asked = np.arange(len(table)) == client
    sought = np.zeros(table.shape[1], bool)
    queue = [client]
    for taker in queue:  # the client's neighbours, then theirs, and so on
        if spare[taker]:
            chain = [reached[taker]]
            while chain[-1][1] != client:
                chain.append(reached[chain[-1][1]])
            return chain
        for label in np.flatnonzero(allowed[taker] & ~sought):
            for giver in np.flatnonzero(~asked & (table[:, label] > 0)):
                reached[int(giver)] = int(giver), taker, int(label)
                queue.append(int(giver))
            asked |= table[:, label] > 0
        sought |= allowed[taker]
    raise TooFewError


def cut(shares: Shares, samples: int) -> Index:
    """Return how many samples each gets if shares, of sum 1 or nearly so, are laid end to end; all are given out."""
    ends = np.floor(np.cumsum(shares) * samples).astype(np.int64)
    ends[np.flatnonzero(shares)[-1] :] = samples
    return np.diff(np.minimum(ends, samples), prepend=0)


def dealt(y: Index, labels: Index, table: Table, rng: np.random.Generator) -> ClientParts:
    """Return positions per client: as many samples of each label as the table says, drawn at random."""
    clients = np.arange(len(table))
    owner = np.full(len(y), -1)
    for label, counts in zip(labels, table.T, strict=True):
        positions = rng.permutation(np.flatnonzero(y == label))
        owner[positions[: counts.sum()]] = np.repeat(clients, counts)
    return by_owner(owner, len(table))


def by_owner(owner: Index, clients: int) -> ClientParts:
    """Return positions per client, ascending, from the owner of each sample; -1 is nobody."""
    order = np.argsort(owner, kind="stable")
    return ClientParts(np.searchsorted(owner[order], np.arange(clients + 1)), order)


def moved_note(name: str, moved: int, samples: int, minimum: int) -> list[str]:
    """Say how many samples were moved, if any were."""
    if moved == 0:
        return []
    return [
        f"partition '{name}': no draw gave each client at least {minimum} samples, so {moved:,} of {samples:,} "
        "samples were moved from the largest clients to those with fewer"
    ]


def unowned_note(name: str, labels: Index, sizes: Index, table: Table) -> list[str]:
    """Say which labels nobody has, if there are any."""
    unowned = table.sum(axis=0) == 0
    if not unowned.any():
        return []
    return [
        f"partition '{name}': nobody has the labels {', '.join(map(str, labels[unowned]))}, so "
        f"{sizes[unowned].sum():,} of {sizes.sum():,} samples are not used"
    ]

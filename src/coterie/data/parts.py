"""Which samples each client has, for federations in which a list of arrays would be too much.

All are sequences of arrays of positions; an array is made when a client is looked up.
"""

from collections.abc import Iterator, Sequence, Sized
from typing import overload

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

_KEPT = 1024
"""Sets of labels whose positions `LabelParts` remembers."""


class ClientParts(Sequence[Positions]):
    """Client i has the positions between two offsets: of a given array, or else these numbers themselves.

    >>> ClientParts(np.array([0, 2, 5]))[1], ClientParts(np.array([0, 2, 3]), np.array([7, 3, 9]))[0]
    (array([2, 3, 4]), array([7, 3]))
    """

    def __init__(self, offsets: Positions, positions: Positions | None = None) -> None:
        """`offsets` has one number more than there are clients, ascending."""
        self.offsets, self.positions = offsets, positions

    @classmethod
    def of(cls, parts: Sequence[Positions]) -> "ClientParts":
        """Return parts in this form; they are copied only if they are not."""
        if isinstance(parts, cls):
            return parts
        return cls(_ends(parts), np.concatenate([*parts, np.zeros(0, np.int64)]))

    @classmethod
    def empty(cls, sizes: Positions) -> "ClientParts":
        """Return parts of these sizes, to be filled in."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return cls(offsets, np.empty(offsets[-1], np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, client: int) -> Positions: ...
    @overload
    def __getitem__(self, client: slice) -> "ClientParts": ...
    def __getitem__(self, client: int | slice) -> "Positions | ClientParts":
        if isinstance(client, slice):
            first, end, step = client.indices(len(self))
            if step != 1:
                return ClientParts.of([self[i] for i in range(first, end, step)])
            return ClientParts(self.offsets[first : max(first, end) + 1], self.positions)
        place = range(len(self))[client]
        first, end = self.offsets[place], self.offsets[place + 1]
        return np.arange(first, end) if self.positions is None else self.positions[first:end]

    def __iter__(self) -> Iterator[Positions]:
        return map(self.__getitem__, range(len(self)))

    @property
    def sizes(self) -> Positions:
        """Samples of each client."""
        return np.diff(self.offsets)

    @property
    def together(self) -> Positions:
        """The positions of all clients, one client after the other."""
        first, end = self.offsets[0], self.offsets[-1]
        return np.arange(first, end) if self.positions is None else self.positions[first:end]

    @property
    def owners(self) -> Positions:
        """Whose each of the positions `together` is."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def moved(self, by: int) -> "ClientParts":
        """Return parts that lie so many positions further on."""
        if self.positions is None:
            return ClientParts(self.offsets + by)
        return ClientParts(self.offsets, self.positions + by)


class LabelParts(Sequence[Positions]):
    """Client i has all samples of its labels, in a list of samples that is sorted by label.

    >>> LabelParts(np.array([0, 2, 3, 5]), np.array([[True, False, True]]))[0]
    array([0, 1, 3, 4])
    """

    def __init__(self, offsets: Positions, owned: npt.NDArray[np.bool_], first: Positions | None = None) -> None:
        """`offsets` says where labels begin, and the last one ends; `owned` who has which, (clients, labels).

        `first` is where each client's list begins; None: there is one list, which begins at 0.
        """
        self.offsets, self.owned, self.first = offsets, owned, first
        self._made: dict[bytes, Positions] = {}  # clients with the same labels share one array

    def __len__(self) -> int:
        return len(self.owned)

    @overload
    def __getitem__(self, client: int) -> Positions: ...
    @overload
    def __getitem__(self, client: slice) -> list[Positions]: ...
    def __getitem__(self, client: int | slice) -> Positions | list[Positions]:
        if isinstance(client, slice):
            return [self[place] for place in range(len(self))[client]]
        place = range(len(self))[client]
        first = 0 if self.first is None else int(self.first[place])
        key = first.to_bytes(8) + np.packbits(self.owned[place]).tobytes()
        made = self._made.get(key)
        if made is None:
            starts, ends = self.offsets[:-1][self.owned[place]], self.offsets[1:][self.owned[place]]
            pieces = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
            made = np.concatenate([*pieces, np.zeros(0, np.int64)]) + first
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[key] = made
        return made

    def __iter__(self) -> Iterator[Positions]:
        return map(self.__getitem__, range(len(self)))

    @property
    def sizes(self) -> Positions:
        """Samples of each client."""
        sizes: Positions = self.owned.astype(np.int64) @ np.diff(self.offsets)
        return sizes

    def moved(self, by: Positions) -> "LabelParts":
        """Return the same labels in lists that begin so much further on, by client."""
        return LabelParts(self.offsets, self.owned, by if self.first is None else self.first + by)


def part_sizes(parts: Sequence[Positions]) -> Positions:
    """Return how many samples each client has, without looking each up where that can be spared."""
    if isinstance(parts, ClientParts | LabelParts):
        return parts.sizes
    return np.array([len(part) for part in parts], np.int64)


def ranges(parts: Sequence[Sized]) -> ClientParts:
    """Return positions of parts of these lengths that lie one after the other."""
    return ClientParts(_ends(parts))


def _ends(parts: Sequence[Sized]) -> Positions:
    sizes = parts.sizes if isinstance(parts, ClientParts | LabelParts) else np.array([*map(len, parts)], np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

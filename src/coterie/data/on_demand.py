"""Samples that are not in memory as a whole: their rows are read or made when they are looked up."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from coterie.data.parts import Positions

Rows = npt.NDArray[Any]

MEMORY = 256 * 2**20
"""Bytes of samples up to which they are held in memory."""
_BLOCK = 32 * 2**20


class LazyArray(ABC):
    """Stands where an array of samples does, and is indexed by its first axis; each look-up makes an array."""

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that it holds in memory, or will hold."""

    @abstractmethod
    def rows(self, positions: Positions) -> Rows:
        """Return the rows at positions that are there, in their order."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Rows:
        if isinstance(index, slice):
            return self.rows(np.arange(*index.indices(len(self))))
        chosen = np.asarray(index)
        if chosen.dtype.kind not in "iu":  # a mask, or a list without entries
            chosen = np.arange(len(self))[index]
        chosen = self._from_the_start(chosen)
        return self.rows(chosen) if chosen.ndim else cast(Rows, self.rows(chosen[None])[0])

    def _from_the_start(self, chosen: Positions) -> Positions:
        """Return positions that are there, counted from the first row; it takes no longer the more rows there are."""
        if not chosen.size or 0 <= chosen.min() <= chosen.max() < len(self):
            return chosen
        if not -len(self) <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"rows {chosen.min()} to {chosen.max()}, of {len(self)} that there are")
        return np.where(chosen < 0, chosen + len(self), chosen)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Rows:
        return self[:] if dtype is None else self[:].astype(dtype)

    def __eq__(self, other: object) -> Any:
        """Compare rows, as arrays do."""
        return self[:] == other

    def max(self, initial: Any) -> Any:
        """Return the largest value that there is, or `initial`."""
        return max([initial, *(block.max() for block in blocks(self.as_array()))])

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Rows]:
        return (row for block in blocks(self.as_array()) for row in block)

    def as_array(self) -> Rows:
        """Return itself, as the type that it stands for."""
        return cast(Rows, self)


class ChosenRows(LazyArray):
    """Some rows of an array in a file, in any order; none is copied until it is looked up."""

    def __init__(self, source: Rows, positions: Positions) -> None:
        super().__init__((len(positions), *source.shape[1:]), source.dtype)
        self._source, self._positions = source, positions

    @property
    def nbytes(self) -> int:
        """Those of the positions: what is read of a file is the operating system's."""
        return self._positions.nbytes

    def __getitem__(self, index: Any) -> Rows:
        return np.ascontiguousarray(self._source[self._positions[index]])

    def rows(self, positions: Positions) -> Rows:
        """Read them."""
        return self[positions]

    def chosen(self, positions: Positions) -> "ChosenRows":
        """Return some of these rows, which need not be read for that."""
        return ChosenRows(self._source, self._positions[positions])


def is_in_file(rows: Rows) -> bool:
    """Say whether an array is mapped from a file, or is a view of such an array."""
    base: Any = rows
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def choose(rows: Rows, positions: Positions) -> Rows:
    """Return rows at positions: a copy, unless they lie in a file, where they stay."""
    lazy: Any = rows
    if isinstance(lazy, ChosenRows):
        return lazy.chosen(positions).as_array()
    return ChosenRows(rows, positions).as_array() if is_in_file(rows) else rows[positions]


def blocks(rows: Rows) -> Iterator[Rows]:
    """Return all rows as arrays of some 32 MB, one after the other."""
    each = int(rows.dtype.itemsize * np.prod(rows.shape[1:], dtype=np.int64))
    step = max(1, _BLOCK // max(each, 1))
    return (np.asarray(rows[begin : begin + step]) for begin in range(0, len(rows), step))

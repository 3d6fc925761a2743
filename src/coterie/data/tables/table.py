"""A table in memory: columns by name, whatever file or object they came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError, one_line, suggestion

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

EXACT = 2**53
"""Whole numbers below this are told apart, being kept as floats."""
SHOWN = 5
"""Values that a message lists."""


@dataclass(frozen=True)
class TableColumn:
    """One column: numbers, texts, arrays, packed images, or something that is no input."""

    kind: Literal["number", "text", "array", "image", "other"]
    values: Array
    """Numbers as float64, NaN where one is missing; for a text its place in `texts`, -1 where it is missing; arrays
    (rows, ...); for images their bytes."""
    texts: tuple[str, ...] = ()
    """The different texts; true and false are texts too."""
    fractions: bool = False
    """Whether numbers are written with a decimal point, or have a type with one."""
    described: str = ""
    """What it holds, where that is no input; what is odd about a text, where all others are numbers."""

    @property
    def missing(self) -> int:
        """How many values are missing."""
        return int(np.count_nonzero(self.absent))

    @property
    def absent(self) -> npt.NDArray[np.bool_]:
        """Which values are missing."""
        if self.kind == "number":
            return np.isnan(self.values)
        return self.values < 0 if self.kind == "text" else np.zeros(len(self.values), bool)

    def __getitem__(self, rows: Any) -> "TableColumn":
        return replace(self, values=self.values[rows])


@dataclass(frozen=True)
class DataTable:
    """Columns of the same length, by name."""

    columns: Mapping[str, TableColumn]
    rows: int

    def __getitem__(self, rows: Any) -> "DataTable":
        columns = {name: column[rows] for name, column in self.columns.items()}
        return DataTable(columns, len(np.arange(self.rows)[rows]))

    def find(self, name: str) -> str | None:
        """Return the name of a column as it is written there, if it is there; small and capital letters are one."""
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def checked(self, name: str, place: str, option: str) -> str:
        """Return the name of a column that must be there."""
        if (found := self.find(name)) is not None:
            return found
        known = suggestion(name, self.columns) if len(self.columns) <= 100 else "see coterie data check"
        raise CoterieError(f"{place}: {option} = '{name}' is not a column: {known}")


def text_column(codes: Sequence[int] | Array, texts: Iterable[str]) -> TableColumn:
    """Make a column of texts; those that differ by spaces around them are one."""
    given, places = list(texts), {}  # type: list[str], dict[str, int]
    for text in given:
        places.setdefault(one_line(text.strip()), len(places))
    renumbered = np.array([places[one_line(text.strip())] for text in given] + [-1], np.int64)
    return TableColumn("text", renumbered[np.asarray(codes, np.int64)], tuple(places))


def levels(column: TableColumn, place: str) -> tuple[Index, list[str]]:
    """Return for each value the place of its name among the different ones, -1 if it is missing, and these in order.

    >>> levels(TableColumn("number", np.array([10.0, 2.0, np.nan])), "here")
    (array([ 1,  0, -1]), ['2', '10'])
    """
    if column.kind == "number":
        if (np.abs(column.values, where=~column.absent, out=np.zeros(len(column.values))) >= EXACT).any():
            raise CoterieError(
                f"{place} has whole numbers that are too large to tell apart: write them as texts, 'a123'"
            )
        different, codes = np.unique(column.values, return_inverse=True)
        known = different[~np.isnan(different)]
        return np.where(column.absent, -1, codes), [number_name(value) for value in known.tolist()]
    if column.kind != "text":
        raise CoterieError(f"{place} holds {column.described or column.kind + 's'}: it should hold texts or numbers")
    used = np.unique(column.values[column.values >= 0])
    names = [column.texts[code] for code in used.tolist()]
    order = sorted(range(len(names)), key=names.__getitem__)
    new = np.full(len(column.texts) + 1, -1, np.int64)
    new[used[order]] = np.arange(len(order))
    return new[column.values], [names[position] for position in order]


def number_name(value: float) -> str:
    """Return how a number is called as a class or client.

    >>> number_name(3.0), number_name(0.5)
    ('3', '0.5')
    """
    return str(int(value)) if value.is_integer() else repr(value)

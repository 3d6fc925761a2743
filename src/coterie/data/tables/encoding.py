"""From the columns of a table to the inputs of a network, and kept with the run, so that other rows go the same way."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.bounded import LARGEST_ARRAYS
from coterie.data.tables.table import SHOWN, DataTable, TableColumn, levels
from coterie.errors import CoterieError, one_line

MOST_CATEGORIES = 100
"""Different texts of a column up to which they are taken for categories."""
MISSING = "(missing)"
"""The category of missing texts, where they are filled."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class EncodedColumn:
    """A column that is learned from."""

    name: str
    categories: tuple[str, ...] = ()
    """One input each, 1 in rows that have it; none: the column is a number, one input."""
    fill: float | None = None
    """What takes the place of a missing number; None: it is refused."""

    @property
    def features(self) -> list[str]:
        """The names of its inputs."""
        return [f"{self.name}={category}" for category in self.categories] or [self.name]


@dataclass(frozen=True)
class TableEncoding:
    """How rows of a table become inputs: which columns, in which order, with which categories."""

    label: str
    columns: tuple[EncodedColumn, ...]

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of all inputs, in order."""
        return tuple(feature for column in self.columns for feature in column.features)

    @classmethod
    def of(
        cls, table: DataTable, label: str, inputs: list[str], as_categories: set[str], fills: bool, place: str
    ) -> "TableEncoding":
        """Make the encoding that training rows ask for."""
        return cls(
            label, tuple(_encoded(name, table.columns[name], name in as_categories, fills, place) for name in inputs)
        )

    def encode(self, table: DataTable, place: str) -> tuple[Floats, list[str]]:
        """Return the inputs, (rows, features), and sentences on what is odd about them."""
        if table.rows * len(self.features) * 4 > LARGEST_ARRAYS:
            raise CoterieError(
                f"{place}: {table.rows:,} rows of {len(self.features):,} inputs are more than the {LARGEST_ARRAYS:,} "
                "bytes that are read: leave out columns with many categories, drop=..."
            )
        if absent := [column.name for column in self.columns if column.name not in table.columns]:
            raise CoterieError(f"{place}: there is no column '{absent[0]}', which the network was trained on")
        x, notes, first = np.zeros((table.rows, len(self.features)), np.float32), list[str](), 0
        for column in self.columns:
            width, where = len(column.features), f"{place}: column '{one_line(column.name)}'"
            given = table.columns[column.name]
            if column.categories:
                notes += _fill_categories(x[:, first : first + width], column, given, where)
            else:
                _fill_number(x[:, first], column, given, where)
            first += width
        return x, notes

    def moments(self, x: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and deviation of each input; categories, which are 0 or 1, stay as they are: 0 and 1."""
        mean, std, first = np.zeros(x.shape[1]), np.ones(x.shape[1]), 0
        for column in self.columns:
            if not column.categories:
                values = x[:, first].astype(np.float64)
                mean[first], deviation = values.mean(), values.std()
                std[first] = deviation if deviation > 1e-6 * abs(mean[first]) else 1.0
            first += len(column.features)
        return tuple(mean.tolist()), tuple(std.tolist())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        columns = [[column.name, list(column.categories), column.fill] for column in self.columns]
        return {"label": self.label, "columns": columns}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TableEncoding":
        """Return what `to_json` gave; raise a ValueError if it did not."""
        label, columns = stored["label"], stored["columns"]
        if not isinstance(label, str) or not isinstance(columns, list) or not columns:
            raise ValueError("its table has no columns")
        made = []
        for name, categories, fill in columns:
            texts = isinstance(categories, list) and all(isinstance(text, str) for text in (name, *categories))
            if not texts or not isinstance(fill, float | None):
                raise ValueError("a column of its table is not one")
            made.append(EncodedColumn(name, tuple(categories), fill))
        return cls(label, tuple(made))


def _encoded(name: str, column: TableColumn, as_category: bool, fills: bool, place: str) -> EncodedColumn:
    where = f"{place}: column '{one_line(name)}'"
    if column.kind == "number" and not as_category:
        known = column.values[~column.absent]
        return EncodedColumn(name, fill=float(np.median(known)) if fills and len(known) else None)
    if column.kind not in ("number", "text"):
        raise CoterieError(
            f"{where} holds {column.described or column.kind + 's'}, which are no inputs: leave it out, drop={name}"
        )
    _, names = levels(column, where)
    if len(names) > MOST_CATEGORIES:
        odd = f" ({column.described})" if column.described else ""
        raise CoterieError(
            f"{where} has {len(names):,} different texts, such as {_listed(names)}{odd}: more than "
            f"{MOST_CATEGORIES} are no categories; leave it out, drop={name}, or turn it into numbers"
        )
    return EncodedColumn(name, (*names, *[MISSING] * (fills and column.missing > 0)))


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name[:40]}'" for name in names[:SHOWN])


def _fill_number(x: Floats, column: EncodedColumn, given: TableColumn, where: str) -> None:
    if given.kind != "number":
        odd = f" ({given.described})" if given.described else ""
        raise CoterieError(f"{where} should hold numbers, as in training, but holds {given.kind}s{odd}")
    values = given.values
    if given.missing:
        if column.fill is None:
            raise CoterieError(f"{where} has {given.missing:,} missing values: fill them in")
        values = np.where(given.absent, column.fill, values)
    if len(values) and not np.abs(values).max() <= np.finfo(np.float32).max:
        raise CoterieError(
            f"{where} has infinite values, or such over 1e38: leave it out, drop={column.name}, or mend it"
        )
    x[:] = values


def _fill_categories(x: Floats, column: EncodedColumn, given: TableColumn, where: str) -> list[str]:
    """Write 1 where a row has a category; one that was not there in training has none, nor has a missing text then."""
    codes, names = levels(given, where)
    place_of = {category: position for position, category in enumerate(column.categories)}
    missing = place_of.get(MISSING, -1)
    places = np.array([*(place_of.get(name, -1) for name in names), missing])[codes]
    rows = np.flatnonzero(places >= 0)
    x[rows, places[rows]] = 1
    unknown = [*[MISSING] * (missing < 0 < given.missing), *(name for name in names if name not in place_of)]
    count = len(places) - len(rows)
    return (
        [f"{where}: {count:,} rows have values that no training row has ({_listed(unknown)}), and count as none"]
        if count
        else []
    )

"""Books: the TOML files in which the tables and figures of the papers are written down.

A book holds settings, data sets and methods that its entries share, and the entries. An entry has columns (mostly data
sets) and rows (mostly methods), the published cells, and what is measured.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from coterie.errors import CoterieError, suggestion, what_is_wanted
from coterie.results.formats import read_toml
from coterie.run.overlay import merge

PLACE = Path(__file__).parent / "catalogue"
"""The books that come with Coterie."""

Tables = dict[str, dict[str, Any]]
Grade = Literal["A", "B", "C"]
MISSING = "--"

_PUBLISHED = re.compile(r"(?P<value>-?\d+(\.\d+)?)\s*(±\s*(?P<spread>\d+(\.\d+)?))?\s*([\[(].*[\])])?")


class Strict(BaseModel):
    """A table of a book; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataNote(Strict):
    """A data set as a book uses it."""

    label: str
    needs: tuple[str, ...] = ()
    """Data sets of Coterie that must be here; by default the one that the settings name."""
    samples: int = 0
    """Training samples in all, for estimates."""
    shape: tuple[int, ...] = (3, 32, 32)
    """Of a sample, as networks see it, for estimates."""
    settings: Tables = {}


class MethodNote(Strict):
    """A method as a book uses it."""

    label: str
    protocol: str = "L"
    """Under which the published numbers stand."""
    grade: Grade | None = None
    note: str = ""
    settings: Tables = {}
    on: dict[str, Tables] = {}
    """Settings for some data sets."""
    effort: float = 1.0
    """Times the training of FedAvg, for estimates."""
    passes: float = 4.0
    """Over the test samples at an evaluation, for estimates: L of the cohort, C, and G."""


class BookColumn(Strict):
    """A column of an entry."""

    label: str = ""
    data: str | None = None
    settings: Tables = {}
    target: float | None = None
    """The accuracy to be reached, a fraction."""
    quantity: str | None = None
    """What is measured, if the columns differ in that."""
    grade: Grade | None = None
    """Of its cells, but for rows and methods that have one of their own."""
    options: dict[str, Any] = {}


class BookRow(Strict):
    """A row of an entry, and its published cells."""

    cells: tuple[str, ...] = ()
    label: str = ""
    method: str | None = None
    protocol: str | None = None
    grade: Grade | None = None
    note: str = ""
    settings: Tables = {}
    on: dict[str, Tables] = {}
    options: dict[str, Any] = {}


class External(Strict):
    """Cells that were taken from another study."""

    methods: tuple[str, ...]
    data: tuple[str, ...]


class Vary(Strict):
    """A row for each value of a key."""

    key: str
    """As in ``--set``: section.key."""
    label: str
    values: tuple[float | int | str, ...] = ()
    on: dict[str, tuple[float | int | str, ...]] = {}
    """Other values for some columns, by label or data set."""
    method: str
    series: str | None = None
    """A second key, whose values are lines of the figure."""
    series_label: str = ""
    series_values: tuple[float | int | str, ...] = ()


class BookEntry(Strict):
    """A table or figure."""

    title: str
    kind: str
    covers: tuple[str, ...]
    """Headings and figures of the sources, as "PACFL-T2" or "PACFL Fig 2"."""
    also: tuple[str, ...] = ()
    """Other names for it."""
    same_as: str | None = None
    """The entry that this is a copy of."""
    reason: str = ""
    """Why it cannot be reproduced."""
    grade: Grade = "A"
    grades: dict[str, Grade] = {}
    note: str = ""
    notes: dict[str, str] = {}
    """By row, or "row/data set"."""
    headline: str = ""
    """What the published figure shows."""
    seeds: tuple[int, ...] = (0, 1, 2)
    settings: Tables = {}
    columns: tuple[Annotated[BookColumn, BeforeValidator(lambda c: {"data": c} if isinstance(c, str) else c)], ...] = ()
    """One may be named by its data set alone."""
    rows: dict[str, Annotated[BookRow, BeforeValidator(lambda r: {"cells": r} if isinstance(r, list) else r)]] = {}
    """One may be given by its cells alone."""
    vary: Vary | None = None
    quantity: str = "{P}"
    """What is measured; {P} is the method's protocol, {target} the column's."""
    unit: str = "%"
    external: External | None = None
    options: dict[str, Any] = {}
    needs: tuple[str, ...] = ()
    """Data sets, where no column names one."""
    minutes: float | None = None
    """On one core, where no runs tell it."""


class Book(Strict):
    """A file."""

    version: int
    source: str
    base: str | None = None
    """A book whose settings, data sets and methods this one has too."""
    settings: Tables = {}
    data: dict[str, DataNote] = {}
    methods: dict[str, MethodNote] = {}
    entries: dict[str, BookEntry] = {}

    def method(self, name: str | None) -> MethodNote:
        """Return what the book says of a method; defaults where a row has none."""
        return self.methods.get(name or "", MethodNote(label=""))


@dataclass(frozen=True)
class Published:
    """A printed number."""

    text: str
    value: float | None
    """None where a target was not reached, or nothing was reported."""
    spread: float | None

    @classmethod
    def read(cls, text: str) -> Published:
        """Read a cell.

        >>> Published.read("97.15 ± 0.01")
        Published(text='97.15 ± 0.01', value=97.15, spread=0.01)
        >>> Published.read("79.36 [200]").value, Published.read("--").value
        (79.36, None)
        """
        if text.startswith(MISSING):
            return cls(text, None, None)
        number = _PUBLISHED.fullmatch(text.strip())
        if number is None:
            raise ValueError(f"'{text}' should be a number, like 97.15 ± 0.01, or {MISSING}")
        spread = number["spread"]
        return cls(text.strip(), float(number["value"]), None if spread is None else float(spread))

    @property
    def implied_rounds(self) -> int | None:
        """The rounds in brackets behind a cost."""
        rounds = re.search(r"\[(\d+)\]", self.text)
        return None if rounds is None else int(rounds[1])


def overlay(base: Tables, layer: Tables) -> None:
    """Lay nested tables over others; a choice of another name takes the options of the one before with it."""
    for section, table in layer.items():
        for key in sorted(table, key=lambda key: key != "name"):
            merge(base, f"{section}.{key}", copy.deepcopy(table[key]))


def read_books(own: Path | None = None) -> list[Book]:
    """Read the books that come with Coterie, or one's own, which may be based on one of them."""
    if own is not None and not own.exists():
        raise CoterieError(f"there is no catalogue '{own}'")
    shipped = sorted(PLACE.glob("*.toml"))
    raw = {file.stem: read_toml(file) for file in (*shipped, *([own] if own else []))}
    return [_book(file, _based(raw, file.stem)) for file in ([own] if own else shipped)]


def _based(raw: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a book with what it has of the one that it is based on."""
    book = raw[name]
    base = book.get("base")
    if base is None:
        return book
    if base not in raw:
        raise CoterieError(f"book '{name}' is based on '{base}': {suggestion(str(base), raw)}")
    below = _based(raw, base)
    settings = copy.deepcopy(below.get("settings", {}))
    overlay(settings, book.get("settings", {}))
    shared = {key: {**below.get(key, {}), **book.get(key, {})} for key in ("data", "methods")}
    return {**book, "settings": settings, **shared}


def _book(file: Path, tables: Mapping[str, Any]) -> Book:
    try:
        book = Book.model_validate(tables)
    except ValidationError as error:
        first = error.errors()[0]
        raise CoterieError(f"'{file}': {'.'.join(map(str, first['loc']))}: {what_is_wanted([first])}") from None
    for name, entry in book.entries.items():
        _check(file, name, entry, book)
    return book


def _check(file: Path, name: str, entry: BookEntry, book: Book) -> None:
    """Refuse an entry whose parts do not fit together."""
    for data in (column.data for column in entry.columns):
        if data is not None and data not in book.data:
            raise CoterieError(f"'{file}': {name} has a column of unknown data '{data}': {suggestion(data, book.data)}")
    columns = len(entry.columns) or 1
    for key, row in entry.rows.items():
        if row.method is not None and row.method not in book.methods:
            raise CoterieError(f"'{file}': {name} has a row of method '{row.method}', which the book does not have")
        if row.cells and len(row.cells) != columns:
            raise CoterieError(f"'{file}': row {key} of {name} has {len(row.cells)} cells, not {columns}")
        for text in row.cells:
            try:
                Published.read(text or MISSING)
            except ValueError as error:
                raise CoterieError(f"'{file}': row {key} of {name}: {error}") from None

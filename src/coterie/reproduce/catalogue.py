"""What can be reproduced: the tables and figures of the papers, read from TOML files inside the package.

A file is a book: settings, data sets and methods that its entries share, and the entries. An entry has columns (mostly
data sets) and rows (mostly methods), the published cells, and what is measured. Configurations are laid over each
other in this order: book, entry, data set, column, method, method on this data set, row, row on this data set.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from coterie.errors import CoterieError, suggestion
from coterie.run.validation import merge

PLACE = Path(__file__).parent / "catalogue"

Tables = dict[str, dict[str, Any]]
Grade = Literal["A", "B", "C"]
GRADES: dict[str, str] = {
    "A": "a target",
    "B": "for the trend only: a setting is not known",
    "C": "not a target: from another study, a copy, or inconsistent",
}
EXTERNAL = "taken by the authors from the NIID-Bench study (10 parties, all in every round, 50 rounds, B = 64)"
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


class Column(Strict):
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


class Row(Strict):
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


class Entry(Strict):
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
    columns: tuple[str | Column, ...] = ()
    rows: dict[str, tuple[str, ...] | Row] = {}
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
    entries: dict[str, Entry] = {}


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
        found = _PUBLISHED.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"'{text}' should be a number, like 97.15 ± 0.01, or {MISSING}")
        spread = found["spread"]
        return cls(text.strip(), float(found["value"]), None if spread is None else float(spread))

    @property
    def implied_rounds(self) -> int | None:
        """The rounds in brackets behind a cost."""
        found = re.search(r"\[(\d+)\]", self.text)
        return None if found is None else int(found[1])


@dataclass(frozen=True)
class Cell:
    """One number to be measured, with what was published beside it."""

    column: str
    row: str
    label: str
    """Of the row."""
    method: str | None
    data: str | None
    quantity: str
    settings: Tables
    published: Published | None
    grade: Grade
    notes: tuple[str, ...]
    external: bool
    x: float | int | str | None = None
    """The value that is varied."""
    series: float | int | str | None = None
    options: Mapping[str, Any] = ...  # type: ignore[assignment]


@dataclass(frozen=True)
class Reproducible:
    """An entry with its book."""

    name: str
    entry: Entry
    book: Book

    @property
    def version(self) -> str:
        """Of the book, which changes when a setting does."""
        return str(self.book.version)

    def columns(self) -> list[Column]:
        """Return the columns; one named by a data set alone is that data set."""
        found = []
        for column in self.entry.columns or (Column(label=self.entry.title),):
            one = Column(data=column) if isinstance(column, str) else column
            label = one.label or (self.book.data[one.data].label if one.data else "")
            found.append(one.model_copy(update={"label": label}))
        return found

    def rows(self) -> list[tuple[str, Row]]:
        """Return the rows with their keys, of which those that vary a key have none of their own."""
        found = []
        for key, given in self.entry.rows.items():
            row = given if isinstance(given, Row) else Row(cells=given)
            method = row.method or (key if key in self.book.methods else None)
            label = row.label or (self.book.methods[method].label if method else key)
            found.append((key, row.model_copy(update={"method": method, "label": label})))
        return found

    def cells(self) -> Iterator[Cell]:
        """Return all cells, column by column."""
        for place, column in enumerate(self.columns()):
            for key, row in self.rows():
                yield self._cell(place, column, key, row)
            if self.entry.vary is not None:
                yield from self._varied(column, self.entry.vary)

    def _varied(self, column: Column, vary: Vary) -> Iterator[Cell]:
        values = vary.on.get(column.label) or vary.on.get(column.data or "") or vary.values
        for series in vary.series_values or (None,):
            for value in values:
                key = f"{vary.label} {value}" + ("" if series is None else f", {vary.series_label} {series}")
                row = Row(label=key, method=vary.method, settings=nested(vary.key, value))
                cell = self._cell(-1, column, key, row, value, series)
                if series is not None and vary.series is not None:
                    overlay(cell.settings, nested(vary.series, series))
                yield cell

    def _cell(self, place: int, column: Column, key: str, row: Row, x: Any = None, series: Any = None) -> Cell:
        entry, method = self.entry, self.book.methods.get(row.method or "")
        text = row.cells[place] if 0 <= place < len(row.cells) else ""
        external = entry.external is not None and (
            key in entry.external.methods and (column.data or "") in entry.external.data
        )
        grade = row.grade or entry.grades.get(key) or (method and method.grade) or column.grade or entry.grade
        protocol = row.protocol or (method.protocol if method else "L")
        notes = [
            EXTERNAL if external else "",
            method.note if method else "",
            row.note,
            entry.notes.get(key, ""),
            entry.notes.get(f"{key}/{column.data}", ""),
        ]
        return Cell(
            column=column.label,
            row=key,
            label=row.label,
            method=row.method,
            data=column.data,
            quantity=(column.quantity or entry.quantity).format(P=protocol, target=column.target),
            settings=self._settings(column, row),
            published=Published.read(text) if text else None,
            grade="C" if external else grade,
            notes=tuple(note for note in notes if note),
            external=external,
            x=x,
            series=series,
            options={**entry.options, **column.options, **row.options},
        )

    def _settings(self, column: Column, row: Row) -> Tables:
        """Lay the settings over each other."""
        method = self.book.methods.get(row.method or "")
        data = self.book.data.get(column.data or "")
        layers: list[Tables] = [self.book.settings, self.entry.settings]
        layers += [data.settings] if data else []
        layers += [column.settings]
        layers += [method.settings, method.on.get(column.data or "", {})] if method else []
        layers += [row.settings, row.on.get(column.data or "", {})]
        made: Tables = {}
        for layer in layers:
            overlay(made, layer)
        return made

    def needs(self, column: Column) -> list[str]:
        """Return the data sets that a column needs."""
        if column.data is None:
            return list(self.entry.needs)
        note = self.book.data[column.data]
        return list(note.needs) or [str(note.settings.get("data", {}).get("name", column.data))]

    def all_needs(self) -> list[str]:
        """Return the data sets that the entry needs."""
        return list(dict.fromkeys(name for column in self.columns() for name in self.needs(column)))


def overlay(base: Tables, layer: Tables) -> None:
    """Lay nested tables over others; a choice of another name takes the options of the one before with it."""
    for section, table in layer.items():
        for key in sorted(table, key=lambda key: key != "name"):
            merge(base, f"{section}.{key}", copy.deepcopy(table[key]))


def nested(path: str, value: Any) -> Tables:
    """Return tables with one key.

    >>> nested("algorithm.beta", 0.5)
    {'algorithm': {'beta': 0.5}}
    """
    section, _, key = path.partition(".")
    return {section: {key: value}}


class Catalogue(Mapping[str, Reproducible]):
    """Entries by name, in the order of the books."""

    def __init__(self, books: Sequence[Book]) -> None:
        self._entries = {
            name: Reproducible(name, entry, book) for book in books for name, entry in book.entries.items()
        }
        self._names = {alias: name for name, one in self._entries.items() for alias in (name, *one.entry.also)}

    def __getitem__(self, name: str) -> Reproducible:
        """Return the entry of a name, or of another name for it."""
        known = self._names.get(name)
        if known is None:
            raise CoterieError(f"unknown table or figure '{name}': {_meant(name, self._names)}")
        return self._entries[known]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def resolved(self, name: str) -> Reproducible:
        """Return the entry of a name; of a copy, the one that it is a copy of."""
        found = self[name]
        return self[found.entry.same_as] if found.entry.same_as else found


def _meant(name: str, known: Mapping[str, str]) -> str:
    hint = suggestion(name, known)
    return hint if hint.startswith("did you mean") else "'coterie reproduce' lists them"


@cache
def catalogue() -> Catalogue:
    """Return what comes with Coterie."""
    files = sorted(PLACE.glob("*.toml"), key=lambda file: ORDER.index(file.stem) if file.stem in ORDER else len(ORDER))
    return Catalogue(read_books(files))


ORDER = ("pacfl", "flis", "fedgroup", "flag", "dissertation2", "dissertation3", "dissertation4", "dissertation5")
"""Of the books in lists."""


def read_books(files: Sequence[Path]) -> list[Book]:
    """Read books, each after the one that it is based on."""
    raw = {file.stem: _read(file) for file in files}
    return [_book(file, _based(raw, file.stem)) for file in files]


def read_own(file: Path) -> Catalogue:
    """Read a book of one's own, which may be based on one that comes with Coterie."""
    raw = {other.stem: _read(other) for other in PLACE.glob("*.toml")} | {file.stem: _read(file)}
    return Catalogue([_book(file, _based(raw, file.stem))])


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


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CoterieError(f"there is no catalogue '{file}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CoterieError(f"'{file}' is not a TOML file: {error}") from None
    except OSError as error:
        raise CoterieError(f"'{file}' can't be read: {error.strerror}") from None


def _book(file: Path, tables: Mapping[str, Any]) -> Book:
    try:
        book = Book.model_validate(tables)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise CoterieError(f"'{file}': {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    for name, entry in book.entries.items():
        _check(file, name, entry, book)
    return book


def _check(file: Path, name: str, entry: Entry, book: Book) -> None:
    """Refuse an entry whose parts do not fit together."""
    one = Reproducible(name, entry, book)
    for column in entry.columns:
        data = column if isinstance(column, str) else column.data
        if data is not None and data not in book.data:
            raise CoterieError(f"'{file}': {name} has a column of unknown data '{data}': {suggestion(data, book.data)}")
    for key, given in entry.rows.items():
        row = given if isinstance(given, Row) else Row(cells=given)
        if row.method is not None and row.method not in book.methods:
            raise CoterieError(f"'{file}': {name} has a row of method '{row.method}', which the book does not have")
        if row.cells and len(row.cells) != len(one.columns()):
            raise CoterieError(f"'{file}': row {key} of {name} has {len(row.cells)} cells, not {len(one.columns())}")
        for text in row.cells:
            try:
                Published.read(text or MISSING)
            except ValueError as error:
                raise CoterieError(f"'{file}': row {key} of {name}: {error}") from None

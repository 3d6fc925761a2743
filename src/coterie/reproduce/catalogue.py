"""What can be reproduced: the tables and figures of the papers, and the cells of each with their settings.

Configurations are laid over each other in this order: book, entry, data set, column, method, method on this data set,
row, row on this data set.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, suggestion
from coterie.registry import same_name
from coterie.reproduce import books
from coterie.reproduce.books import Book, BookColumn, BookEntry, BookRow, DataNote, Grade, Published, Tables, Vary
from coterie.run.overlay import merge

EXTERNAL = "taken by the authors from the NIID-Bench study (10 parties, all in every round, 50 rounds, B = 64)"


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
    entry: BookEntry
    book: Book

    def columns(self) -> list[BookColumn]:
        """Return the columns, each with its label."""
        columns = []
        for column in self.entry.columns or (BookColumn(label=self.entry.title),):
            label = column.label or (self.book.data[column.data].label if column.data else "")
            columns.append(column.model_copy(update={"label": label}))
        return columns

    def rows(self) -> list[tuple[str, BookRow]]:
        """Return the rows with their keys, of which those that vary a key have none of their own."""
        rows = []
        for key, row in self.entry.rows.items():
            method = row.method or (key if key in self.book.methods else None)
            label = row.label or (self.book.methods[method].label if method else key)
            rows.append((key, row.model_copy(update={"method": method, "label": label})))
        return rows

    def cells(self) -> Iterator[Cell]:
        """Return all cells, column by column."""
        for place, column in enumerate(self.columns()):
            for key, row in self.rows():
                yield self._cell(place, column, key, row)
            if self.entry.vary is not None:
                yield from self._varied(column, self.entry.vary)

    def _varied(self, column: BookColumn, vary: Vary) -> Iterator[Cell]:
        values = vary.on.get(column.label) or vary.on.get(column.data or "") or vary.values
        for series in vary.series_values or (None,):
            for value in values:
                key = f"{vary.label} {value}" + ("" if series is None else f", {vary.series_label} {series}")
                cell = self._cell(-1, column, key, BookRow(label=key, method=vary.method), value, series)
                merge(cell.settings, vary.key, value)
                if series is not None and vary.series is not None:
                    merge(cell.settings, vary.series, series)
                yield cell

    def _cell(self, place: int, column: BookColumn, key: str, row: BookRow, x: Any = None, series: Any = None) -> Cell:
        entry, method = self.entry, self.book.method(row.method)
        text = row.cells[place] if 0 <= place < len(row.cells) else ""
        external = entry.external is not None and (
            key in entry.external.methods and (column.data or "") in entry.external.data
        )
        grade = row.grade or entry.grades.get(key) or method.grade or column.grade or entry.grade
        quantity = column.quantity or entry.quantity
        notes = [
            EXTERNAL if external else "",
            method.note,
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
            quantity=quantity.format(P=row.protocol or method.protocol, target=column.target),
            settings=self._settings(column, row),
            published=Published.read(text) if text else None,
            grade="C" if external else grade,
            notes=tuple(note for note in notes if note),
            external=external,
            x=x,
            series=series,
            options={**entry.options, **column.options, **row.options},
        )

    def _settings(self, column: BookColumn, row: BookRow) -> Tables:
        """Lay the settings over each other."""
        name, method, settings = column.data or "", self.book.method(row.method), dict[str, dict[str, Any]]()
        data = self.book.data.get(name, DataNote(label=""))
        for whose in (self.book, self.entry, data, column):
            books.overlay(settings, whose.settings)
        for note in (method, row):
            books.overlay(settings, note.settings)
            books.overlay(settings, note.on.get(name, {}))
        return settings

    def needs(self, column: BookColumn) -> list[str]:
        """Return the data sets that a column needs."""
        if column.data is None:
            return list(self.entry.needs)
        note = self.book.data[column.data]
        return list(note.needs) or [str(note.settings.get("data", {}).get("name", column.data))]


class Catalogue(dict[str, Reproducible]):
    """Entries by name, in the order of the books; each is found by its other names too."""

    def __init__(self, books: Sequence[Book]) -> None:
        super().__init__(
            (name, Reproducible(name, entry, book)) for book in books for name, entry in book.entries.items()
        )
        self._aliases = {alias: name for name, item in self.items() for alias in item.entry.also}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._aliases

    def __missing__(self, name: str) -> Reproducible:
        if name in self._aliases:
            return self[self._aliases[name]]
        hint = suggestion(name, [*self, *self._aliases])
        hint = hint if hint.startswith("did you mean") else "'coterie reproduce' lists them"
        raise CoterieError(f"unknown table or figure '{name}': {hint}")

    def resolved(self, name: str) -> Reproducible:
        """Return the entry of a name; of a copy, the one that it is a copy of."""
        item = self[same_name(name, [*self, *self._aliases])]
        return self[item.entry.same_as] if item.entry.same_as else item


@cache
def catalogue() -> Catalogue:
    """Return what comes with Coterie."""
    return Catalogue(books.read_books())


def read_own(file: Path) -> Catalogue:
    """Read a book of one's own, which may be based on one that comes with Coterie."""
    return Catalogue(books.read_books(file))

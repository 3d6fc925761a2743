"""CSV files: a line of names, then a line for each row. They are read in blocks, each cell once."""

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain, islice
from typing import IO

import numpy as np

from coterie.data.tables.table import DataTable, TableColumn, text_column
from coterie.errors import one_line

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>", "#N/A", "?"})
"""How a missing value is written."""
DELIMITERS = ",;\t|"
LONGEST_LINE = 2**20
MOST_COLUMNS = 10_000
_BLOCK = 2**13
"""Cells that are read at a time, so that they stay near the processor; of wide tables some rows."""


def read_csv(opened: Callable[[], AbstractContextManager[IO[bytes]]]) -> DataTable:
    """Return what a CSV file holds; it is read again where a column of numbers turns out to be one of texts."""
    texts: set[int] = set()
    while True:
        with opened() as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            try:
                names, columns = _read(text, texts)
            finally:
                text.detach()  # whoever opened it closes it
        late = {position for position, column in enumerate(columns) if column.was_number}
        if not late:
            rows = columns[0].rows if columns else 0
            return DataTable({name: column.made() for name, column in zip(names, columns, strict=True)}, rows)
        texts |= late


def _read(text: io.TextIOWrapper, texts: set[int]) -> tuple[list[str], list["_Cells"]]:
    lines = _lines(text)
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=first.count)
    try:
        rows = csv.reader(chain([first], lines), delimiter=delimiter, skipinitialspace=True)
        names = _header(next(rows, []))
        columns, number = [_Cells(position in texts) for position in range(len(names))], 2
        while block := list(islice(rows, max(64, _BLOCK // len(names)))):
            odd = next((k for k, row in enumerate(block) if row and len(row) != len(names)), None)
            if odd is not None:
                raise ValueError(f"row {number + odd} has {len(block[odd])} cells, but there are {len(names)} columns")
            filled = [row for row in block if row]
            for column, cells in zip(columns, zip(*filled, strict=True), strict=False):
                column.add(cells)
            number += len(block)
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if not columns[0].rows:
        raise ValueError("it has no rows below the names of its columns")
    return names, columns


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise ValueError(f"a line of it has {LONGEST_LINE:,} letters or more")
        yield line


def _header(row: Sequence[str]) -> list[str]:
    """Return the names of the columns, which must be names."""
    names = [one_line(name.strip(), 200) for name in row]
    if len(names) < 2:
        raise ValueError("its first line should name at least two columns, with commas between them")
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"it has {len(names):,} columns, more than the {MOST_COLUMNS:,} that are read")
    if all(_is_number(name) for name in names):
        raise ValueError("its first line holds numbers: it should name the columns; add a line such as a,b,label")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ValueError(f"two of its columns are called '{twice}': give each a name of its own")
    if "" in names[1:]:
        raise ValueError(f"its column {names.index('', 1) + 1} has no name: write one into the first line")
    return names


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


class _Cells:
    """The cells of a column, as they come in."""

    def __init__(self, is_text: bool) -> None:
        self.rows, self.is_text, self.was_number, self.fractions = 0, is_text, False, False
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._texts: dict[str, int] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Add cells: numbers as long as all are."""
        self.rows += len(cells)
        if not self.is_text and not self.was_number:
            try:
                self._numbers.append(self._as_numbers(cells))
                return
            except ValueError:
                self.is_text, self.was_number = not self._numbers, bool(self._numbers)
        if self.is_text:
            texts = self._texts
            self._codes.append(np.array([texts.setdefault(cell, len(texts)) for cell in cells], np.int64))

    def _as_numbers(self, cells: Sequence[str]) -> np.ndarray:
        together = "".join(cells)
        if "_" in together:  # 1_000 is a number to Python alone
            raise ValueError
        self.fractions = self.fractions or "." in together or "e" in together.lower()
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            numbers = (math.nan if cell.strip() in MISSING else float(cell) for cell in cells)
            return np.fromiter(numbers, np.float64, len(cells))

    def made(self) -> TableColumn:
        """Return the column."""
        if not self.is_text:
            return TableColumn("number", np.concatenate(self._numbers), fractions=self.fractions)
        absent = [code for text, code in self._texts.items() if text.strip() in MISSING]
        codes = np.concatenate(self._codes)
        if absent:
            codes[np.isin(codes, absent)] = -1
        column = text_column(codes, self._texts)
        odd = [text for text in islice(self._texts, 10**5) if text.strip() not in MISSING and not _is_number(text)]
        if odd and len(odd) * 10 < len(self._texts):
            return replace(column, described=f"all but {len(odd)} are numbers, not '{one_line(odd[0], 40)}'")
        if odd and all(_is_number(text.replace(",", ".", 1)) for text in odd[:100]):
            return replace(column, described="fractions are written with a point, 3.5")
        return column

"""What a table holds, in words, and which options it would need to be used."""

from dataclasses import replace

import numpy as np

from coterie.data.tables.encoding import MOST_CATEGORIES
from coterie.data.tables.rows import ReadingOptions, Roles, counts_rows, is_quantity, names_in, roles, usual_label
from coterie.data.tables.table import SHOWN, DataTable, TableColumn, levels
from coterie.errors import CoterieError, one_line

FEWEST_ROWS = 10
"""Rows of a client, on average, for a column to be named as one that could tell clients."""
MOST_LISTED = 100
"""Columns that are described one by one."""


def suggested(table: DataTable, options: ReadingOptions, place: str) -> ReadingOptions:
    """Return options by which a table can be used: those that are given, and what it needs beyond them."""
    if options.label is None:
        options = replace(options, label=_likely_label(table))
    if options.label is None or options.inputs is not None:
        return options
    found = roles(table, options, place)
    arrays = [name for name in found.inputs if table.columns[name].kind in ("array", "image")]
    if arrays and len(found.inputs) > 1:
        return replace(options, inputs=[arrays[0]])
    categories = {table.checked(name, place, "categories") for name in names_in(options.categories)}
    no_inputs = [name for name in found.inputs if _is_no_input(table.columns[name], name in categories)]
    if len(no_inputs) < len(found.inputs) and no_inputs:
        options = replace(options, drop=[*names_in(options.drop), *no_inputs])
    if options.missing != "refuse":
        return options
    absent = {name for name in roles(table, options, place).used if table.columns[name].missing}
    return replace(options, missing=("fill" if absent <= set(found.inputs) else "drop") if absent else "refuse")


def _likely_label(table: DataTable) -> str | None:
    """Return the column that is called like a label, or else the last that could be one, or that holds a quantity."""
    names = list(reversed(list(table.columns)))
    classes = [name for name in names if _could_be_label(table, name)]
    quantities = [name for name in names if is_quantity(table.columns[name])]
    return usual_label(table) or next(iter((*classes, *quantities)), None)


def _could_be_label(table: DataTable, name: str) -> bool:
    column = table.columns[name]
    if is_quantity(column):
        return False
    try:
        return 2 <= len(levels(column, name)[1]) <= min(MOST_CATEGORIES, table.rows // 2)
    except CoterieError:
        return False


def _is_no_input(column: TableColumn, is_category: bool) -> bool:
    """Say whether a column can't be learned from, or only numbers the rows."""
    if column.kind == "text" or (column.kind == "number" and is_category):
        return len(levels(column, "")[1]) > MOST_CATEGORIES
    return column.kind == "other" or (column.kind == "number" and counts_rows(column))


def described(table: DataTable, options: ReadingOptions, place: str) -> list[str]:
    """Return a line for each column: its values, how many are missing, and what it is used for."""
    found = None if options.label is None else roles(table, options, place)
    lines = []
    for name, column in list(table.columns.items())[:MOST_LISTED]:
        missing = f", {column.missing:,} missing" if column.missing else ""
        lines.append(f"{one_line(name, 60) or '(no name)'}: {_values(column)}{missing}{_use(name, column, found)}")
    more = len(table.columns) - MOST_LISTED
    return [*lines, f"... and {more:,} more columns"] if more > 0 else lines


def _values(column: TableColumn) -> str:
    """Say what a column holds."""
    if column.kind == "number":
        known = column.values[~column.absent]
        if not len(known):
            return "nothing"
        kind = "whole numbers" if np.array_equal(known, np.floor(known)) else "numbers"
        return f"{kind}, {known.min():g} to {known.max():g}"
    if column.kind == "text":
        _, names = levels(column, "")
        listed = ", ".join(one_line(name, 30) for name in names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        odd = f"; {column.described}" if column.described else ""
        return f"{len(names):,} different texts ({listed}{odd})"
    if column.kind == "array":
        return f"arrays of {' x '.join(map(str, column.values.shape[1:]))} ({column.values.dtype})"
    return "images" if column.kind == "image" else column.described


def _use(name: str, column: TableColumn, found: Roles | None) -> str:
    """Say what a column is used for."""
    if found is None:
        return ""
    uses = {
        found.label: "the label",
        found.client: "the client",
        found.group: "attributes",
        found.split: "train or test",
    }
    if name in uses:
        return f" – {uses[name]}"
    return "" if name in found.inputs else " – left out"


def could_be_clients(table: DataTable, options: ReadingOptions, place: str) -> list[str]:
    """Return the columns whose values could be clients, with their numbers of rows."""
    found = roles(table, options, place)
    lines = []
    for name in found.inputs if found.client is None else ():
        column = table.columns[name]
        if column.kind == "text" and not column.missing:
            codes, names = levels(column, name)
            sizes = np.bincount(codes, minlength=len(names))
            if len(names) > 1 and table.rows >= FEWEST_ROWS * len(names):
                lines.append(f"client={name} makes {len(names):,} clients of {sizes.min():,} to {sizes.max():,} rows")
    return lines

"""From the rows of a table to a data set: which column is what, which rows test, what is done with missing values."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from coterie.data.federated import Array, Dataset, Index, Normalisation
from coterie.data.readers.arrays import Classes, ClassNames, dataset_from_arrays
from coterie.data.readers.images import Grey, ImageBytes, ImageSource, Size, read_images
from coterie.data.tables.encoding import MISSING, TableEncoding
from coterie.data.tables.table import SHOWN, DataTable, TableColumn, levels
from coterie.errors import CoterieError, one_line, suggestion
from coterie.streams import stream

LABELS = ("label", "labels", "target", "class", "y")
"""What a label column may be called for nobody to have to name it."""
INDEX = ("", "Unnamed: 0", "__index_level_0__")
"""What the index is called that pandas writes without a name."""
MOST_CLASSES = 100
"""Different whole numbers, written with a decimal point, up to which they are taken for classes."""
TRAINING = ("train", "training", "0", "false", "no")
TESTING = ("test", "testing", "1", "true", "yes")
VALIDATION = ("validation", "valid", "val", "dev")

Label = Annotated[
    str | int | None, "The column to predict; by default the one that is called label, target, class or y."
]
Client = Annotated[str | int | None, "The column that says whose each row is: every value is a client."]
Group = Annotated[str | int | None, "A column whose values are attributes, for the partition by-attribute."]
Inputs = Annotated[
    list[str] | str | int | None, "The columns to learn from, in this order, with + between; by default all others."
]
Drop = Annotated[list[str] | str | int | None, "Columns to leave out, with + between them."]
Categories = Annotated[
    list[str] | str | int | None, "Columns of numbers that are categories, such as postcodes, with + between them."
]
Test = Annotated[
    float | str | None,
    "Rows to test on: a share of them, a column that says train or test, or a file beside the table.",
]
Missing = Annotated[
    Literal["refuse", "drop", "fill"],
    "Missing values: refuse them, drop their rows, or fill in the median, and for texts a category of their own.",
]


@dataclass(frozen=True)
class ReadingOptions:
    """What the user says of a table's columns; the options of every reader of tables."""

    label: Label = None
    client: Client = None
    group: Group = None
    inputs: Inputs = None
    drop: Drop = None
    categories: Categories = None
    test: Test = None
    missing: Missing = "refuse"
    size: Size = None
    grey: Grey = False
    classes: Classes = None
    class_names: ClassNames = None

    @classmethod
    def signature(cls) -> inspect.Signature:
        """Return the signature of a function that takes these options by name."""
        options = inspect.signature(cls).parameters.values()
        return inspect.Signature([option.replace(kind=option.KEYWORD_ONLY) for option in options])


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    label: str
    inputs: list[str]
    client: str | None = None
    group: str | None = None
    split: str | None = None

    @property
    def used(self) -> list[str]:
        """The columns in which no value may be missing."""
        return [name for name in (self.label, self.client, self.group, *self.inputs) if name is not None]

    @property
    def tested(self) -> list[str]:
        """Those of them that test rows need."""
        return [self.label, *self.inputs]


def roles(table: DataTable, options: ReadingOptions, place: str) -> Roles:
    """Return which column is what, by the options; without them, by the names of columns."""
    label = table.checked(str(options.label), place, "label") if options.label is not None else usual_label(table)
    if label is None:
        raise CoterieError(
            f"{place}: say which column is the label, label=NAME: there are {_listed(list(table.columns))} "
            "(coterie data check shows them)"
        )
    named = {
        option: table.checked(str(value), place, option)
        for option, value in (("client", options.client), ("group", options.group))
        if value is not None
    }
    split = table.find(options.test) if isinstance(options.test, str) else None
    taken = {label, *named.values(), *([split] if split else [])}
    dropped = {table.checked(name, place, "drop") for name in names_in(options.drop)}
    if options.inputs is None:
        inputs = [name for name in table.columns if name not in {*taken, *dropped, *INDEX}]
    else:
        inputs = [table.checked(name, place, "inputs") for name in names_in(options.inputs)]
    if label in dropped or label in inputs or label in named.values():
        raise CoterieError(f"{place}: the label '{label}' can't be something else too: name it once")
    if not inputs:
        raise CoterieError(f"{place}: there is no column to learn from, beside the label '{label}': keep some")
    return Roles(label, inputs, named.get("client"), named.get("group"), split)


def usual_label(table: DataTable) -> str | None:
    """Return the column that is called like a label, if it is one alone."""
    called = [name for name in table.columns if name.lower() in LABELS]
    return called[0] if len(called) == 1 else None


def names_in(value: list[str] | str | int | None) -> list[str]:
    """Return names of columns, given as a list or as a text with + between them."""
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list) else str(value).split("+")


def counts_rows(column: TableColumn) -> bool:
    """Say whether a column only numbers the rows."""
    first = column.values[0] if column.kind == "number" and len(column.values) > 1 else -1
    return first in (0, 1) and np.array_equal(column.values, np.arange(len(column.values)) + first)


def dataset_from_table(
    name: str,
    table: DataTable,
    options: ReadingOptions,
    place: str,
    test: DataTable | None = None,
    encoding: TableEncoding | None = None,
) -> Dataset:
    """Return the data set that a table makes up; `place` is where it came from, `test` rows that were given as such.

    With an `encoding` its rows are read as those were that it was made of.
    """
    if encoding is not None:
        inputs = [column.name for column in encoding.columns]
        options = replace(
            options,
            label=encoding.label,
            inputs=inputs,
            drop=None,
            missing="drop" if options.missing == "drop" else "fill",
        )
    columns = roles(table, options, place)
    notes = _said_of_index(table, columns, options)
    parts = _parts(table, test, columns, options, place, notes)
    train = parts["train"]
    arrays, class_names = _labels(parts, columns.label, options, place, notes)
    normalisation = None
    if train.columns[columns.inputs[0]].kind in ("array", "image"):
        arrays |= _only_input(parts, columns, options, place)
    else:
        as_categories = {train.checked(column, place, "categories") for column in names_in(options.categories)}
        fills = options.missing == "fill"
        encoding = encoding or TableEncoding.of(train, columns.label, columns.inputs, as_categories, fills, place)
        for part, rows in parts.items():
            arrays[f"x_{part}"], odd = encoding.encode(rows, place)
            notes += odd
        normalisation = Normalisation(1.0, *encoding.moments(arrays["x_train"]))
        notes = [*_said(encoding, train, fills), *notes]
    user_names: list[str] = []
    if columns.client is not None:
        arrays["user_train"], user_names = levels(train.columns[columns.client], f"{place}: column '{columns.client}'")
        if "test" in parts:
            notes.append(
                f"divided by '{columns.client}', clients are tested on rows of their own (by-user:test_share=0.2), not "
                f"on the {parts['test'].rows:,} test rows"
            )
    if columns.group is not None:
        arrays |= _attributes(train.columns[columns.group], f"{place}: column '{columns.group}'")
    made = dataset_from_arrays(name, arrays, place, classes=options.classes, class_names=class_names)
    return replace(
        made,
        normalisation=normalisation or made.normalisation,
        encoding=encoding,
        notes=tuple(notes),
        user_names=tuple(user_names),
    )


def _parts(
    table: DataTable, test: DataTable | None, columns: Roles, options: ReadingOptions, place: str, notes: list[str]
) -> dict[str, DataTable]:
    """Return training rows and, where there are any, test rows; those with missing values as the user wants."""
    if test is not None:
        if options.test is not None:
            raise CoterieError(f"{place}: test = {options.test!r}, but it has test rows of its own: leave test out")
        parts = {"train": table, "test": test}
    elif isinstance(options.test, str):
        parts = _by_column(table, table.checked(options.test, place, "test"), place, notes)
    elif options.test is not None:
        parts = _by_share(table, options.test, place)
    else:
        parts = {"train": table}
    for part, rows in parts.items():
        needed = columns.used if part == "train" else columns.tested
        if lacking := [name for name in needed if name not in rows.columns]:
            known = suggestion(lacking[0], rows.columns) if len(rows.columns) <= 100 else "see coterie data check"
            raise CoterieError(f"{place}: there is no column '{one_line(lacking[0])}' in the {part} rows: {known}")
        absent = {name: column.missing for name in needed if (column := rows.columns[name]).missing}
        if absent and options.missing == "drop":
            keep = ~np.any([rows.columns[name].absent for name in absent], axis=0)
            notes.append(
                f"{rows.rows - int(keep.sum()):,} of {rows.rows:,} {part} rows have missing values, and are left out"
            )
            parts[part] = rows[keep]
        elif absent:
            _check_missing(absent, columns, options.missing, place)
        if not parts[part].rows:
            raise CoterieError(f"{place}: there is no {part} row: it needs some")
    return parts


def _check_missing(absent: dict[str, int], columns: Roles, missing: str, place: str) -> None:
    """Refuse missing values; those of inputs may be filled, not those of labels and clients."""
    counted = ", ".join(f"'{one_line(name, 40)}' ({count:,})" for name, count in list(absent.items())[:20])
    if missing == "refuse":
        raise CoterieError(
            f"{place}: values are missing in {counted}: say what to do, missing=drop leaves out the rows, missing=fill "
            "puts in the median, and for texts a category of their own"
        )
    if fixed := [name for name in absent if name not in columns.inputs]:
        raise CoterieError(f"{place}: '{fixed[0]}' has missing values, which can't be filled in: use missing=drop")


def _by_column(table: DataTable, split: str, place: str, notes: list[str]) -> dict[str, DataTable]:
    """Divide rows by a column that says what they are for."""
    codes, names = levels(table.columns[split], f"{place}: column '{split}'")
    if unknown := [name for name in names if name.lower() not in (*TRAINING, *TESTING, *VALIDATION)]:
        raise CoterieError(f"{place}: column '{split}' says '{unknown[0]}', but should say train or test")

    def rows(words: Sequence[str]) -> Index:
        return np.flatnonzero(np.isin(codes, [k for k, name in enumerate(names) if name.lower() in words]))

    training, testing, validation = rows(TRAINING), rows(TESTING), rows(VALIDATION)
    if not len(testing):
        testing, validation = validation, testing
    if len(training) + len(testing) + len(validation) < table.rows or not len(testing):
        raise CoterieError(f"{place}: column '{split}' should say train or test in each row, and both somewhere")
    if len(validation):
        notes.append(f"{len(validation):,} rows of '{split}' for validation are left out")
    return {"train": table[training], "test": table[testing]}


def _by_share(table: DataTable, share: float, place: str) -> dict[str, DataTable]:
    """Draw test rows at random, the same in every run."""
    count = round(share * table.rows)
    if not 0 < share < 1 or not 0 < count < table.rows:
        raise CoterieError(
            f"{place}: test = {share:g} of {table.rows:,} rows: give a share between 0 and 1, such as 0.2"
        )
    shuffled = stream(0, "test rows").permutation(table.rows)
    return {"train": table[np.sort(shuffled[count:])], "test": table[np.sort(shuffled[:count])]}


def _labels(
    parts: dict[str, DataTable], label: str, options: ReadingOptions, place: str, notes: list[str]
) -> tuple[dict[str, Array], list[str] | None]:
    """Return the numbers of classes, and the names that they stand for, in order; or numbers to predict, without."""
    if is_quantity(parts["train"].columns[label]) and not options.class_names and options.classes is None:
        return _numbers(parts, label, place), None
    arrays, names = dict[str, Array](), list(options.class_names or [])
    for part, rows in parts.items():
        where = f"{place}: the label column '{one_line(label)}'"
        if note := note_on_label(rows.columns[label], where):
            notes += [note] if part == "train" else []
        codes, there = levels(rows.columns[label], where)
        if not names:
            names = _agreed(options.classes, there, where) or there
        number = {name: k for k, name in enumerate(names)}
        if unknown := [name for name in there if name not in number]:
            raise CoterieError(
                f"{where} has the class '{unknown[0]}' in {part} rows, but "
                + ("class_names does not" if options.class_names else "no training row has it")
            )
        arrays[f"y_{part}"] = np.array([number[name] for name in there], np.int64)[codes]
    return arrays, names


def _numbers(parts: dict[str, DataTable], label: str, place: str) -> dict[str, Array]:
    """Return numbers to predict."""
    for part, rows in parts.items():
        if rows.columns[label].kind != "number":
            raise CoterieError(
                f"{place}: the label column '{one_line(label)}' holds numbers in the training rows, but "
                f"{rows.columns[label].kind}s in {part} rows"
            )
    return {f"y_{part}": rows.columns[label].values for part, rows in parts.items()}


def _agreed(classes: int | None, there: list[str], where: str) -> list[str] | None:
    """Return the names of classes that are said to be so many: their numbers, if that is what labels are."""
    if classes is None:
        return None
    names = [str(k) for k in range(classes)]
    if not set(there) <= set(names):
        raise CoterieError(f"{where} is not numbered 0 to {classes - 1}: give the names of all, class_names = [...]")
    return names


def is_quantity(column: TableColumn) -> bool:
    """Say whether a column, as a label, holds numbers to predict and no classes.

    Texts, whole numbers and true or false are classes. Numbers with a decimal point are classes if they are whole and
    few: so pandas writes whole numbers of a column in which values are missing.
    """
    if column.kind != "number" or not column.fractions:
        return False
    different = np.unique(column.values[~column.absent])
    return len(different) > MOST_CLASSES or not np.array_equal(different, np.floor(different))


def note_on_label(column: TableColumn, where: str) -> str | None:
    """Refuse classes that are quantities; return a sentence where numbers are taken for classes."""
    if column.kind != "number" or not column.fractions:
        return None
    different = len(np.unique(column.values[~column.absent]))
    if is_quantity(column):
        raise CoterieError(
            f"{where} holds {different:,} different numbers with fractions, a quantity and not a class: choose "
            "another label, or write classes as whole numbers or texts"
        )
    return f"{where} has numbers with a decimal point; the {different} of them are taken for classes"


def _only_input(parts: dict[str, DataTable], columns: Roles, options: ReadingOptions, place: str) -> dict[str, Array]:
    """Return arrays or images, which must be the only input."""
    if len(columns.inputs) > 1:
        raise CoterieError(
            f"{place}: '{columns.inputs[0]}' holds arrays or images, which can't be joined with other columns: choose "
            f"one, inputs={columns.inputs[0]}"
        )
    name, arrays = columns.inputs[0], {}
    for part, rows in parts.items():
        column = rows.columns[name]
        if column.kind == "image":
            arrays[f"x_{part}"] = read_images(_images(column, f"{place}: '{name}'"), options.size, options.grey)
        else:
            arrays[f"x_{part}"] = column.values
    return arrays


def _images(column: TableColumn, place: str) -> list[ImageSource]:
    return [image if isinstance(image, Path) else ImageBytes(image, place) for image in column.values]


def _attributes(column: TableColumn, where: str) -> dict[str, Array]:
    """Return which value of a column each row has."""
    codes, names = levels(column, where)
    return {
        "attributes": (codes[:, None] == np.arange(len(names))).astype(np.uint8),
        "attribute_names": np.array(names),
    }


def _said_of_index(table: DataTable, columns: Roles, options: ReadingOptions) -> list[str]:
    """Say that the index of pandas is left out, where nobody said what to learn from."""
    named = {*columns.used, columns.split, *names_in(options.drop)}
    index = [name for name in table.columns if name in INDEX and name not in named] if options.inputs is None else []
    return [f"column '{name}', the index that pandas writes, is left out: inputs can name it" for name in index]


def _said(encoding: TableEncoding, train: DataTable, fills: bool) -> list[str]:
    """Say what was made of the columns."""
    categories = [column for column in encoding.columns if column.categories]
    notes = []
    if categories:
        listed = _listed([f"{column.name} ({len(column.categories)})" for column in categories])
        notes.append(f"categories became an input for each value: {listed}; {len(encoding.features)} inputs in all")
    filled = [column.name for column in encoding.columns if train.columns[column.name].missing]
    if fills and filled:
        notes.append(f"missing values were filled in, by the median or the category {MISSING}: {_listed(filled)}")
    numbering = [column.name for column in encoding.columns if counts_rows(train.columns[column.name])]
    return notes + [f"column '{name}' only numbers the rows: drop={name} leaves it out" for name in numbering]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 4 * SHOWN} more" if len(names) > 4 * SHOWN else ""
    return ", ".join(one_line(name, 60) for name in names[: 4 * SHOWN]) + more

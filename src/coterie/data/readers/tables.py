"""Tables in files: CSV, Parquet, and folders that Hugging Face's ``save_to_disk`` wrote."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from coterie.data.federated import Dataset
from coterie.data.readers.files import Files, look, opened, reading
from coterie.data.readers.formats import reader
from coterie.data.tables.arrow import read_parquet
from coterie.data.tables.csv_files import read_csv
from coterie.data.tables.encoding import TableEncoding
from coterie.data.tables.hugging_face import ONE, SEVERAL, read_saved
from coterie.data.tables.rows import ReadingOptions, dataset_from_table
from coterie.data.tables.table import DataTable
from coterie.errors import CoterieError

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2")
_PARQUET = (".parquet", ".pq")
_MAGIC = b"PAR1"
SHOWN = 20
"""Columns that a message lists."""


def is_table(files: Files) -> bool:
    """Say whether there is a table at a path."""
    if files.kind == "folder":
        return SEVERAL in files.names or (ONE in files.names and "dataset_info.json" in files.names)
    name = files.place.name.lower()
    return files.kind == "file" and (name.endswith((*_CSV, *_PARQUET)) or files.head()[:4] == _MAGIC)


def read_tables(files: Files) -> tuple[DataTable, DataTable | None]:
    """Return the rows of a file or folder to train on and, where it says so, to test on."""
    if files.kind == "folder":
        with reading(files.place, "a data set of Hugging Face"):
            return read_saved(files.place)
    if files.head()[:4] == _MAGIC or files.place.name.lower().endswith(_PARQUET):
        with reading(files.place, "a Parquet file"):
            return read_parquet(files.place), None
    with reading(files.place, "a table (CSV)"):
        return read_csv(lambda: opened(files.place)), None


def read_table(path: Path) -> DataTable:
    """Return the rows of a file."""
    files = look(path)
    if not is_table(files):
        raise CoterieError(f"'{path}' is not a table that Coterie can read: CSV and Parquet files are")
    return read_tables(files)[0]


def dataset_of(
    files: Files,
    name: str | None,
    options: ReadingOptions,
    encoding: TableEncoding | None = None,
    tables: tuple[DataTable, DataTable | None] | None = None,
) -> Dataset:
    """Return the data set that a table makes up, of which `tables` may have been read; a file beside it may test."""
    train, test = tables or read_tables(files)
    if test is None and isinstance(options.test, str) and train.find(options.test) is None:
        beside = files.place.parent / Path(options.test).expanduser()
        if not beside.exists():
            raise CoterieError(f"{files.place}: test = '{options.test}' is neither a column nor a file beside it")
        test, options = read_table(beside), replace(options, test=None)
    return dataset_from_table(
        name or files.label.removesuffix(".csv"), train, options, str(files.place), test, encoding
    )


def table_share(files: Files, options: ReadingOptions, encoding: TableEncoding | None) -> Dataset:
    """Return what one site has of a table; all sites must make the same inputs of theirs.

    Without an `encoding` on which they agree they name the columns, in one order, and no column has categories.
    """
    if encoding is None and options.inputs is None:
        columns = ", ".join(f'"{name}"' for name in [*read_tables(files)[0].columns][:SHOWN])
        raise CoterieError(
            f"{files.place}: sites must name the columns, in one order: write options = {{label = ..., inputs = "
            f"[...]}} into site.toml, the same at all sites; its columns are {columns}"
        )
    made = dataset_of(files, None, options, encoding)
    named = [column.name for column in made.encoding.columns if column.categories] if made.encoding else []
    if encoding is None and named:
        raise CoterieError(
            f"{files.place}: each site would number the categories of '{named[0]}' in its own way: write them as "
            "numbers, or leave the column out of inputs"
        )
    return made


@reader("table", is_table)
def table(files: Files, name: str | None = None, **options: Any) -> Dataset:
    """A table with a label column: CSV, Parquet, or a folder that save_to_disk of Hugging Face's datasets wrote."""
    return dataset_of(files, name, ReadingOptions(**options))


table.__signature__ = ReadingOptions.signature()  # type: ignore[attr-defined]

"""What a program has as a table: pandas' data frames, and Hugging Face's data sets."""

import sys
from typing import Any

import numpy as np

from coterie.data.tables.hugging_face import is_hugging_face, of_splits
from coterie.data.tables.table import DataTable, TableColumn, text_column
from coterie.errors import CoterieError, one_line


def tables_of(given: Any) -> tuple[DataTable, DataTable | None] | None:
    """Return the rows to train on and, where they are given, to test on; None for what is no table."""
    if isinstance(given, tuple) and len(given) == 2 and all(map(_is_table, given)):
        (train, _), (test, _) = map(_tables, given)
        return train, test
    return _tables(given) if _is_table(given) else None


def _is_table(given: Any) -> bool:
    return is_frame(given) or is_hugging_face(given)


def _tables(given: Any) -> tuple[DataTable, DataTable | None]:
    return (of_frame(given), None) if is_frame(given) else of_splits(given, "dataset")


def is_frame(given: Any) -> bool:
    """Say whether an object is a data frame of pandas, which is not imported for that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame)


def of_frame(frame: Any) -> DataTable:
    """Return a data frame as a table; its index is left out."""
    names = [one_line(str(name), 200) for name in frame.columns]
    if len(set(names)) < len(names):
        raise CoterieError("dataset: two columns of the data frame have one name: rename one")
    columns = [_column(frame.iloc[:, position]) for position in range(len(names))]
    return DataTable(dict(zip(names, columns, strict=True)), len(frame))


def _column(series: Any) -> TableColumn:
    import pandas

    kinds = pandas.api.types
    if kinds.is_bool_dtype(series.dtype):
        codes, texts = pandas.factorize(series)
        return text_column(codes, map(str, texts))
    if kinds.is_numeric_dtype(series.dtype) and not kinds.is_complex_dtype(series.dtype):
        values = np.asarray(series.to_numpy(np.float64, na_value=np.nan), np.float64)
        return TableColumn("number", values, fractions=kinds.is_float_dtype(series.dtype))
    codes, texts = pandas.factorize(series) if _of_plain_values(series) else (None, ())
    if codes is None:
        return TableColumn(
            "other", np.zeros(len(series)), described=f"values of type {one_line(str(series.dtype), 60)}"
        )
    return text_column(codes, map(str, texts))


def _of_plain_values(series: Any) -> bool:
    """Say whether a column holds texts, numbers and truth values only, beside missing values."""
    import pandas

    if isinstance(series.dtype, pandas.CategoricalDtype):
        return _of_plain_values(series.cat.categories.to_series())
    if not (pandas.api.types.is_string_dtype(series.dtype) or series.dtype == object):
        return False
    return all(isinstance(value, str | bool | int | float | np.generic) for value in series[series.notna()])

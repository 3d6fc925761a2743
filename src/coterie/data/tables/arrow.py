"""Columns as Apache Arrow has them: Parquet files, and the data sets of Hugging Face."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.bounded import check_unpacked, parse_json
from coterie.data.federated import Array
from coterie.data.tables.csv_files import MOST_COLUMNS
from coterie.data.tables.table import DataTable, TableColumn, text_column
from coterie.errors import CoterieError, one_line

ClassNames = Mapping[str, Sequence[str]]
"""The names of classes, for columns that hold their numbers."""

ODD = (TypeError, AttributeError, LookupError, NotImplementedError)
"""What is raised over files that were made up, beside Arrow's own exceptions."""


def read_parquet(path: Path) -> DataTable:
    """Return what a Parquet file holds; raise a ValueError where it is damaged."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise CoterieError(
            f"{path}: Parquet needs one more package: pip install 'coterie[parquet]' (or pyarrow)"
        ) from None
    try:
        with ParquetFile(path) as file:
            about = file.metadata
            if about.num_columns > MOST_COLUMNS:
                raise ValueError(f"it has {about.num_columns:,} columns, more than the {MOST_COLUMNS:,} that are read")
            announced = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
            check_unpacked(max(announced, 8 * about.num_rows * about.num_columns), path.stat().st_size)
            stored = file.read()
        stored.validate(full=True)
        return from_arrow(stored, _class_names(stored.schema.metadata or {}), path.parent)
    except (ArrowException, *ODD) as error:
        raise ValueError(one_line(str(error), 200)) from None


def _class_names(metadata: Mapping[bytes, bytes]) -> ClassNames:
    """Return the names of classes that Hugging Face writes into the files of its data sets."""
    try:
        features = parse_json(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {name: list(map(str, about["names"])) for name, about in features.items() if "names" in about}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def from_arrow(stored: Any, class_names: ClassNames, folder: Path | None = None) -> DataTable:
    """Return a table of Arrow's; images that are only named must lie in the `folder` of the file, if it is of one."""
    names = [one_line(str(name), 200) for name in stored.column_names]
    if len(set(names)) < len(names):
        raise ValueError("two of its columns have one name")
    columns = {}
    for name, values in zip(names, stored.columns, strict=True):
        columns[name] = _column(
            values.combine_chunks() if values.num_chunks != 1 else values.chunk(0), class_names.get(name), folder
        )
    return DataTable(columns, stored.num_rows)


def _column(values: Any, class_names: Sequence[str] | None, folder: Path | None) -> TableColumn:
    """Return a column of one of Arrow's types."""
    from pyarrow import types

    kind = values.type
    if isinstance(values, _extension_array()):
        return _column(values.storage, class_names, folder)
    if types.is_boolean(kind):
        codes = values.cast("int8").fill_null(-1).to_numpy(zero_copy_only=False)
        return text_column(codes, ("False", "True"))
    if class_names and types.is_integer(kind):
        codes = values.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        if len(codes) and not -1 <= codes.min() <= codes.max() < len(class_names):
            raise ValueError(f"it has a label beyond its {len(class_names)} classes")
        return text_column(codes, class_names)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return TableColumn("number", np.asarray(numbers, np.float64), fractions=not types.is_integer(kind))
    if types.is_dictionary(kind) and _is_text(kind.value_type):
        codes = values.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        return text_column(codes, [text or "" for text in values.dictionary.to_pylist()])
    if _is_text(kind):
        return _column(values.dictionary_encode(), None, folder)
    if types.is_struct(kind) and _holds_images({field.name: field.type for field in kind}):
        return _images(values, folder)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _nested(values)
    return TableColumn("other", np.zeros(len(values)), described=f"values of type {one_line(str(kind), 60)}")


def _extension_array() -> Any:
    from pyarrow import ExtensionArray

    return ExtensionArray


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _holds_images(fields: Mapping[str, Any]) -> bool:
    """Say whether a struct is what Hugging Face has for an image: its bytes, and where they came from."""
    from pyarrow import types

    if not {"bytes", "path"} <= fields.keys():
        return False
    packed, path = fields["bytes"], fields["path"]
    binary = types.is_binary(packed) or types.is_large_binary(packed) or types.is_binary_view(packed)
    return bool((binary or types.is_null(packed)) and (_is_text(path) or types.is_null(path)))


def _images(values: Any, folder: Path | None) -> TableColumn:
    """Return packed images; one that is only named by a path is read from there."""
    contents = np.empty(len(values), object)
    for row, image in enumerate(values.to_pylist()):
        content, path = (image or {}).get("bytes"), (image or {}).get("path") or ""
        if content is None and not path:
            return TableColumn("other", np.zeros(len(values)), described=f"images of which row {row + 1} is missing")
        contents[row] = content if content is not None else inside(path, folder)
    return TableColumn("image", contents)


def inside(path: str, folder: Path | None) -> Path:
    """Return where an image is; a file that others made may name those in its folder only."""
    if folder is None:
        return Path(path)
    place = os.path.abspath(folder / path)
    if not Path(place).is_relative_to(os.path.abspath(folder)):
        raise ValueError(f"it names an image outside of its folder, '{one_line(path, 100)}': pack images into it")
    return Path(place)


def _nested(values: Any) -> TableColumn:
    """Return arrays that have one shape; NaN and missing ones are refused later."""
    import pyarrow.compute as pc
    from pyarrow import types

    shape, rows = [len(values)], values
    while types.is_list(rows.type) or types.is_large_list(rows.type) or types.is_fixed_size_list(rows.type):
        lengths = pc.list_value_length(rows).unique().to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            return TableColumn("other", np.zeros(shape[0]), described="lists of several lengths")
        shape.append(lengths[0])
        rows = rows.flatten()
    if not (types.is_integer(rows.type) or types.is_floating(rows.type)) or rows.null_count:
        return TableColumn("other", np.zeros(shape[0]), described=f"lists of type {one_line(str(rows.type), 60)}")
    numbers: Array = rows.to_numpy(zero_copy_only=False).reshape(shape)
    return TableColumn("array", numbers)

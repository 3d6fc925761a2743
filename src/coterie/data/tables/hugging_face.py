"""The data sets of Hugging Face: loaded ones, and folders that ``save_to_disk`` wrote."""

import sys
from pathlib import Path, PurePosixPath
from typing import Any

from coterie.bounded import LARGEST_ARRAYS, parse_json, read_text
from coterie.data.tables.arrow import ODD, from_arrow
from coterie.data.tables.rows import VALIDATION
from coterie.data.tables.table import DataTable
from coterie.errors import CoterieError, one_line

ONE, SEVERAL = "state.json", "dataset_dict.json"
"""What a folder has in which a data set, or one with several splits, was saved."""


def read_saved(folder: Path) -> tuple[DataTable, DataTable | None]:
    """Return the rows of a folder to train on and, where it has such, to test on."""
    try:
        import datasets
        from pyarrow import ArrowException
    except ImportError:
        raise CoterieError(
            f"'{folder}' was saved by Hugging Face's datasets, which is needed to read it: pip install "
            "'coterie[huggingface]' (or datasets)"
        ) from None
    bars = datasets.is_progress_bar_enabled()
    try:
        _check(folder)
        datasets.disable_progress_bars()
        return of_splits(datasets.load_from_disk(str(folder)), str(folder), folder)
    except (ArrowException, *ODD) as error:
        raise ValueError(one_line(f"{type(error).__name__}: {error}", 200)) from None
    finally:
        if bars:
            datasets.enable_progress_bars()


def _check(folder: Path) -> None:
    """Refuse folders whose lists of files lead elsewhere, or name more than is read."""
    splits = [PurePosixPath(".")]
    if (folder / SEVERAL).is_file():
        splits = [PurePosixPath(str(name)) for name in parse_json(read_text(folder / SEVERAL))["splits"]]
    files = []
    for split in splits:
        state = parse_json(read_text(folder / split / ONE))
        parse_json(read_text(folder / split / "dataset_info.json"))
        listed = [*(state.get("_data_files") or []), *(state.get("_indices_files") or [])]
        files += [split / str(file["filename"]) for file in listed]
    if odd := [path for path in (*splits, *files) if path.is_absolute() or ".." in path.parts]:
        raise ValueError(f"it names a file outside of it, '{one_line(str(odd[0]), 100)}'")
    if sum((folder / file).stat().st_size for file in files) > LARGEST_ARRAYS:
        raise ValueError(f"it holds more than the {LARGEST_ARRAYS:,} bytes that are read")


def is_hugging_face(given: Any) -> bool:
    """Say whether an object is a data set of Hugging Face; the package is not imported for that."""
    package = sys.modules.get("datasets")
    return package is not None and isinstance(given, package.Dataset | package.DatasetDict)


def of_splits(given: Any, place: str, folder: Path | None = None) -> tuple[DataTable, DataTable | None]:
    """Return the tables of a data set, or of the splits of one that are called train and test, or validation.

    In a `folder` that it was read from lie the images that it only names.
    """
    if not isinstance(given, dict):
        return of_dataset(given, folder), None
    testing = next((name for name in ("test", *VALIDATION) if name in given), None)
    if "train" not in given:
        there = one_line(", ".join(map(str, given)) or "nothing", 200)
        raise CoterieError(f"{place} has no split 'train', only {there}: give the one to train on, dataset[...]")
    return of_dataset(given["train"], folder), None if testing is None else of_dataset(given[testing], folder)


def of_dataset(given: Any, folder: Path | None = None) -> DataTable:
    """Return the table of a data set; labels have the names that it knows."""
    names = {name: feature.names for name, feature in given.features.items() if type(feature).__name__ == "ClassLabel"}
    stored = given.with_format("arrow")[:]
    stored.validate(full=True)
    return from_arrow(stored, names, folder)

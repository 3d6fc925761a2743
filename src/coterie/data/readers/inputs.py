"""Inputs to predict labels for: arrays in an .npz file, rows of a table, an image, or a folder of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from coterie.data.federated import Array
from coterie.data.readers.arrays import as_texts, checked_inputs
from coterie.data.readers.files import look
from coterie.data.readers.images import is_image, read_images
from coterie.data.readers.npz import read_unlabelled
from coterie.data.readers.tables import is_table, read_table
from coterie.data.tables.encoding import TableEncoding
from coterie.data.tables.table import DataTable, levels
from coterie.errors import CoterieError

_RESIZE = "add --resize, which takes the middle square of each, at the size of training"


@dataclass(frozen=True)
class Inputs:
    """Raw inputs (n, *shape), as they were in training."""

    x: Array
    labels: Array | None = None
    """Of the inputs, where they are known: numbers of classes, -1 for names that no class has; or floats to predict."""
    files: tuple[str, ...] = ()
    """Of images, where each is."""
    notes: tuple[str, ...] = ()
    """What is odd about them, a sentence each."""

    def agreement(self, labels: Array) -> list[str]:
        """Say how many labels are those that the inputs came with, where these are known; of numbers, how far off."""
        if self.labels is not None and labels.dtype.kind == "f":
            known = np.isfinite(self.labels)
            error = float(np.mean(np.abs(labels[known] - self.labels[known]))) if known.any() else 0.0
            return [f"mean absolute error {error:.4g} against the numbers in the file"] if known.any() else []
        if self.labels is None or not (known := self.labels >= 0).any():
            return []
        whose = "the folders that they are in" if self.files else "the labels in the file"
        among = "" if known.all() else f"of the {int(known.sum())} with a known label "
        return [f"{100 * float(np.mean(labels[known] == self.labels[known])):.2f} % {among}agree with {whose}"]


def read_inputs(
    path: Path,
    shape: tuple[int, ...],
    options: Mapping[str, Any] | None = None,
    class_names: Sequence[str] = (),
    encoding: TableEncoding | None = None,
    resize: bool = False,
    numbers: bool = False,
) -> Inputs:
    """Read inputs of a shape from an .npz file, a table, an image, or all images below a folder.

    `options` are those with which training data were read: images become as high and wide as those, if these had a
    size, or with `resize`. Their labels are the folders that they are in, where these are called like classes. Rows of
    a table become inputs by `encoding`. With `numbers` labels are numbers to predict.
    """
    if not path.exists():
        raise CoterieError(f"there is no file or folder '{path}'")
    if is_table(look(path)):
        inputs = rows_as_inputs(read_table(path), str(path), encoding, class_names, numbers)
    elif path.is_dir() or is_image(path.name):
        inputs = _images(path, shape, options or {}, class_names, resize)
    else:
        x, y = read_unlabelled(path)
        if y is not None and y.shape != (len(x),):
            raise CoterieError(f"{path}: {len(x)} inputs, but labels of shape {y.shape}")
        named = y is not None and y.dtype.kind in "US"
        inputs = Inputs(x, _numbers(as_texts(y), class_names) if y is not None and named else y)
    if inputs.x.shape[1:] != shape:
        hint = f": {_RESIZE}" if inputs.files and _is_square(shape) else ""
        raise CoterieError(
            f"{path}: inputs have the shape {inputs.x.shape[1:]}, but the network was trained on {shape}{hint}"
        )
    return inputs


def rows_as_inputs(
    table: DataTable,
    place: str,
    encoding: TableEncoding | None,
    class_names: Sequence[str],
    numbers: bool = False,
) -> Inputs:
    """Return the rows of a table as inputs, with their labels where it has that column."""
    if encoding is None:
        raise CoterieError(
            f"{place} is a table, but the network was not trained on one: save its inputs as 'x' in an .npz file"
        )
    x, notes = encoding.encode(table, place)
    if encoding.label not in table.columns:
        return Inputs(x, notes=tuple(notes))
    if numbers:
        label = table.columns[encoding.label]
        return Inputs(x, label.values if label.kind == "number" else None, notes=tuple(notes))
    codes, names = levels(table.columns[encoding.label], f"{place}: column '{encoding.label}'")
    return Inputs(x, np.array([*_numbers(names, class_names), -1])[codes], notes=tuple(notes))


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[1] == shape[2]


def _images(
    path: Path, shape: tuple[int, ...], options: Mapping[str, Any], class_names: Sequence[str], resize: bool
) -> Inputs:
    """Read an image, or all below a folder, in as many colours as there were in training."""
    if len(shape) != 3:
        raise CoterieError(f"'{path}' holds images, but the network was trained on inputs of the shape {shape}")
    names = [name for name in look(path).names if is_image(name)] if path.is_dir() else [path.name]
    if not names:
        raise CoterieError(f"there are no images below '{path}': PNG or JPEG files are read")
    folder = path if path.is_dir() else path.parent
    if resize and not _is_square(shape):
        raise CoterieError(f"--resize makes squares, but the network was trained on {shape[2]} x {shape[1]}: cut them")
    size = shape[1] if resize else options.get("size")
    x = read_images([folder / name for name in names], size, shape[0] == 1, _RESIZE)
    if x.ndim == 3 and shape[0] == 3:
        x = np.repeat(x[..., None], 3, axis=3)
    labels = _numbers([PurePosixPath(name).parent.name for name in names], class_names)
    known = bool((labels >= 0).all())
    return Inputs(checked_inputs(x, str(path)), labels if known else None, tuple(names))


def _numbers(texts: Sequence[str], class_names: Sequence[str]) -> Array:
    """Return the numbers of classes; -1 for what is none."""
    number = {name: k for k, name in enumerate(class_names)}
    return np.array([number.get(text, -1) for text in texts], np.int64)

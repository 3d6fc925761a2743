"""SVHN's cropped digits, in files of MATLAB (version 5)."""

from typing import IO

import numpy as np

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files
from coterie.data.readers.formats import reader
from coterie.data.readers.mat import read_mat

_WHAT = "SVHN's .mat files"
_TRAIN, _TEST = "train_32x32.mat", "test_32x32.mat"


def _recognises(files: Files) -> bool:
    return files.head().startswith(b"MATLAB 5.0 MAT-file") or bool({_TRAIN, _TEST} & set(files.bases))


@reader("svhn", _recognises)
def svhn(files: Files, name: str | None = None) -> Dataset:
    """SVHN's cropped digits, train_32x32.mat with test_32x32.mat beside it."""
    given = {_TRAIN, _TEST} & set(files.bases)
    train = _TRAIN if given else files.place.name  # any other name is a training part by itself
    parts = {"train": train} | ({"test": _TEST} if given and files.has(_TEST) else {})
    read = files.read(dict.fromkeys(parts.values(), _parse), _WHAT)
    arrays = {}
    for part, base in parts.items():
        arrays[f"x_{part}"], arrays[f"y_{part}"] = read[base]
    return dataset_from_arrays(name or "svhn", arrays, str(files.place), classes=10)


def _parse(stream: IO[bytes]) -> tuple[Array, Array]:
    """Return images (n, height, width, 3) and labels, of which the file calls the digit zero 10."""
    variables = read_mat(stream, ("X", "y"))
    x, y = (variables.get(key, np.zeros(0)) for key in ("X", "y"))
    if x.ndim != 4 or x.dtype != np.uint8 or y.dtype.kind not in "iuf" or y.size != x.shape[-1]:
        raise ValueError(
            f"it should hold images X (height, width, 3, n) and labels y (n, 1), but holds X {x.shape} and y {y.shape}"
        )
    if not np.isin(y, np.arange(11)).all():
        raise ValueError(f"its labels go from {y.min()} to {y.max()}, but should from 1 to 10")
    return np.moveaxis(x, 3, 0), y.astype(np.int64).ravel() % 10

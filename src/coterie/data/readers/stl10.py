"""STL-10 in binary: labelled images of 96 x 96, which are made smaller while they are read."""

from functools import partial
from typing import IO, Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import LARGEST, Files, everything
from coterie.data.readers.formats import reader
from coterie.errors import CoterieError

_SIDE = 96
_IMAGE = 3 * _SIDE * _SIDE
_FILES = {
    f"{what}_{part}": f"{part}_{letter}.bin" for part in ("train", "test") for what, letter in (("x", "X"), ("y", "y"))
}

Size = Annotated[int, Ge(1), Le(_SIDE), "Images become this high and wide, by averaging; it must divide 96."]


def _recognises(files: Files) -> bool:
    in_archive = files.kind == "tar" and next(iter(files.names), "").split("/")[0] == "stl10_binary"
    return in_archive or bool(set(_FILES.values()) & set(files.bases))


@reader("stl10", _recognises)
def stl10(files: Files, name: str | None = None, *, size: Size = 32) -> Dataset:
    """STL-10 in binary, train_X.bin, train_y.bin, test_X.bin and test_y.bin or stl10_binary.tar.gz."""
    if _SIDE % size:
        divisors = ", ".join(str(d) for d in range(1, _SIDE + 1) if _SIDE % d == 0)
        raise CoterieError(f"format 'stl10': size = {size} is not valid: choose one of {divisors}")
    parsers = {base: partial(_images, size=size) if base.endswith("X.bin") else _labels for base in _FILES.values()}
    read = files.read(parsers, "STL-10 in binary")
    arrays = {key: read[base] for key, base in _FILES.items()}
    return dataset_from_arrays(name or "stl10", arrays, str(files.place), classes=10)


def _images(stream: IO[bytes], size: int) -> Array:
    """Return images (n, 3, size, size); the file has them column by column."""
    pieces, block = [], _SIDE // size
    total = 0
    while content := stream.read(500 * _IMAGE):
        while len(content) % _IMAGE and (more := stream.read(_IMAGE - len(content) % _IMAGE)):
            content += more
        total += len(content)
        if len(content) % _IMAGE or total > LARGEST:
            raise ValueError(f"it has not {_IMAGE} bytes for each image, or more than {LARGEST} in all")
        columns = np.frombuffer(content, np.uint8).reshape(-1, 3, size, block, size, block)
        pieces.append(np.rint(columns.mean(axis=(3, 5))).astype(np.uint8).swapaxes(2, 3))
    if not pieces:
        raise ValueError("it is empty")
    return np.concatenate(pieces)


def _labels(stream: IO[bytes]) -> Array:
    labels = np.frombuffer(everything(stream, 2**24), np.uint8).astype(np.int64)
    if len(labels) == 0 or labels.min() < 1 or labels.max() > 10:
        raise ValueError("its labels should be 1 to 10")
    return labels - 1

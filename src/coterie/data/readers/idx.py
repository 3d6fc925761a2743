"""IDX files, in which MNIST and its relatives come: big-endian arrays behind a short header."""

import math
import re
import struct
from typing import IO, Annotated

import numpy as np

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import Classes, dataset_from_arrays
from coterie.data.readers.files import Files, exactly, only
from coterie.data.readers.formats import reader
from coterie.errors import CoterieError, suggestion

_WHAT = "IDX files"
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_NAME = re.compile(r"(?P<set>.*?)[-_.]?(?P<part>train|t10k|test)-(?P<what>images|labels)[-.]idx\d-ubyte(\.gz)?")
_EMNIST = "emnist-"

Split = Annotated[str | None, "Which of several sets, by how its files begin: balanced, letters, ... of EMNIST."]


def _recognises(files: Files) -> bool:
    start = files.head()[:4]
    by_content = start[:2] == b"\0\0" and len(start) == 4 and start[2] in _TYPES and 1 <= start[3] <= 4
    return by_content or any(_NAME.fullmatch(base) for base in files.bases)


@reader("idx", _recognises)
def idx(files: Files, name: str | None = None, *, split: Split = None, classes: Classes = None) -> Dataset:
    """IDX files, plain or gzipped, as MNIST, Fashion-MNIST and EMNIST come."""
    chosen, names = _chosen(files, split)
    arrays = files.read(dict.fromkeys(names.values(), parse), _WHAT)
    parts = {key: arrays[base] for key, base in names.items()}
    if chosen.startswith(_EMNIST):
        for key in parts:
            if key.startswith("x"):  # EMNIST has rows and columns exchanged
                parts[key] = parts[key].swapaxes(1, 2)
            elif chosen == f"{_EMNIST}letters":  # whose labels start at 1
                parts[key] = parts[key].astype(np.int64) - 1
    usual = "emnist" if chosen.startswith(_EMNIST) else chosen
    where = files.place.absolute().parent.name if files.kind == "file" else files.label
    return dataset_from_arrays(name or usual or where, parts, str(files.place), classes=classes)


def parse(stream: IO[bytes]) -> Array:
    """Read one array; what the header announces must be what follows."""
    zeros, kind, dimensions = struct.unpack(">HBB", exactly(stream, 4))
    if zeros or kind not in _TYPES:
        raise ValueError("it does not begin as an IDX file does")
    shape = struct.unpack(f">{dimensions}I", exactly(stream, 4 * dimensions))
    dtype = np.dtype(_TYPES[kind])
    content = only(stream, math.prod(shape) * dtype.itemsize)
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _chosen(files: Files, split: str | None) -> tuple[str, dict[str, str]]:
    """Return the set of files to be read, and its files by x_train, y_train, and if there, x_test and y_test."""
    matches = [(match["set"], base[: match.start("part")]) for base in files.bases if (match := _NAME.fullmatch(base))]
    sets = dict(sorted(matches))
    short = [name.removeprefix(_EMNIST) for name in sets]
    wanted = [name for name in sets if split is None or name in (split, _EMNIST + split)]
    if not sets:
        raise CoterieError(
            f"{files.place} is an IDX file, but by its name it is not known which of a data set: it should be called "
            "train-images-idx3-ubyte, with train-labels-idx1-ubyte beside it"
        )
    if not wanted:
        raise CoterieError(f"{files.place} has no set '{split}': {suggestion(str(split), short)}")
    if len(wanted) > 1:
        raise CoterieError(
            f"{files.place} holds several sets: choose one with split = {' or '.join(filter(None, short))}"
        )
    names = _names(files, sets[wanted[0]])
    if not any(files.has(names[key]) for key in ("x_test", "y_test")):
        names = {key: base for key, base in names.items() if key.endswith("train")}
    return wanted[0], names


def _names(files: Files, beginning: str) -> dict[str, str]:
    """Return the names of a set's files as they are here, or as they should be."""
    names = {}
    for key, parts in (("train", ["train"]), ("test", ["t10k", "test"])):
        for letter, what in (("x", "images-idx3"), ("y", "labels-idx1")):
            stems = [f"{beginning}{part}-{kind}-ubyte" for part in parts for kind in (what, what.replace("-", "."))]
            usual = [stem + ending for stem in stems for ending in ("", ".gz")]
            names[f"{letter}_{key}"] = next(filter(files.has, usual), usual[0])
    return names

"""SVHN's cropped digits, in MATLAB's files of version 5, of which arrays of numbers are read.

SciPy reads these files too, but a single garbled byte can make its reader crash the whole process.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import IO

import numpy as np

from coterie.bounded import check_unpacked
from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, exactly
from coterie.data.readers.formats import reader

_TRAIN, _TEST = "train_32x32.mat", "test_32x32.mat"
_HEADER = 128
_COMPRESSED, _MATRIX = 15, 14
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800


def _recognises(files: Files) -> bool:
    return files.head().startswith(b"MATLAB 5.0 MAT-file") or bool({_TRAIN, _TEST} & set(files.bases))


@reader("svhn", _recognises)
def svhn(files: Files, name: str | None = None) -> Dataset:
    """SVHN's cropped digits, train_32x32.mat with test_32x32.mat beside it."""
    given = {_TRAIN, _TEST} & set(files.bases)
    train = _TRAIN if given else files.place.name  # any other name is a training part by itself
    parts = {"train": train} | ({"test": _TEST} if given and files.has(_TEST) else {})
    read = files.read(dict.fromkeys(parts.values(), _parse), "SVHN's .mat files")
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


def read_mat(stream: IO[bytes], wanted: Collection[str]) -> dict[str, Array]:
    """Return those variables that are wanted, of which all must be arrays of real numbers."""
    header = bytes(exactly(stream, _HEADER))
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
    if order is None or not header.startswith(b"MATLAB 5.0"):
        raise ValueError("it is not a MATLAB file of version 5 (save it with -v6 or -v7)")
    variables: dict[str, Array] = {}
    while len(variables) < len(wanted) and (tag := stream.read(8)):
        kind, size = struct.unpack(f"{order}II", tag)
        content = bytes(exactly(stream, size))
        if kind == _COMPRESSED:
            kind, content = _decompressed(content, order)
        if kind == _MATRIX:
            name, array = _matrix(content, order, wanted)
            if array is not None:
                variables[name] = array
    return variables


def _decompressed(content: bytes, order: str) -> tuple[int, bytes]:
    """Return the one element inside a compressed one; no more is unpacked than it says it has."""
    unpacking = zlib.decompressobj()
    kind, size = struct.unpack(f"{order}II", unpacking.decompress(content, 8))
    check_unpacked(size, len(content))
    element = bytearray()
    while len(element) < size:
        piece = unpacking.decompress(unpacking.unconsumed_tail, min(2**20, size - len(element)))
        if not piece:
            raise ValueError(f"it ends after {len(element)} of {size} bytes")
        element += piece
    if unpacking.decompress(unpacking.unconsumed_tail, 1) or not unpacking.eof:  # its checksum comes last
        raise ValueError(f"it goes on after the {size} bytes that it should have")
    return kind, bytes(element)


def _matrix(content: bytes, order: str, wanted: Collection[str]) -> tuple[str, Array | None]:
    elements = _elements(content, order)
    try:
        flags, sizes, name = (next(elements) for _ in range(3))
        text = name[1].decode("ascii", "replace")
        if text not in wanted:
            return text, None
        what = struct.unpack_from(f"{order}I", flags[1])[0]
        shape = tuple(np.frombuffer(sizes[1], f"{order}i4").tolist())
        kind, numbers = next(elements)
    except StopIteration:
        raise ValueError("one of its variables is not complete") from None
    if what & 0xFF not in _CLASSES or what & _COMPLEX or kind not in _NUMBERS:
        raise ValueError(f"its variable '{text}' is no array of real numbers")
    array = np.frombuffer(numbers, np.dtype(f"{order}{_NUMBERS[kind]}"))
    if min(shape, default=0) < 0 or math.prod(shape) != len(array):
        raise ValueError(f"its variable '{text}' has {len(array)} numbers, which are not {shape}")
    return text, array.reshape(shape, order="F").astype(_CLASSES[what & 0xFF], copy=False)


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Go through the parts of a variable: each has a type and a size before it, and is filled up to 8 bytes."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # up to 4 bytes stand in the place of the size
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(content) or (start == at + 4 and size > 4):
            raise ValueError("one of its variables is not complete")
        yield kind, content[start : start + size]
        at = start + size + -(start + size) % 8

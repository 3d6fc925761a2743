"""CIFAR-10 and CIFAR-100, in the versions for Python and in binary, unpacked or as the archive."""

from collections.abc import Callable
from functools import partial
from typing import IO, Annotated, Literal

import numpy as np

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, everything
from coterie.data.readers.formats import reader
from coterie.data.readers.unpickling import loads

_IMAGE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_BATCH_LIMIT = 2**30
_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]

Parsed = tuple[Array, Array]
"""Images (n, 3, 32, 32) and labels (n,)."""

Labels = Annotated[Literal["fine", "coarse"], "The 100 classes of CIFAR-100, or its 20 superclasses."]


def _version(files: Files) -> tuple[str, str] | None:
    """Return which data set it is, and the ending of its files."""
    bases = set(files.bases)
    for name, marks in (("cifar10", {*_BATCHES, "test_batch"}), ("cifar100", {"train", "test"})):
        for ending in ("", ".bin"):
            if bases & {mark + ending for mark in marks}:
                return name, ending
    top = next(iter(files.names), "").split("/")[0]
    version = {"cifar-10-batches-py": ("cifar10", ""), "cifar-10-batches-bin": ("cifar10", ".bin")}
    version |= {"cifar-100-python": ("cifar100", ""), "cifar-100-binary": ("cifar100", ".bin")}
    return version.get(top)


def _recognises(files: Files) -> bool:
    version = _version(files)
    if version == ("cifar100", "") and files.kind != "tar":  # files called train and test say little by themselves
        return all(
            files.head(files.bases.get(base, base))[:1] == b"\x80" for base in ("train", "test") if files.has(base)
        )
    return version is not None


@reader("cifar", _recognises)
def cifar(files: Files, name: str | None = None, *, labels: Labels = "fine") -> Dataset:
    """CIFAR-10 or CIFAR-100, python or binary version, as a folder or a .tar.gz archive."""
    version, ending = _version(files) or ("cifar10", "")
    parts = (
        {"train": _BATCHES, "test": ["test_batch"]} if version == "cifar10" else {"train": ["train"], "test": ["test"]}
    )
    classes = 10 if version == "cifar10" else {"fine": 100, "coarse": 20}[labels]
    parse: Callable[[IO[bytes]], Parsed]
    if ending:
        parse = partial(_binary, label_bytes=1 if version == "cifar10" else 2, which=-1 if labels == "fine" else 0)
    else:
        parse = partial(_pickled, key="labels" if version == "cifar10" else f"{labels}_labels")
    wanted = [f"{batch}{ending}" for batches in parts.values() for batch in batches]
    read = files.read(dict.fromkeys(wanted, parse), f"{'CIFAR-10' if version == 'cifar10' else 'CIFAR-100'} files")
    arrays = {}
    for part, batches in parts.items():
        arrays[f"x_{part}"] = np.concatenate([read[batch + ending][0] for batch in batches])
        arrays[f"y_{part}"] = np.concatenate([read[batch + ending][1] for batch in batches])
    return dataset_from_arrays(name or version, arrays, str(files.place), classes=classes)


def _pickled(stream: IO[bytes], key: str) -> Parsed:
    """Read a batch of the version for Python: a dictionary with an array of pixels and a list of labels."""
    batch = loads(everything(stream, _BATCH_LIMIT))
    if not isinstance(batch, dict):
        raise ValueError("it holds no dictionary")
    by_name = {k.decode("ascii", "replace") if isinstance(k, bytes) else k: value for k, value in batch.items()}
    images, labels = by_name.get("data"), by_name.get(key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,):
        raise ValueError(f"it has no array 'data' of bytes, {_PIXELS} an image")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError(f"it has no list '{key}' of integers")
    return images.reshape(-1, *_IMAGE), np.array(labels, np.int64)


def _binary(stream: IO[bytes], label_bytes: int, which: int) -> Parsed:
    """Read a batch of the binary version: for each image its labels, then its pixels."""
    content = np.frombuffer(everything(stream, _BATCH_LIMIT), np.uint8)
    size = label_bytes + _PIXELS
    if len(content) == 0 or len(content) % size:
        raise ValueError(f"it has {len(content)} bytes, not {size} for each image")
    rows = content.reshape(-1, size)
    labels = rows[:, :label_bytes][:, which].astype(np.int64)
    return rows[:, label_bytes:].reshape(-1, *_IMAGE), labels

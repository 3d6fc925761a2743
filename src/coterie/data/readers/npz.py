"""NumPy's ``.npz`` files, the way to bring one's own data; which arrays they hold is said in `arrays`."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.errors import CoterieError

_KEYS = "x_train and y_train, and optionally x_test and y_test"

# What NumPy and zipfile raise over files that were cut short, garbled, or never were .npz files; a garbled
# header may also ask for more memory than there is, or for a compression or password that nobody set.
_DAMAGE = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_npz(path: Path) -> Dataset:
    """Read a pooled data set, named after its file; pickled objects are never loaded."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            arrays = {key: _array(archive, key, path) for key in _wanted(found, path)}
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise CoterieError(
            f"{path} cannot be read as an .npz file ({reason}): it may be cut short or damaged; make or fetch it again"
        ) from error
    return dataset_from_arrays(path.stem, arrays, str(path))


def _wanted(found: set[str], path: Path) -> list[str]:
    """Return the arrays to be read, after checking that those are there which must be."""
    if "x_train" not in found and "x_train_webp" in found:
        raise CoterieError(
            f"{path} holds packed images (x_train_webp): unpack it first, with the unpack.py that comes with it"
        )
    wanted = {"x_train", "y_train"} | (found & {"user_train"})
    if found & {"x_test", "y_test"}:
        wanted |= {"x_test", "y_test"}
    missing = sorted(wanted - found)
    if missing:
        raise CoterieError(
            f"{path} has no '{missing[0]}', only {', '.join(sorted(found)) or 'nothing'}: it must hold {_KEYS}"
        )
    return sorted(wanted)


def _array(archive: zipfile.ZipFile, key: str, path: Path) -> Array:
    try:
        with archive.open(f"{key}.npy") as member:
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise CoterieError(
            f"{path}: '{key}' is an array of Python objects, which are not loaded, as they could run code: "
            "save it as an array of numbers"
        ) from None

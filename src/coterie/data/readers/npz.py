"""NumPy's ``.npz`` files, the way to bring one's own data; which arrays they hold is said in `arrays`."""

import difflib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coterie.bounded import check_unpacked, map_npz_array, open_zip, read_npz_array
from coterie.data.federated import Array, Dataset
from coterie.data.on_demand import MEMORY
from coterie.data.readers.arrays import USED_AS_THEY_ARE, Classes, ClassNames, checked_inputs, dataset_from_arrays
from coterie.data.readers.files import Files, reading
from coterie.data.readers.formats import reader
from coterie.errors import CoterieError

_KNOWN = ("x_train", "y_train", "x_test", "y_test", "user_train", "attributes", "attribute_names")
_NEAR = 0.85
"""How alike two names are of which one is a misspelling; arrays of other names may be there, and are left alone."""
_KEYS = "x_train and y_train, and optionally x_test and y_test"


def _recognises(files: Files) -> bool:
    arrays = {name for name in files.names if name.endswith(".npy")} if files.kind == "zip" else set()
    named_so = files.kind in ("zip", "file") and files.place.suffix == ".npz"
    return (named_so or bool(arrays)) and "role_off.npy" not in arrays


@reader("npz", _recognises)
def npz(files: Files, name: str | None = None, *, classes: Classes = None, class_names: ClassNames = None) -> Dataset:
    """An .npz file of NumPy with x_train and y_train, and optionally x_test, y_test, user_train and attributes."""
    return read_npz(files.place, name, classes, class_names)


def read_npz(
    path: Path, name: str | None = None, classes: int | None = None, class_names: Sequence[str] | None = None
) -> Dataset:
    """Read a pooled data set, by default named after its file; pickled objects are never loaded."""
    arrays = read_arrays(path, _wanted)
    return dataset_from_arrays(name or path.stem, arrays, str(path), classes=classes, class_names=class_names)


def read_arrays(path: Path, wanted: Callable[[set[str], Path], Iterable[str]]) -> dict[str, Array]:
    """Read those arrays of a file that `wanted` chooses from all that there are."""
    with _opened(path) as (archive, keys):
        chosen = list(wanted(keys, path))
        check_unpacked(sum(archive.getinfo(f"{key}.npy").file_size for key in chosen), path.stat().st_size)
        return {key: _array(archive, key, path) for key in chosen}


def read_unlabelled(path: Path) -> tuple[Array, Array | None]:
    """Read the inputs of a file, ``x`` or ``x_test``, and their labels ``y`` or ``y_test`` if there are any."""
    with _opened(path) as (archive, keys):
        key = next((key for key in ("x", "x_test") if key in keys), None)
        if key is None:
            raise CoterieError(f"{path} has no 'x', only {', '.join(sorted(keys)) or 'nothing'}")
        x = checked_inputs(_array(archive, key, path), f"{path}: {key}")
        labels = key.replace("x", "y")
        return x, _array(archive, labels, path) if labels in keys else None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, set[str]]]:
    """Open a file and list its arrays; whatever shows that it is damaged ends in one kind of error."""
    with reading(path, "an .npz file"), path.open("rb") as file, open_zip(file) as archive:
        yield archive, {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}


def _wanted(keys: set[str], path: Path) -> list[str]:
    """Return the arrays to be read, after checking that those are there which must be."""
    if "x_train" not in keys and "x_train_webp" in keys:
        raise CoterieError(
            f"{path} holds packed images (x_train_webp): unpack it first, with the unpack.py that comes with it"
        )
    if wrong := next((key for key in sorted(keys) if _meant(key, keys)), None):
        raise CoterieError(
            f"{path} has an array '{wrong}', which is not read: did you mean '{_meant(wrong, keys)}'? Rename it"
        )
    wanted = {"x_train", "y_train"} | (keys & {"user_train", "attributes", "attribute_names"})
    if keys & {"x_test", "y_test"}:
        wanted |= {"x_test", "y_test"}
    missing = sorted(wanted - keys)
    if missing:
        raise CoterieError(
            f"{path} has no '{missing[0]}', only {', '.join(sorted(keys)) or 'nothing'}: it must hold {_KEYS}"
        )
    return sorted(wanted)


def _meant(key: str, keys: set[str]) -> str | None:
    """Return which array of ours one was probably meant to be, that is nearly called so."""
    if key in _KNOWN:
        return None
    near = difflib.get_close_matches(key.casefold(), [known for known in _KNOWN if known not in keys], 1, _NEAR)
    return near[0] if near else None


def _array(archive: zipfile.ZipFile, key: str, path: Path) -> Array:
    """Return an array; large inputs that are not packed stay in the file."""
    large = archive.getinfo(f"{key}.npy").file_size > MEMORY and key.startswith("x_")
    try:
        mapped = map_npz_array(archive, key) if large else None
        return mapped if mapped is not None and mapped.dtype in USED_AS_THEY_ARE else read_npz_array(archive, key)
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise CoterieError(
            f"{path}: '{key}' is an array of Python objects, which are not loaded, as they could run code: "
            "save it as an array of numbers, or of texts (such as y.astype(str))"
        ) from None

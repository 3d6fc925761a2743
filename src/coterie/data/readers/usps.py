"""USPS, as LIBSVM's text files or as an HDF5 file."""

import re
from typing import IO

import numpy as np

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, everything, reading
from coterie.data.readers.formats import reader
from coterie.errors import CoterieError

_SIDE = 16
_PIXELS = _SIDE * _SIDE
_LIMIT = 2**28
_LINE = re.compile(rb"\s*\d+(\.0*)? +1:\S+( +\d+:\S+)*")


@reader("usps-libsvm", lambda files: bool(_LINE.match(files.head()) or {"usps", "usps.bz2"} & set(files.bases)))
def usps_text(files: Files, name: str | None = None) -> Dataset:
    """USPS in LIBSVM's text format, usps.bz2 with usps.t.bz2 beside it."""
    train = files.place.name if files.kind == "file" else next(b for b in ("usps", "usps.bz2") if b in files.bases)
    test = re.sub(r"^usps(?!\.t)", "usps.t", train)
    names = [train, test] if test != train and files.has(test) else [train]
    read = files.read(dict.fromkeys(names, _parse), "USPS in LIBSVM's format")
    arrays = {}
    for part, base in zip(("train", "test"), names, strict=False):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = read[base]
    return dataset_from_arrays(name or "usps", arrays, str(files.place), classes=10)


@reader("usps-hdf5", lambda files: files.head().startswith(b"\x89HDF\r\n\x1a\n"))
def usps_hdf5(files: Files, name: str | None = None) -> Dataset:
    """USPS as an HDF5 file, usps.h5, with train/data, train/target, test/data and test/target."""
    try:
        import h5py  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise CoterieError(
            f"{files.place} is an HDF5 file, for which the package h5py is needed: install it, or use LIBSVM's usps.bz2"
        ) from None
    arrays: dict[str, Array] = {}
    with reading(files.place, "USPS in an HDF5 file"), h5py.File(files.place, "r") as file:
        for part in ("train", "test"):
            try:
                if max(file[part][name].nbytes for name in ("data", "target")) > _LIMIT:
                    raise ValueError(f"{part} announces more than the {_LIMIT} bytes that are read")
                shades, labels = np.asarray(file[part]["data"]), np.asarray(file[part]["target"])
            except (KeyError, TypeError, AttributeError):
                raise ValueError(f"it has no {part}/data and {part}/target") from None
            if shades.ndim != 2 or shades.shape[1] != _PIXELS:
                raise ValueError(f"{part}/data has shape {shades.shape}, not (n, {_PIXELS})")
            arrays |= {f"x_{part}": _images(shades), f"y_{part}": labels}
    return dataset_from_arrays(name or "usps", arrays, str(files.place), classes=10)


def _parse(stream: IO[bytes]) -> tuple[Array, Array]:
    """Read lines such as ``7 1:-1 2:-0.813 ...``: a label from 1 to 10, and 256 shades from -1 to 1."""
    labels, rows = [], []
    for number, line in enumerate(bytes(everything(stream, _LIMIT)).splitlines(), 1):
        values = np.array(line.replace(b":", b" ").split(), np.float64)
        if len(values) == 0:
            continue
        if len(values) != 1 + 2 * _PIXELS or not np.array_equal(values[1::2], np.arange(1, _PIXELS + 1)):
            raise ValueError(f"line {number} should have a label and {_PIXELS} values 1:... to {_PIXELS}:...")
        labels.append(values[0])
        rows.append(values[2::2])
    y, x = np.array(labels), np.array(rows)
    if not np.isin(y, np.arange(1, 11)).all():
        raise ValueError("its labels should be 1 to 10")
    return _images((x + 1) / 2), y.astype(np.int64) - 1


def _images(shades: Array) -> Array:
    """Return images of bytes from shades between 0 and 1."""
    if len(shades) == 0 or not (shades.min() >= -1e-6 and shades.max() <= 1 + 1e-6):
        raise ValueError("it has no shades, or some outside of the range that they should be in")
    pixels: Array = np.rint(255 * np.clip(shades, 0, 1)).astype(np.uint8)
    return pixels.reshape(-1, _SIDE, _SIDE)

"""Small files in the formats that Coterie reads, written from their descriptions, not with Coterie's own code."""

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(7)


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """IDX: two zeros, the type, the number of dimensions, their sizes, then the numbers, all big-endian."""
    kind = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}[array.dtype.str[1:]]
    header = bytes([0, 0, kind, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx_set(folder: Path, arrays: dict[str, np.ndarray], prefix: str = "", test: str = "t10k", gz: bool = False):
    """The usual four files (or two), from x_train, y_train, x_test and y_test."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, array in arrays.items():
        what = "images-idx3" if key[0] == "x" else "labels-idx1"
        name = f"{prefix}{'train' if key.endswith('train') else test}-{what}-ubyte"
        content = idx(array)
        (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(content, mtime=0) if gz else content)
    return folder


def python2_pickle(images: np.ndarray, labels: dict[str, list[int]]) -> bytes:
    """What Python 2 wrote for ``{'data': images, **labels}``, opcode by opcode (protocol 2)."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    raw = images.tobytes()
    dtype = b"cnumpy\ndtype\n(" + text("u1") + b"K\x00K\x01tR(K\x03" + text("|") + b"NNN" + number(-1) * 2 + b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text("b") + b"tR"
    array += b"(K\x01(" + b"".join(map(number, images.shape)) + b"t" + dtype + b"\x89T" + struct.pack("<i", len(raw))
    array += raw + b"tb"
    pickled = b"\x80\x02}(" + text("data") + array
    for key, values in labels.items():
        pickled += text(key) + b"](" + b"".join(map(number, values)) + b"e"
    return pickled + b"u."


def python3_pickle(images: np.ndarray, labels: dict[str, list[int]]) -> bytes:
    return pickle.dumps({b"data": images, **{key.encode(): value for key, value in labels.items()}}, protocol=2)


def tar_gz(path: Path, members: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return path


def write_all(folder: Path, members: dict[str, bytes]) -> Path:
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


class RunsCode:
    """An object whose pickle, when loaded in the usual way, makes a file: the proof that code was run."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.proof)!r}, 'w').close()",)

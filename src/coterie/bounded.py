"""Reading what somebody else has written, within limits: no file can ask for more time or memory than it deserves.

Every function raises a ValueError whose text says in a few words what is wrong; whoever calls adds which file it was.
"""

import json
import math
import os
import re
import stat
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from coterie.files import open_flags

MOST_VALUES = 300_000
"""Values that a JSON document may hold, about 60 MB in memory; the result of 10,000 clients has a third of it."""
DEEPEST = 32
"""How far lists and tables may be nested."""
LARGEST_JSON, LARGEST_TOML = 2**24, 2**18
"""Bytes."""
MOST_TOML, MOST_DOTS = 20_000, 16
"""Values of a TOML document, and parts of a key: the reader is slow, and slower the more parts keys have."""
LARGEST_ARRAYS = 2**32
"""Bytes that the arrays of a file may hold, unpacked."""
FREE, RATIO = 2**26, 200
"""What unpacks to more bytes than FREE must not be RATIO times its size: images and labels are ten times at most."""
DIRECTORY = 2**22
"""Bytes of the directory of a ZIP file: some 50,000 names."""
HEADER = 2**26
"""Bytes of the header of a safetensors file."""

_LOCAL_HEADER = 30
"""Bytes before the name of a member of a ZIP file."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_QUOTED = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'')
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_DOTS}}}")
_OFFSETS = re.compile(rb'"data_offsets":\s*\[\s*\d{1,18}\s*,\s*(\d{1,18})\s*\]')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def read_bytes(path: Path, largest: int) -> bytes:
    """Return what is in a file, which must be one, and not too large."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(file_mode(file)):
            raise ValueError("it is no file")
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it is larger than the {largest:,} bytes that are read")
    return content


def read_text(path: Path, largest: int = LARGEST_JSON) -> str:
    """Return the text in a file."""
    return read_bytes(path, largest).decode("utf-8")


def file_mode(file: IO[bytes]) -> int:
    """Return the kind of an open file."""
    return os.fstat(file.fileno()).st_mode


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe in its place is not waited for."""
    return os.open(path, flags | open_flags("O_NONBLOCK", "O_CLOEXEC"))


def parse_json(content: str | bytes, most: int = MOST_VALUES) -> Any:
    """Return what a JSON document says.

    >>> parse_json('{"a": [1]}')
    {'a': [1]}
    >>> parse_json("[" * 100 + "]" * 100)
    Traceback (most recent call last):
    ValueError: it is nested more than 32 levels deep
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"it holds more than {most:,} values")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    brackets = _STRING.sub("", text).encode("utf-8", "replace").translate(None, _NOT_BRACKETS)
    if _depth_exceeds(brackets, DEEPEST):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


def _depth_exceeds(brackets: bytes, limit: int) -> bool:
    """Say whether matching brackets are nested deeper; each turn takes the innermost level away."""
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML document says.

    >>> parse_toml("a.b = 1")
    {'a': {'b': 1}}
    >>> parse_toml("x = " + "[" * 100 + "]" * 100)
    Traceback (most recent call last):
    ValueError: it is nested more than 32 levels deep
    """
    if len(text) > LARGEST_TOML:
        raise ValueError(f"it is larger than the {LARGEST_TOML:,} letters that are read")
    if sum(map(text.count, "=,[{")) > MOST_TOML:
        raise ValueError(f"it holds more than {MOST_TOML:,} values")
    if _LONG_KEY.search(_QUOTED.sub("q", text)):
        raise ValueError(f"one of its keys has more than {MOST_DOTS} parts")
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    if _nested(value) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


def _nested(value: Any) -> int:
    """Return how deep lists and tables are nested, up to one more than may be."""
    depth, level = 0, [value]
    while depth <= DEEPEST and any(isinstance(item, (dict, list)) for item in level):
        parts = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level, depth = [item for part in parts for item in part], depth + 1
    return depth


def check_unpacked(size: int, packed: int) -> None:
    """Refuse what grows beyond all measure when it is unpacked."""
    if size > LARGEST_ARRAYS:
        raise ValueError(f"it unpacks to more than the {LARGEST_ARRAYS:,} bytes that are read")
    if size > FREE and size > RATIO * packed:
        raise ValueError(f"it unpacks to more than {RATIO} times its {packed:,} bytes, as no data do")


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a ZIP file, whose directory must not be too large; what it says of sizes is checked by `open_member`."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end and end[5] > DIRECTORY:  # the size of the directory, before any of it is read
        raise ValueError(f"it has a directory of {end[5]:,} bytes")
    file.seek(0)
    return zipfile.ZipFile(file)


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open what a ZIP file holds under a name; no more can be read from it than its directory says."""
    about = archive.getinfo(name)
    check_unpacked(about.file_size, about.compress_size)
    try:
        return archive.open(about)
    except (NotImplementedError, RuntimeError) as error:  # a compression that nobody has, or a password
        raise ValueError(str(error)) from None


def read_npz_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Return an array of an .npz file; memory is taken for what is there, whatever its header announces."""
    with open_member(archive, f"{name}.npy") as member:
        return read_npy(member, archive.getinfo(f"{name}.npy").file_size)


def map_npz_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any] | None:
    """Return an array of an .npz file that stays in the file, of which it is a read-only map; None: it is packed.

    All of it is read once, to compare its checksum.
    """
    about, file = archive.getinfo(f"{name}.npy"), archive.fp
    if about.compress_type != zipfile.ZIP_STORED or file is None:
        return None
    with open_member(archive, f"{name}.npy") as member:  # which checks the header of the member
        shape, by_columns, dtype = read_npy_header(member, about.file_size)
        begin = member.tell()
    file.seek(about.header_offset)
    header = file.read(_LOCAL_HEADER)
    start = about.header_offset + _LOCAL_HEADER + sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    content = np.memmap(file, np.uint8, "r", start, (about.file_size,))
    checksum = 0
    for at in range(0, len(content), 2**24):
        checksum = zlib.crc32(content[at : at + 2**24].data, checksum)
    if checksum != about.CRC:
        raise ValueError(f"Bad CRC-32 for file {name}.npy")
    return np.asarray(content)[begin:].view(dtype).reshape(shape, order="F" if by_columns else "C")


def read_npy(stream: IO[bytes], size: int) -> npt.NDArray[Any]:
    """Return the array in a stream of so many bytes, as NumPy writes it; Python objects are refused."""
    shape, by_columns, dtype = read_npy_header(stream, size)
    announced = math.prod(shape) * dtype.itemsize
    if announced > LARGEST_ARRAYS:
        raise ValueError(f"it holds {announced:,} bytes, more than the {LARGEST_ARRAYS:,} that are read")
    content = bytearray()
    while piece := stream.read(2**20):
        content += piece
        if len(content) > announced:
            raise ValueError(f"it goes on after the {announced:,} bytes that it should have")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C")


def read_npy_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether it lies column by column, and type of the array in a stream of so many bytes."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"it has an array of format {version[0]}.{version[1]}: arrays of numbers are 1.0 or 2.0")
    try:
        shape, by_columns, dtype = readers[version](stream)
    except (TokenError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError):
        raise ValueError("it has an array whose header is damaged") from None
    if dtype.hasobject:
        raise ValueError("an array of Python objects is not loaded: allow_pickle is off")
    announced, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if announced != there:
        raise ValueError(f"it announces an array of {announced:,} bytes, but has {there:,}")
    if not dtype.itemsize:
        raise ValueError(f"it has an array of type {dtype}, which holds nothing")
    return shape, by_columns, dtype


def read_start(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, which must be one."""
    with open_file(path) as file:
        return file.read(count)


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read it, which must be one."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(file_mode(file)):
            raise ValueError("it is no file")
        yield file


def read_tensors(path: Path, most: int | None = MOST_VALUES) -> bytes:
    """Return a safetensors file; one that is longer or shorter than its header announces is not read."""
    with open_file(path) as file:
        return read_tensors_at(file, 0, os.fstat(file.fileno()).st_size, most)


def read_tensors_at(file: IO[bytes], start: int, size: int, most: int | None = MOST_VALUES) -> bytes:
    """Return what is at a place of a file in place of a safetensors file of so many bytes."""
    file.seek(start)
    length = int.from_bytes(file.read(8), "little")
    if length > HEADER:
        raise ValueError(f"its header announces {length:,} bytes")
    header = file.read(length)
    if most is not None:
        check_header(header, most)
    announced = 8 + length + max(map(int, _OFFSETS.findall(header)), default=0)
    if size != announced:
        raise ValueError(f"it has {size:,} bytes, where its header announces {announced:,}")
    file.seek(start)
    return file.read(announced)


def check_header(header: bytes, most: int = MOST_VALUES) -> None:
    """Refuse a header with too many values."""
    if sum(map(header.count, (b",", b"[", b"{"))) > most:
        raise ValueError(f"its header holds more than {most:,} values")

"""The files that a data set comes in: in a folder, in an archive, or a single one with those beside it.

Archives are read member by member and never unpacked, so that no path in one can lead anywhere. Every way in which a
file can be cut short, garbled, or not what it should be ends in one kind of error.
"""

import bz2
import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeVar, cast

from coterie.bounded import LARGEST_ARRAYS, check_unpacked, open_member, open_zip
from coterie.errors import CoterieError

LARGEST = LARGEST_ARRAYS
"""Bytes that a single file may hold, after decompression."""
_MEMBERS = 10_000

_DEPTH = 3
_FIRST_MEMBERS = 8
_HEAD = 65536
_PIECE = 2**20
_CHECKED_TO_THE_END = 2**29

# What NumPy and the standard library raise over such files. A garbled header may also ask for more memory
# than there is, for a compression or password that nobody set, or for nesting without end.
DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    OverflowError,
    KeyError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    pickle.UnpicklingError,
)

T = TypeVar("T")


class Unsafe(Exception):
    """A file wants what data must not: to run something."""


@contextmanager
def reading(place: Path | str, what: str) -> Iterator[None]:
    """Turn whatever shows in the block that `place` is not `what` it should be into a `CoterieError`."""
    try:
        yield
    except (CoterieError, FileNotFoundError, PermissionError):
        raise
    except Unsafe as error:
        raise CoterieError(f"{place} is refused as {what}: {error}") from error
    except DAMAGE as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise CoterieError(
            f"{place} cannot be read as {what} ({reason}): it may be cut short or damaged; make or fetch it again"
        ) from error


@dataclass(frozen=True)
class Files:
    """What is at a path, before it is known what it means."""

    place: Path
    kind: Literal["folder", "tar", "zip", "file"]
    names: tuple[str, ...]
    """Relative to the place; of a tar archive only the first, as it would have to be read for all."""

    @cached_property
    def bases(self) -> dict[str, str]:
        """The names by their last part; where several end alike, the one nearest to the place."""
        nearest_last = sorted(self.names, key=lambda name: (-name.count("/"), name))
        return {PurePosixPath(name).name: name for name in nearest_last}

    @property
    def label(self) -> str:
        """What to call the data set where nobody says."""
        path = self.place.absolute()
        return path.name if self.kind == "folder" else path.stem.removesuffix(".tar")

    def head(self, name: str | None = None) -> bytes:
        """Return the first bytes of a single file, or of the named file beside it or in the folder, decompressed."""
        if self.kind == "file":
            return _head(self.place.with_name(name) if name else self.place)
        return _head(self.place / name) if self.kind == "folder" and name else b""

    def has(self, base: str) -> bool:
        """Whether there is a file whose name ends so; beside a single file counts too."""
        return base in self.bases or (self.kind == "file" and (self.place.parent / base).is_file())

    def read(self, parsers: Mapping[str, Callable[[IO[bytes]], T]], what: str) -> dict[str, T]:
        """Read files by the last part of their names, each with its parser; all must be there."""
        contents: dict[str, T] = {}
        for base, stream in self._streams(set(parsers), what):
            with reading(f"{self.place}: {base}" if self.kind != "file" else self.place.with_name(base), what):
                contents[base] = parsers[base](stream)
        missing = [base for base in parsers if base not in contents]
        if missing:
            here = ", ".join(sorted(self.bases)[:10]) or "nothing"
            raise CoterieError(f"{self.place} has no '{missing[0]}', which belongs to {what}; there is: {here}")
        return contents

    def _streams(self, wanted: set[str], what: str) -> Iterator[tuple[str, IO[bytes]]]:
        with ExitStack() as stack:
            match self.kind:
                case "tar":
                    with reading(self.place, what):
                        unpacked = stack.enter_context(opened(self.place))
                        archive = stack.enter_context(tarfile.open(fileobj=unpacked, mode="r:"))
                    yield from self._members(archive, set(wanted), what)
                case "zip":
                    with reading(self.place, what):
                        packed = stack.enter_context(open_zip(stack.enter_context(self.place.open("rb"))))
                    for base in sorted(wanted & set(self.bases)):
                        with reading(self.place, what):
                            stream = stack.enter_context(open_member(packed, self.bases[base]))
                            plain = _decompressed(stream)
                        yield base, plain
                case _:
                    folder = self.place if self.kind == "folder" else self.place.parent
                    for base in filter(self.has, sorted(wanted)):
                        with opened(folder / self.bases.get(base, base)) as stream:
                            yield base, stream

    def _members(self, archive: tarfile.TarFile, wanted: set[str], what: str) -> Iterator[tuple[str, IO[bytes]]]:
        """Go once through a tar archive, as far as is needed: going back would mean decompressing it again."""
        count = 0
        while wanted:
            with reading(self.place, what):
                member, count = archive.next(), count + 1
                if count > _MEMBERS:
                    raise ValueError(f"it holds more than {_MEMBERS} files")
            if member is None:
                return
            base = PurePosixPath(member.name).name
            if base in wanted and member.isfile():
                wanted.remove(base)
                with reading(self.place, what):
                    stream = _decompressed(cast(IO[bytes], archive.extractfile(member)))
                yield base, stream
        if self.place.stat().st_size < _CHECKED_TO_THE_END:  # the checksum of all comes last, in STL-10 after gigabytes
            with reading(self.place, what):
                while cast(IO[bytes], archive.fileobj).read(_PIECE):
                    pass


def look(path: Path) -> Files:
    """See what is at a path; only names and first bytes are read."""
    if path.is_dir():
        return Files(path, "folder", tuple(_below(path)))
    if not path.is_file():
        raise CoterieError(f"there is no file or folder '{path}'")
    try:
        if zipfile.is_zipfile(path):
            with path.open("rb") as file, open_zip(file) as packed:
                return Files(path, "zip", tuple(name for name in packed.namelist() if not name.endswith("/")))
        if _head(path)[257:262] == b"ustar":
            with opened(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
                return Files(path, "tar", tuple(m.name for m in islice(archive, _FIRST_MEMBERS) if m.isfile()))
    except DAMAGE:
        pass  # whoever reads it will say what is wrong
    return Files(path, "file", (path.name,))


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; one whose content is gzip or bzip2 is decompressed."""
    with path.open("rb") as stream:
        yield _decompressed(stream)


def exactly(stream: IO[bytes], count: int) -> bytearray:
    """Read so many bytes, or fail; memory is used for what is really there only, whatever a header announced."""
    if count > LARGEST:
        raise ValueError(f"it announces {count} bytes, more than the {LARGEST} that are read")
    content = bytearray()
    while len(content) < count:
        piece = stream.read(min(_PIECE, count - len(content)))
        if not piece:
            raise ValueError(f"it ends after {len(content)} of {count} bytes")
        content += piece
    return content


def only(stream: IO[bytes], count: int) -> bytearray:
    """Read so many bytes, which must be all that there are."""
    content = exactly(stream, count)
    if stream.read(1):
        raise ValueError(f"it goes on after the {count} bytes that it should have")
    return content


def everything(stream: IO[bytes], limit: int = LARGEST) -> bytearray:
    """Read to the end, which must come within the limit."""
    content = bytearray()
    while piece := stream.read(_PIECE):
        content += piece
        if len(content) > limit:
            raise ValueError(f"it holds more than {limit} bytes")
    return content


def _decompressed(stream: IO[bytes]) -> IO[bytes]:
    start = stream.read(3)
    stream.seek(0)
    if start[:2] == b"\x1f\x8b":
        return io.BufferedReader(_Unpacking(stream, gzip.GzipFile(fileobj=stream)))
    return io.BufferedReader(_Unpacking(stream, bz2.BZ2File(stream))) if start == b"BZh" else stream


class _Unpacking(io.RawIOBase):
    """What a packed stream holds; it ends in an error once that is more than data can be."""

    def __init__(self, packed: IO[bytes], unpacked: gzip.GzipFile | bz2.BZ2File) -> None:
        self._packed, self._unpacked = packed, unpacked

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._unpacked.tell()

    def readinto(self, buffer: Any) -> int:
        piece = self._unpacked.read1(min(len(buffer), _PIECE))
        check_unpacked(min(self.tell(), LARGEST), self._packed.tell())
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place; on the way there everything is unpacked, and checked."""
        if whence == 2:
            raise ValueError("its end is not known before it is read")
        target = offset + (self.tell() if whence == 1 else 0)
        if target < self.tell():
            self._unpacked.seek(0)
        while self.tell() < target and self.read(min(_PIECE, target - self.tell())):
            pass
        return self.tell()


def _head(path: Path) -> bytes:
    try:
        with opened(path) as stream:
            return stream.read(_HEAD)
    except PermissionError:
        raise
    except DAMAGE:
        with path.open("rb") as stream:  # not what its first bytes promised
            return stream.read(_HEAD)


def _below(folder: Path) -> Iterator[str]:
    """Go through the files of a folder and of those in it, without hidden ones."""
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if len(inside.parts) < _DEPTH else []
        for file in sorted(files):
            if not file.startswith("."):
                yield (inside / file).as_posix()

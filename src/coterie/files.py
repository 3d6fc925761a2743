"""The one way by which Coterie writes, so that a kill, a full disk, a power cut or a link does no harm.

A file is written beside its place and renamed into it: it is there whole or not at all. Files are made anew and never
opened through a symbolic link, so that a link in a folder that somebody sent leads nowhere. Where a power cut matters,
contents are flushed to the disk before a rename, and the folder after it. Files of arrays carry a digest of their
bytes, their seal.
"""

import ctypes
import errno
import hashlib
import os
import re
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal, TypeAlias

from coterie.errors import CoterieError

Flush: TypeAlias = Literal["nothing", "file", "folder", "system"]
"""What is flushed when a file is written: nothing; its content; also the folder that names it; or first everything
that was written before, by any process, to the same file system (where the system can't, only that by `flushed_later`
is)."""

UNSEALED = {"digest": "0" * 32}
"""What the metadata of a safetensors file say before it is sealed."""
_SEAL = re.compile(rb'"digest":"([0-9a-f]{32})"')


def open_flags(*names: str) -> int:
    """Return the flags of these names for `os.open`, as far as the system has them: Windows lacks most."""
    return sum(getattr(os, name, 0) for name in names)


_OWN = open_flags("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
"""For files that are Coterie's own; on Windows bytes are written as they are only if that is asked for."""
_FOLDER = open_flags("O_DIRECTORY", "O_CLOEXEC")


def _syncfs() -> Callable[[int], int] | None:
    """Return the system's call that flushes a file system, if it has one."""
    try:
        return ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError, TypeError):
        return None


class Disk:
    """What is asked of the system, one operation each; tests record them, to replay them as a power cut would."""

    def __init__(self) -> None:
        self.flush_system = _syncfs()

    def create(self, path: Path, content: bytes, mode: int, flush: bool) -> None:
        """Write a file that is not there; it is an error if it is, also as a link."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OWN, mode)
        try:
            _write_all(descriptor, content)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def extend(self, path: Path, content: bytes, at: int, flush: bool) -> None:
        """Write into a file from a position on; what is there behind goes."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _OWN, 0o666)
        try:
            if os.fstat(descriptor).st_size > at:
                os.ftruncate(descriptor, at)
            os.lseek(descriptor, at, os.SEEK_SET)
            _write_all(descriptor, content)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Put a file in the place of another."""
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; it is an error if that is there."""
        os.link(source, target, follow_symlinks=os.link not in os.supports_follow_symlinks)

    def remove(self, path: Path) -> None:
        """Remove a file, or a link itself."""
        os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder."""
        os.mkdir(path)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def flush_folder(self, path: Path) -> None:
        """Have the names in a folder reach the disk."""
        if os.name == "nt":  # Windows opens no folders
            return
        descriptor = os.open(path, os.O_RDONLY | _FOLDER)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that flushes no folders
                raise
        finally:
            os.close(descriptor)

    def flush_all(self, path: Path) -> None:
        """Have everything on the file system of a folder reach the disk."""
        assert self.flush_system is not None
        descriptor = os.open(path, os.O_RDONLY | _FOLDER)
        try:
            if self.flush_system(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(descriptor)


DISK = Disk()


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def flushed_later(durable: bool) -> Flush:
    """Return how to write what a later flush of the system covers; where there is none, each file flushes itself."""
    return "folder" if durable and DISK.flush_system is None else "nothing"


@contextmanager
def name_path_in_errors(path: Path) -> Iterator[None]:
    """Let an error of writing say which file it concerns: the one of a full disk does not by itself."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_whole(path: Path, content: bytes, flush: Flush = "folder", mode: int = 0o666) -> None:
    """Replace a file in one step; a kill or a full disk leaves the old one, and, if flushed, a power cut too."""
    part = path.with_name(path.name + ".part")
    with name_path_in_errors(path):
        try:
            at_once = flush == "system" and DISK.flush_system is not None
            _create(part, content, mode, flush != "nothing" and not at_once)
            if at_once:
                DISK.flush_all(path.parent)
            DISK.rename(part, path)
        except OSError:
            with suppress(OSError):
                DISK.remove(part)
            raise
        if flush in ("folder", "system"):
            DISK.flush_folder(path.parent)


def check_new(path: Path, overwrite: bool = False) -> None:
    """Refuse a place where something is, unless the user wants it to be replaced."""
    if not overwrite and os.path.lexists(path):
        raise CoterieError(f"'{path}' is there already: choose another --out, or replace it by --overwrite")


def write_new(path: Path, content: bytes, overwrite: bool = False, flush: Flush = "folder") -> None:
    """Write a file that a user has named; another in its place is refused, unless it is the same or is to go."""
    if not overwrite and _differs(path, content):
        check_new(path)
    write_whole(path, content, flush)


@contextmanager
def new_files(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """Give a folder to write into; when all is there it goes to the folder that a user has named.

    Where another file is in the way of one, none goes there, unless the user wants them to be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise CoterieError(f"'{folder}' is a file: name a folder")
    make_folder(folder, flush=False)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as place:
        yield Path(place)
        written = sorted(Path(place).iterdir())
        for file in written:
            if not overwrite and _differs(folder / file.name, file.read_bytes()):
                check_new(folder / file.name)
        for file in written:
            DISK.rename(file, folder / file.name)


def _differs(path: Path, content: bytes) -> bool:
    """Say whether something else than this content is at a path."""
    return os.path.lexists(path) and (path.is_symlink() or not path.is_file() or path.read_bytes() != content)


def write_first(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file unless it is there; of two processes that try at once, one wins."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    _create(part, content, mode, flush=True)
    try:
        DISK.link(part, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        DISK.rename(part, path)
    finally:
        with suppress(FileNotFoundError):
            DISK.remove(part)
    DISK.flush_folder(path.parent)


def _create(part: Path, content: bytes, mode: int, flush: bool) -> None:
    """Write a part of a file to be; one that a killed process left, or a link in its place, goes first."""
    try:
        DISK.create(part, content, mode, flush)
    except FileExistsError:
        DISK.remove(part)
        DISK.create(part, content, mode, flush)


def extend(path: Path, content: bytes, at: int | None = None, flush: Flush = "nothing") -> None:
    """Write at the end of a file, or from a position on: what is behind it goes."""
    with name_path_in_errors(path):
        try:
            size = path.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            size = 0
        DISK.extend(path, content, size if at is None else at, flush in ("file", "folder"))
        if flush == "folder":
            DISK.flush_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, if it is there; of a link, the link."""
    with suppress(FileNotFoundError):
        DISK.remove(path)


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible; of a link, the link."""
    with suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            return remove(path)
        for item in sorted(path.iterdir()):
            remove_tree(item)
        DISK.remove_folder(path)


def make_folder(path: Path, flush: bool = True) -> None:
    """Make a folder and those above it, where they are not there."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            with suppress(FileExistsError):
                DISK.make_folder(folder)
            if flush:
                DISK.flush_folder(folder.parent)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise CoterieError(f"the folder '{path}' can't be made: {error.strerror}") from None


def open_lock(path: Path) -> IO[str]:
    """Open a file to be locked, made if it is not there; never through a link, and its content stays."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _OWN | open_flags("O_NONBLOCK"), 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise CoterieError(f"'{path}' is a link, where a file should be that Coterie makes itself: remove it") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CoterieError(f"'{path}' is not a file, which Coterie makes itself to be locked: remove it")
    return os.fdopen(descriptor, "r+")


def take_lock(file: IO[str], wait: bool = False) -> bool:
    """Lock a file of `open_lock` against other processes, and say whether that was possible.

    It is free again when the file is closed, or its process ends, however that happens.
    """
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                return True
            except PermissionError:
                if not wait:
                    return False
                time.sleep(0.05)
    else:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False


class ScratchFile:
    """A file without a name for what is only needed for a while; nothing is left of it, however the process ends."""

    def __init__(self, folder: Path | None = None) -> None:
        """It is in a folder, or where the system keeps temporary files (`TMPDIR`)."""
        self._folder, self._end = folder or Path(tempfile.gettempdir()), 0
        with self._errors():
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def append(self, content: memoryview) -> int:
        """Write at the end, and return where that was."""
        at = self._end
        with self._errors():
            self._file.seek(at)
            self._end += self._file.write(content)
        return at

    def read_into(self, content: memoryview, at: int) -> None:
        """Read what was written at a position, as much as there is room for."""
        self._file.seek(at)
        if self._file.readinto(content) != content.nbytes:
            raise OSError(errno.EIO, "a temporary file is shorter than what was written", str(self._folder))

    def clear(self) -> None:
        """Forget what was written, and give its place back."""
        self._file.seek(0)
        self._file.truncate()
        self._end = 0

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say where there was no room."""
        try:
            yield
        except OSError as error:
            raise CoterieError(
                f"a temporary file in '{self._folder}', for replies that memory should not hold, can't be written "
                f"({error.strerror}): make room there, or ask fewer clients in a round (--fraction)"
            ) from None


def part_of(path: Path, name: str) -> Path:
    """Return the file that holds a part of another, beside it.

    >>> part_of(Path("checkpoint.safetensors"), "*").name
    'checkpoint-*.safetensors'
    """
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def flush_folder(path: Path) -> None:
    """Have what was renamed or removed in a folder reach the disk."""
    DISK.flush_folder(path)


def sealed(content: bytes) -> tuple[bytes, str]:
    """Put the digest of a safetensors file into its metadata, which must hold `UNSEALED`; return it too."""
    start, end = _seal_of(content)
    digest = _digest(content, start, end)
    return b"".join((content[:start], digest.encode(), memoryview(content)[end:])), digest


def seal(content: bytes, required: bool = True) -> str:
    """Return the digest that a safetensors file carries, after checking that it is that of its bytes.

    Where none is `required`, "" stands for a file without one, as others and older versions write them.
    """
    try:
        start, end = _seal_of(content)
    except ValueError:
        if required:
            raise
        return ""
    found = content[start:end].decode()
    if found != _digest(content, start, end):
        raise ValueError("its bytes are not those that were written")
    return found


def _seal_of(content: bytes) -> tuple[int, int]:
    found = _SEAL.search(content, 8, min(8 + int.from_bytes(content[:8], "little"), len(content)))
    if found is None:
        raise ValueError("it carries no digest of its bytes")
    return found.span(1)


def _digest(content: bytes, start: int, end: int) -> str:
    """Return the digest of all bytes but those of the digest itself."""
    view = memoryview(content)
    digest = hashlib.sha256(view[:start])  # of the good ones the fastest, as processors help
    digest.update(view[end:])
    return digest.hexdigest()[:32]

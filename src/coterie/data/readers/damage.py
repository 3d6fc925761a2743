"""One kind of error for every way in which a file can be cut short, garbled, or something else than it should be."""

import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.errors import CoterieError

# What NumPy and the standard library raise over such files. A garbled header may also ask for more memory
# than there is, for a compression or password that nobody set, or for nesting without end.
DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    pickle.UnpicklingError,
)


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

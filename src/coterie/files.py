"""Writing files so that a kill or a full disk never leaves half of one, and the names of parts of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.errors import CoterieError


@contextmanager
def name_path_in_errors(path: Path) -> Iterator[None]:
    """Let an error of writing say which file it concerns: the one of a full disk does not by itself."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_whole(path: Path, content: bytes, durable: bool = True) -> None:
    """Replace a file in one step; a kill or a full disk leaves the old one, if `durable` a power cut too."""
    part = path.with_name(path.name + ".part")
    with name_path_in_errors(path):
        try:
            with part.open("wb") as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def make_folder(path: Path) -> None:
    """Make a folder, if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoterieError(f"the folder '{path}' can't be made: {error.strerror}") from None


def part_of(path: Path, name: str) -> Path:
    """Return the file that holds a part of another, beside it.

    >>> part_of(Path("checkpoint.safetensors"), "*").name
    'checkpoint-*.safetensors'
    """
    return path.with_name(f"{path.stem}-{name}{path.suffix}")

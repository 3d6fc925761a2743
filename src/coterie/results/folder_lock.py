"""One process at a time in a folder of runs."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coterie.errors import CoterieError
from coterie.files import open_lock, take_lock

LOCK = "lock"
MOMENT = 0.3
"""Seconds to wait for any lock: a process that is being started holds those of its parent until it has begun."""
PATIENCE = 10.0
"""Seconds to wait for workers of a process that was killed, which end by themselves."""


@contextmanager
def locked(path: Path, patience: float = MOMENT) -> Iterator[IO[str]]:
    """Keep other processes out of a folder, after waiting so many seconds for one that ends.

    The lock ends with the process, however that happens; workers that are given the file hold it too, so that it is
    free only when all have ended.
    """
    began = time.monotonic()
    while True:
        with open_lock(path / LOCK) as file:
            if _is_ours(file, path / LOCK):
                yield file
                return
        if time.monotonic() - began >= patience:
            raise CoterieError(f"another process is working on '{path}'")
        time.sleep(0.05)


def _is_ours(file: IO[str], path: Path) -> bool:
    """Lock a file, and say whether that was possible; one that was removed by whoever held it is of no use."""
    try:
        return take_lock(file) and os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False

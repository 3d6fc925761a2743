"""The server's state on disk: written whole after a round, or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.messages import wire


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step; a kill or a full disk leaves the old one."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state: arrays, numbers, texts, lists and dictionaries; and a checksum of it."""
    write_whole(path, wire.pack(state, checksum=True))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a state back; refuse one that is not what was written."""
    try:
        return dict(wire.unpack(path.read_bytes()))
    except (wire.WireError, TypeError, ValueError) as error:
        raise CoterieError(f"the checkpoint {path} is damaged ({error}): start the run anew with --overwrite") from None

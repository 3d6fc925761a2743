"""The user's folder of data sets, named by the environment variable COTERIE_DATA."""

from __future__ import annotations

import os
from pathlib import Path

from coterie.errors import CoterieError

VARIABLE = "COTERIE_DATA"


def folder() -> Path | None:
    """Return the folder of data sets, or None where the variable is not set."""
    value = os.environ.get(VARIABLE)
    return Path(value).expanduser() if value else None


def stored_names() -> list[str]:
    """Return the names of the data sets in the folder: its .npz files, without the ending."""
    place = folder()
    return sorted(file.stem for file in place.glob("*.npz") if file.is_file()) if place else []


def find(file: str) -> Path:
    """Return the path of a file of the folder, which must be there."""
    place = folder()
    if place is None:
        raise CoterieError(
            f"'{file}' is looked for in the folder {VARIABLE}, which is not set: "
            f"set it to the folder that holds {file}, or give the path of a file instead"
        )
    if not place.is_dir():
        raise CoterieError(
            f"'{file}' is looked for in the folder {VARIABLE}, but '{place}' is no folder: "
            f"set it to the folder that holds {file}"
        )
    if not (place / file).is_file():
        raise CoterieError(
            f"there is no '{file}' in '{place}', the folder {VARIABLE}: "
            "put it there, or give the path of a file instead"
        )
    return place / file

"""Where data sets are: the user's folder, named by the environment variable COTERIE_DATA, and the platform's cache."""

import os
import sys
from pathlib import Path

from coterie.errors import CoterieError

VARIABLE = "COTERIE_DATA"


def folder() -> Path | None:
    """Return the folder of data sets, or None where the variable is not set."""
    value = os.environ.get(VARIABLE)
    return Path(value).expanduser() if value else None


def cache() -> Path:
    """Return the folder into which data sets are downloaded where the user has none; as pooch.os_cache, but at once."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "coterie" / "coterie" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "coterie"
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache") / "coterie"


def places() -> list[Path]:
    """Return the folders in which data sets are looked for, in this order; they are downloaded into the first."""
    users_folder = folder()
    return [cache()] if users_folder is None else [users_folder, cache()]


def stored_names() -> list[str]:
    """Return the names of the data sets in the user's folder: its .npz files, without the ending."""
    place = folder()
    return sorted(file.stem for file in place.glob("*.npz") if file.is_file()) if place else []


def find(file: str, advice: str = "give the path of a file instead") -> Path:
    """Return the path of a file of the user's folder, which must be there; `advice` is what else one could do."""
    place = folder()
    if place is None or not place.is_dir():
        reason = "which is not set" if place is None else f"but '{place}' is no folder"
        raise CoterieError(
            f"'{file}' is looked for in the folder {VARIABLE}, {reason}: set it to the folder that holds {file}, "
            f"or {advice}"
        )
    if not (place / file).is_file():
        raise CoterieError(f"there is no '{file}' in '{place}', the folder {VARIABLE}: put it there, or {advice}")
    return place / file


def find_vectors(beside: Path) -> Path:
    """Return a file of GloVe's word vectors: beside the data, or in the folders of data sets."""
    start = beside if beside.is_dir() else beside.parent
    for place in (start, *start.absolute().parents[:2], *places(), *(place / "sent140" for place in places())):
        files = sorted(file for file in place.glob("glove*.txt*") if file.suffix in (".txt", ".gz"))
        if files:
            return files[-1]
    raise CoterieError(
        f"{beside} holds words, for which vectors are needed: put glove.6B.300d.txt of nlp.stanford.edu/projects/glove "
        f"beside it or into {places()[0]}, or give its path as the option vectors"
    )

"""Which folder was probably meant, where one was named that holds no run."""

from pathlib import Path

from coterie.errors import suggestion

NAMED = 3
"""Folders that a sentence names."""


def like_it(path: Path) -> str:
    """Suggest a folder beside one that does not exist; empty if none is called nearly so."""
    beside = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
    hint = suggestion(path.name, beside)
    return f"; {hint}" if hint.endswith("?") else ""


def inside(path: Path, *marks: str) -> str:
    """Name the folders within one that have one of some files; empty if there are none."""
    entries = sorted(path.iterdir()) if path.is_dir() else []
    found = [str(entry) for entry in entries if any((entry / mark).is_file() for mark in marks)]
    more = ", ..." if len(found) > NAMED else ""
    return f", but folders within it have: name one of {', '.join(found[:NAMED])}{more}" if found else ""

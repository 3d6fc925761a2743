"""Pictures as files: PNG, SVG, PDF, which say in their metadata that Coterie drew them."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.bounded import read_start
from coterie.errors import CoterieError
from coterie.files import make_folder, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DRAWN_BY = "Coterie, by Matplotlib"
"""Of a picture, in its metadata."""
METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": DRAWN_BY},
    "svg": {"Creator": DRAWN_BY, "Date": None},
    "pdf": {"Creator": DRAWN_BY, "CreationDate": None},
}
LARGEST_PICTURE = 2**24
"""Bytes of a file that are looked at."""


def check_picture(file: Path, overwrite: bool = False) -> Path:
    """Return where a picture is to be written; refuse a name that does not say its format, or that is taken.

    A picture that Coterie drew is replaced; a file of somebody else only with `overwrite`.
    """
    if file.suffix[1:].lower() not in FORMATS:
        endings = ", ".join(f".{kind}" for kind in FORMATS)
        raise CoterieError(f"'{file}' does not say how to write the picture: let its name end with {endings}")
    if file.is_dir():
        raise CoterieError(f"'{file}' is a folder: name a file for the picture")
    if os.path.lexists(file) and not overwrite and not _is_picture(file):
        raise CoterieError(f"'{file}' is there already, and not drawn by Coterie: choose another --plot, or remove it")
    return file


def _is_picture(file: Path) -> bool:
    """Say whether a file is a picture that Coterie drew, which can be drawn again."""
    if not file.is_file() or file.is_symlink():
        return False
    return DRAWN_BY.encode() in read_start(file, min(file.stat().st_size, LARGEST_PICTURE))


def write(figure: Figure, path: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write a picture; `path` has no ending yet."""
    paths = [path.with_name(f"{path.name}.{kind}") for kind in formats]
    for file in paths:
        write_picture(figure, file)
    return paths


def write_picture(figure: Figure, file: Path) -> None:
    """Write a picture into a file, in the format that its name ends with; its folder is made if it is not there."""
    make_folder(file.parent, flush=False)
    content = io.BytesIO()
    kind = file.suffix[1:].lower() or "png"
    figure.savefig(content, format=kind, dpi=130, metadata=METADATA.get(kind))
    write_whole(file, content.getvalue(), "nothing")


def check_formats(formats: Sequence[str]) -> Sequence[str]:
    """Return formats of pictures; refuse one that is not known, or none."""
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown or not formats:
        error = f"pictures can't be written as '{unknown[0]}'" if unknown else "say how pictures are to be written"
        raise CoterieError(f"{error}: use {', '.join(FORMATS)}")
    return formats

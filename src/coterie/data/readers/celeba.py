"""CelebA: photographs of faces with a list of attributes, one of which is the label."""

from pathlib import PurePosixPath
from typing import IO, Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, everything, look
from coterie.data.readers.formats import reader
from coterie.data.readers.images import read_images
from coterie.errors import CoterieError, suggestion

_ATTRIBUTES, _IDENTITIES = "list_attr_celeba.txt", "identity_CelebA.txt"
_LIMIT = 2**27

Attribute = Annotated[str, "The attribute that is the label: Smiling, Male, Eyeglasses, ..."]
Size = Annotated[int, Ge(1), Le(178), "Images become this high and wide, after a square is cut from their middle."]
Limit = Annotated[int | None, Ge(1), "Only so many images are read, from the beginning of the list."]

Table = tuple[list[str], dict[str, list[str]]]
"""Names of columns, and the rest of each line by the name of its image."""


@reader("celeba", lambda files: files.kind in ("folder", "file") and _ATTRIBUTES in files.bases)
def celeba(
    files: Files, name: str | None = None, *, attribute: Attribute = "Smiling", size: Size = 32, limit: Limit = None
) -> Dataset:
    """CelebA, list_attr_celeba.txt with the images in a folder beside it, and identity_CelebA.txt if there."""
    if files.kind == "file":
        files = look(files.place.absolute().parent)
    wanted = {_ATTRIBUTES: _table} | ({_IDENTITIES: _table} if files.has(_IDENTITIES) else {})
    tables = files.read(wanted, "CelebA's lists")
    columns, rows = tables[_ATTRIBUTES]
    if attribute not in columns:
        raise CoterieError(f"{files.place}: there is no attribute '{attribute}': {suggestion(attribute, columns)}")
    column = columns.index(attribute)
    chosen = [image for image in rows if image in files.bases][:limit]
    if not chosen:
        first = next(iter(rows), "")
        raise CoterieError(f"{files.place} has none of the images that {_ATTRIBUTES} lists, such as '{first}'")
    values = [rows[image] for image in chosen]
    if any(len(row) != len(columns) for row in values) or not {value for row in values for value in row} <= {"1", "-1"}:
        raise CoterieError(f"{files.place}: {_ATTRIBUTES} must have {len(columns)} numbers 1 or -1 behind each image")
    attributes = np.array([[value == "1" for value in row] for row in values])
    arrays: dict[str, Array] = {"y_train": attributes[:, column].astype(np.int64), "attributes": attributes}
    arrays["attribute_names"] = np.array(columns)
    arrays["x_train"] = read_images([files.place / PurePosixPath(files.bases[image]) for image in chosen], size)
    if _IDENTITIES in tables:
        people = tables[_IDENTITIES][1]
        try:
            arrays["user_train"] = np.array([int(people[image][0]) for image in chosen])
        except (KeyError, ValueError):
            raise CoterieError(f"{files.place}: {_IDENTITIES} must have a number behind each image") from None
    return dataset_from_arrays(name or "celeba", arrays, str(files.place), classes=2)


def _table(stream: IO[bytes]) -> Table:
    """Read a list: perhaps a count and a line of names, then lines of an image and what is known of it."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in everything(stream, _LIMIT).decode("utf-8").splitlines():
        pieces = line.split()
        if len(pieces) > 1 and pieces[0].lower().endswith((".jpg", ".png")):
            rows[pieces[0]] = pieces[1:]
        elif len(pieces) > 1 and not rows:
            columns = pieces
    if not rows:
        raise ValueError("it lists no images")
    return columns, rows

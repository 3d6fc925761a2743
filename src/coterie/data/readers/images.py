"""Folders of images, in PNG or JPEG."""

import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from coterie.data.federated import Array, Dataset
from coterie.data.readers.arrays import ClassNames, dataset_from_arrays
from coterie.data.readers.files import LARGEST, Files, reading
from coterie.data.readers.formats import reader
from coterie.errors import CoterieError, suggestion

_ENDINGS = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
_LARGEST = 2**25
_RESIZE = "give the option size to bring all to one size, as in FOLDER:size=32, which takes the middle square of each"
_TEST_FOLDERS = ("test", "val", "valid", "validation")


class ImageBytes(io.BytesIO):
    """An image that is in memory; it says where it came from."""

    def __init__(self, content: bytes, place: str) -> None:
        super().__init__(content)
        self.name = self.place = place

    def __str__(self) -> str:
        return self.place


ImageSource = Path | ImageBytes

Size = Annotated[int | None, Ge(1), Le(4096), "Images become this high and wide; by default they stay as they are."]
Grey = Annotated[bool, "Read colours as shades of grey."]
Labelled = list[tuple[str, str]]
"""Names of image files, each with its class."""


def is_image(name: str) -> bool:
    """Say whether a file is an image that can be read, by its name."""
    return name.lower().endswith(_ENDINGS)


def _parts(files: Files) -> dict[str, Labelled]:
    """Return the images by part: of train/class/*.png and test/class/*.png, or of class/*.png alone."""
    parts: dict[str, Labelled] = {}
    for name in files.names if files.kind == "folder" else ():
        *folders, base = PurePosixPath(name).parts
        if not is_image(base):
            continue
        if len(folders) == 2 and folders[0].lower() in ("train", *_TEST_FOLDERS):
            parts.setdefault("train" if folders[0].lower() == "train" else folders[0], []).append((name, folders[1]))
        elif len(folders) == 1:
            parts.setdefault("", []).append((name, folders[0]))
    return parts


def _recognises(files: Files) -> bool:
    parts = _parts(files)
    return (
        "train" in parts or len({label for _, label in parts.get("", [])}) > 1
    ) and "list_attr_celeba.txt" not in files.bases


def folders(files: Files) -> list[str]:
    """Return the classes by which images lie in folders, be it a single one."""
    return sorted({label for labelled in _parts(files).values() for _, label in labelled})


@reader("images", _recognises)
def images(
    files: Files, name: str | None = None, *, size: Size = None, grey: Grey = False, class_names: ClassNames = None
) -> Dataset:
    """A folder of PNG or JPEG images by class, class/*.png, or train/class/*.png and test/class/*.png."""
    parts = _parts(files)
    train = parts.get("train") or parts[""]
    test = next((parts[part] for part in sorted(parts) if part.lower() in _TEST_FOLDERS), None)
    classes = class_names or sorted({label for _, label in train})
    unknown = sorted({label for _, label in [*train, *(test or [])]} - set(classes))
    if unknown and class_names:
        raise CoterieError(
            f"{files.place}: there is no class '{unknown[0]}': rename the folder, or add it to class_names; "
            f"{suggestion(unknown[0], classes)}"
        )
    if unknown:
        raise CoterieError(
            f"{files.place}: the class '{unknown[0]}' is in the test part only: there are: {', '.join(classes)}"
        )
    arrays: dict[str, Array] = {}
    for part, chosen in (("train", train), ("test", test)):
        if chosen:
            arrays[f"y_{part}"] = np.array([classes.index(label) for _, label in chosen])
            arrays[f"x_{part}"] = read_images([files.place / file for file, _ in chosen], size, grey)
    if "x_test" in arrays and arrays["x_test"].ndim != arrays["x_train"].ndim:  # one part is grey, the other is not
        for key in ("x_train", "x_test"):
            arrays[key] = np.broadcast_to(arrays[key].reshape(*arrays[key].shape[:3], -1), (*arrays[key].shape[:3], 3))
    return dataset_from_arrays(name or files.label, arrays, str(files.place), class_names=classes)


def read_images(paths: Sequence[ImageSource], size: int | None, grey: bool = False, advice: str = _RESIZE) -> Array:
    """Return images (n, height, width) if all are grey, else (n, height, width, 3); `advice` is how to resize them."""
    try:
        from PIL import Image
    except ImportError:
        raise CoterieError(f"{paths[0]} is an image, for which the package Pillow is needed: install it") from None
    shape = _read(Image, paths[0], size, grey).shape[:2]
    if (total := 3 * len(paths) * shape[0] * shape[1]) > LARGEST:
        raise CoterieError(
            f"{len(paths)} images of {shape[1]} x {shape[0]}, like {paths[0]}, are {total:,} bytes, more than the "
            f"{LARGEST:,} that are read: {advice}"
        )
    x = np.empty((len(paths), *shape, 3), np.uint8)
    coloured = False
    for row, path in zip(x, paths, strict=True):
        image = _read(Image, path, size, grey)
        if image.shape[:2] != shape:
            raise CoterieError(
                f"{path} is {image.shape[1]} x {image.shape[0]}, but {paths[0].name} is {shape[1]} x {shape[0]}: "
                f"{advice}"
            )
        coloured |= image.ndim == 3
        row[:] = image if image.ndim == 3 else image[..., None]
    return x if coloured else np.ascontiguousarray(x[..., 0])


def _read(pillow: Any, path: ImageSource, size: int | None, grey: bool) -> Array:
    """Read one image; to a given size the middle square of it."""
    with reading(str(path), "a PNG or JPEG image"):
        try:
            with pillow.open(path, formats=_FORMATS) as image:
                if image.width * image.height > _LARGEST:
                    raise ValueError(f"it is {image.width} x {image.height}, which is too large")
                plain = image.convert("L" if grey or image.mode in ("1", "L", "LA") else "RGB")
                if size is not None:
                    side = min(plain.size)
                    left, top = (plain.width - side) // 2, (plain.height - side) // 2
                    middle = plain.crop((left, top, left + side, top + side))
                    plain = middle.resize((size, size), pillow.Resampling.BILINEAR)
                return np.asarray(plain)
        except (pillow.DecompressionBombError, pillow.DecompressionBombWarning, SyntaxError) as error:
            raise ValueError(str(error)) from None  # a broken PNG file is a SyntaxError to Pillow

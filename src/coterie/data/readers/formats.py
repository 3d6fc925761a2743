"""The formats that are understood, and how one is recognised: by names and first bytes, not by an ending alone.

A reader is a function ``(files, name, *, options) -> Dataset``; without a name it chooses one. Registering it with
`reader` makes it known everywhere: ``--dataset PATH``, ``coterie data check``, and the named data sets of its format.

Two options have a meaning at the sites of a deployed federation, each of which may have few of the classes that all
agree on: a reader whose labels are numbers has ``classes``, one that numbers names itself ``class_names``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.data.federated import Dataset
from coterie.data.readers.files import Files, look
from coterie.errors import CoterieError
from coterie.registry import Registry

FORMATS: Registry[Callable[..., Dataset]] = Registry("format", "coterie.data.readers")

_RECOGNISES: dict[str, Callable[[Files], bool]] = {}


def reader(
    name: str, recognises: Callable[[Files], bool]
) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Register a function that reads a format; its docstring's first line says what it reads."""
    _RECOGNISES[name] = recognises
    return FORMATS.register(name)


@dataclass(frozen=True)
class Recognised:
    """What is at a path, and which format it is in."""

    files: Files
    format: str

    @property
    def summary(self) -> str:
        """The format, in words."""
        return FORMATS.summary(self.format)

    def check(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Check options for reading; return them all, defaults included."""
        return FORMATS.validate(self.format, options)

    def read(self, name: str | None = None, options: Mapping[str, Any] | None = None) -> Dataset:
        """Read it, as a data set of this name; without one, of the usual name."""
        return FORMATS[self.format](self.files, name, **self.check(options or {}))


def recognise(path: Path) -> Recognised:
    """Say what is at a path; a folder may hold a data set's files, or a single file that is one by itself."""
    files = look(path)
    format_name = _format(files)
    if format_name is None and files.kind == "folder":
        inside = [look(path / name) for name in files.names if "/" not in name][:20]
        recognised = [Recognised(file, format) for file in inside if (format := _format(file)) is not None]
        if len(recognised) == 1:
            return recognised[0]
        if recognised:
            there = ", ".join(item.files.place.name for item in recognised)
            raise CoterieError(f"the folder '{path}' holds several data sets ({there}): give the path of one")
    if format_name is None:
        raise CoterieError(
            f"'{path}' is not a data set that Coterie can read ({', '.join(FORMATS)}): save your arrays with np.savez"
        )
    return Recognised(files, format_name)


def read(path: Path, name: str | None = None, **options: Any) -> Dataset:
    """Read whatever data set is at a path."""
    return recognise(path).read(name, options)


def _format(files: Files) -> str | None:
    return next((name for name in FORMATS if name in _RECOGNISES and _RECOGNISES[name](files)), None)

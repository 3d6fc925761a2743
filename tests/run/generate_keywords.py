"""Writes src/coterie/run/keywords.py from the configuration: python tests/run/generate_keywords.py."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from coterie.results.formats import toml_value
from coterie.run.config import CHOICES, SECTIONS, Key, keys

FILE = Path(__file__).parents[2] / "src" / "coterie" / "run" / "keywords.py"
TYPES = {
    "data.name": "DatasetLike",
    "model.name": "ModelLike",
    "run.out": "FilePath | None",
    "run.track": "TrackLike",
    "run.plugins": "FilePath | Sequence[FilePath]",
    "curriculum.expert": "FilePath | None",
}
"""Of keys that take more than what a file can hold."""
DOCS = {
    "data.name": "Data set: a name, the path of a file or folder, arrays, or a function; by default 'digits'.",
    "model.name": "Network: a name, a class, a function, or a network itself; by default chosen to suit the data.",
    "run.out": "Run folder; by default nothing is written.",
    "run.track": "Who is told of the run: tensorboard, mlflow or wandb (offline), mlflow:folder=DIR where not into the "
    "run folder; in `run` also a function that takes a row of metrics, an object derived from `coterie.Tracker`, or a "
    "list of these.",
}
"""Of keys that mean more in Python, or something else, than on the command line."""
SIMPLE = {"int": "Int", "float": "Real", "str": "str", "bool": "bool", "NoneType": "None"}
OF_RUNS = ("run.seed", "run.out")
OF_METHODS = ("algorithm.name",)
HEADER = '''"""The settings of a run as keywords, with their types: for editors, `help` and the reference.

Written by tests/run/generate_keywords.py from the configuration (`coterie.run.config`), and held to it by a test:
change that, not this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from coterie.data.in_memory import Arrays
    from coterie.tracking import Row, Tracker

    Int = int | np.integer[Any]
    Real = float | np.floating[Any] | np.integer[Any]
    FilePath = str | os.PathLike[str]
    DatasetLike = FilePath | Arrays | Callable[..., Any]
    OwnTracker = Tracker | Callable[[Row], Any]
    TrackLike = str | OwnTracker | Sequence[str | OwnTracker]
    ModelLike = str | type[nn.Module] | nn.Module | Callable[..., nn.Module] | None
'''


def source() -> str:
    """The text of the module."""
    listed = [key for key in keys() if key.path not in (*OF_RUNS, *OF_METHODS)]
    parts = [
        HEADER,
        _class("SharedSettings", "TypedDict, total=False", "What runs side by side have in common.", listed),
        _class("MethodSettings", "SharedSettings, total=False", "These, and the method.", _chosen(OF_METHODS)),
        _class("RunSettings", "MethodSettings, total=False", "All settings of a run.", _chosen(OF_RUNS)),
    ]
    defaults = "".join(f'    "{key.keyword}": {key.info.default!r},\n'.replace("'", '"') for key in keys())
    parts.append(f"DEFAULTS: dict[str, Any] = {{\n{defaults}}}\n")
    return "\n\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _chosen(paths: tuple[str, ...]) -> list[Key]:
    return [key for key in keys() if key.path in paths]


def _class(name: str, bases: str, doc: str, members: list[Key]) -> str:
    lines = [f"class {name}({bases}):", f'    """{doc}"""', ""]
    section = ""
    for key in members:
        if key.section != section and len({other.section for other in members}) > 1:
            section = key.section
            lines += ["" if lines[-1] else None, f"    # {SECTIONS[section].__doc__}"]  # type: ignore[list-item]
        lines += [f"    {key.keyword}: {annotation(key)}", *_doc(sentence(key))]
        if key.section in CHOICES and key.name == "name":
            lines += [f"    {key.keyword}_options: Mapping[str, Any]", *_doc(f"Options of the {noun(key)}, by name.")]
    return "\n".join(line for line in lines if line is not None) + "\n"


def noun(key: Key) -> str:
    """What a section chooses, in a word or two."""
    return {"dataset": "data set", "model": "network", "algorithm": "method"}.get(key.keyword, key.keyword)


def annotation(key: Key) -> str:
    """The type of a key as it is written."""
    return TYPES.get(key.path) or _written(key.info.annotation)


def _written(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(_quoted(value) for value in get_args(kind))}]"
    if get_origin(kind) is list:
        return "str | Sequence[str]"
    if kind in (int, float, str, bool, NoneType):
        return SIMPLE[kind.__name__]
    return " | ".join(_written(part) for part in get_args(kind))


def _quoted(value: str) -> str:
    return f'"{value}"'


def sentence(key: Key) -> str:
    """What a key means, and its default."""
    if key.path in DOCS:
        return DOCS[key.path]
    text, default = str(key.info.description), key.info.default
    if not text[1:2].isspace():  # a letter alone is a symbol
        text = text[:1].upper() + text[1:]
    known = default is None or default == [] or "by default" in text
    return f"{text}{'' if known else f'; by default {toml_value(default)}'}.".replace('"', "'")


def _doc(text: str) -> list[str]:
    """A docstring of lines that are short enough."""
    import textwrap

    lines = textwrap.wrap(text, 110)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")

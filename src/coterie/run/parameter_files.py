"""Files of parameters that others have trained: the expert's, and those that a run starts with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from coterie.bounded import read_tensors
from coterie.errors import CoterieError
from coterie.files import seal
from coterie.messages import Array, ModelSpec, Params, frozen, usable
from coterie.models import STARTS, initial
from coterie.training import digest

LISTED = 3
"""So many names, or shapes, a sentence lists."""


def check_initial(path: str | None) -> None:
    """Refuse a file of initial parameters that is not there, before any data are read."""
    if path is not None and not Path(path).expanduser().is_file():
        raise CoterieError(f"there is no file '{path}' of initial parameters: name a .safetensors file (--initial)")


def with_start(spec: ModelSpec, path: str, expected: str | None = None) -> ModelSpec:
    """Return a network that starts with the parameters of a file; from now on this process has them.

    `expected` is their digest, if the run has begun with them before.
    """
    file, own = Path(path).expanduser(), initial(spec, 0)
    found = read_parameters(file, "the initial model")
    if error := error_in_parameters(found, own):
        raise CoterieError(f"the initial model '{path}' does not fit the network '{spec.name}': {error}")
    start = frozen({name: np.array(found[name], value.dtype) for name, value in own.items()})
    if not usable(start):
        raise CoterieError(f"the initial model '{path}' holds numbers that are not finite, or far too large")
    name = digest(start)
    if expected not in (None, name):
        raise CoterieError(f"the initial model '{path}' is not the one that the run began with: put that back")
    STARTS[name] = start
    return replace(spec, start=name)


def read_parameters(file: Path, what: str) -> Params:
    """Read a .safetensors file; `what` it is begins the sentences that refuse it."""
    try:
        content = read_tensors(file)
        seal(content, required=False)
        return dict[str, Array](load(content))
    except OSError as error:
        raise CoterieError(f"{what} '{file}' can't be read: {error.strerror}") from None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CoterieError(f"{what} '{file}' is not a .safetensors file of parameters: {error}") from None


def error_in_parameters(found: Params, expected: Params) -> str | None:
    """Say in what two networks differ, by the names, shapes and kinds of their parameters.

    >>> error_in_parameters({"a": np.ones(2), "c": np.ones(1)}, {"a": np.ones(3), "b": np.ones(1)})
    "it lacks 'b' and it has 'c', unknown here, and its 'a' is (2,), here it is (3,)"
    """
    missing, more = [n for n in expected if n not in found], [n for n in found if n not in expected]
    common = [name for name in expected if name in found]
    shapes = [
        f"its '{n}' is {found[n].shape}, here it is {expected[n].shape}"
        for n in common
        if found[n].shape != expected[n].shape
    ]
    kinds = [
        f"its '{n}' is of type {found[n].dtype}, here it is {expected[n].dtype}"
        for n in common
        if found[n].dtype.kind != expected[n].dtype.kind
    ]
    parts = [
        f"it lacks {_listed(list(map(repr, missing)))}" if missing else "",
        f"it has {_listed(list(map(repr, more)))}, unknown here" if more else "",
        _listed(shapes),
        _listed(kinds),
    ]
    first, *others = [part for part in parts if part] or [""]
    text = first + "".join(f"{',' * (i > 0)} and {part}" for i, part in enumerate(others))
    return text or None


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:LISTED]) + (f" and {len(texts) - LISTED} more" if len(texts) > LISTED else "")

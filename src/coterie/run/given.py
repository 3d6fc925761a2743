"""What a program hands over in place of names and plain values: paths, NumPy's numbers, arrays, networks, functions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from coterie.data.in_memory import HeldData, hold, register_function
from coterie.data.registries import DATASETS
from coterie.errors import CoterieError
from coterie.models import MODELS
from coterie.models.given import GivenNetwork, name_for
from coterie.results.run_folder import RunFolder


def plain(value: Any) -> Any:
    """Return a value as a configuration file could hold it.

    >>> from pathlib import Path
    >>> plain({"lr": [np.float32(0.5), np.int64(3)], "out": Path("runs/a"), "curve": (1, 2)})
    {'lr': [0.5, 3], 'out': 'runs/a', 'curve': [1, 2]}
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple | range) else value


@contextmanager
def named(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return settings as plain values; data sets and networks given as objects are known by names.

    Arrays are held until the block ends; functions, classes and networks stay known in this session.
    """
    given, held = dict(settings), list[HeldData]()
    if any(not isinstance(name, str) for name in _listed(given.get("track", ()))):
        raise CoterieError("track takes names here, since runs are made in processes of their own: write 'tensorboard'")
    if not isinstance(dataset := given.get("dataset"), str | os.PathLike | None):
        if callable(dataset):
            given["dataset"] = _name_of_source(dataset)
        else:
            held.append(hold(dataset))
            given["dataset"] = held[0].name
    if not isinstance(model := given.get("model"), str | os.PathLike | None):
        given["model"] = _name_of_network(model)
    yield plain(given)  # while `held` is kept


def _listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]


def _name_of_source(function: Any) -> str:
    if (name := DATASETS.name_of(function)) is not None:
        return name
    name = name_for(function)
    register_function(function, name)
    return name


def _name_of_network(given: Any) -> str:
    if (name := MODELS.name_of(given)) is not None:
        return name
    if not callable(given):
        raise CoterieError(
            f"model can't be a {type(given).__name__}: give a name, a class of torch.nn.Module, a function that builds "
            "one, or a network"
        )
    name = name_for(given)
    MODELS.register(name)(GivenNetwork(given, name))
    return name


def check_network(table: Any, place: RunFolder) -> None:
    """Refuse a run folder whose network, that its table [model] names, is not known in this program."""
    name = table.get("name") if isinstance(table, Mapping) else None
    if isinstance(name, str) and MODELS.canonical(name) not in MODELS:
        raise CoterieError(
            f"the run in '{place.path}' has the network '{name}', which is not known here: if it was given in Python, "
            f"use the run in a program that has it, as in coterie.resume(folder, model={name}); if a file registers "
            "it, name that, --plugin FILE"
        )


def check_given_again(folder: RunFolder, again: Mapping[str, str]) -> None:
    """Refuse data or a network that is not what a run began with; `again` are their names by keyword."""
    stored = folder.read_config()
    for keyword, section in {"dataset": "data", "model": "model"}.items():
        table = stored.get(section)
        began = table.get("name") if isinstance(table, Mapping) else None
        if keyword in again and again[keyword] != began:
            raise CoterieError(
                f"'{folder.path}' began with {keyword} '{began}', not with '{again[keyword]}': give what it began with"
            )

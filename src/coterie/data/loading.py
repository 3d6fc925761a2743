"""The one door to data: from names and options to a federated data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.data.dividing import divide
from coterie.data.federated import FederatedData
from coterie.data.folder import find, stored_names
from coterie.data.readers.npz import read_npz
from coterie.data.registries import DATASETS, PARTITIONS, Traits, traits
from coterie.errors import CoterieError, suggestion

_DEFAULT_PARTITION = "iid"


def load(
    name: str,
    options: Mapping[str, Any] | None = None,
    partition: tuple[str, Mapping[str, Any]] | None = None,
    clients: int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Load a data set, by its name or the path of an .npz file, divided among clients.

    A pooled data set is divided by the partition given, by default `iid`; a divided one takes none.
    """
    options = options or {}
    partition_name, partition_options = partition or (None, {})
    check(name, options, partition_name, partition_options)
    clients = default_clients(name) if clients is None else clients
    if name not in DATASETS:
        dataset = read_npz(_file(name))
    else:
        source, values = DATASETS[name], DATASETS.validate(name, options)
        if traits(name).divided:
            data: FederatedData = source(clients, seed, **values)
            return data
        dataset = source(**values)
    return divide(dataset, partition_name or _DEFAULT_PARTITION, partition_options, clients, seed)


def check(
    name: str,
    options: Mapping[str, Any] | None = None,
    partition_name: str | None = None,
    partition_options: Mapping[str, Any] | None = None,
) -> None:
    """Raise a `CoterieError` unless `load` would accept these; no data are read, but files must be there."""
    if name in DATASETS:
        DATASETS.validate(name, options or {})
        known = traits(name)
        if known.file:
            find(known.file)
    else:
        _file(name)
        if options:
            raise CoterieError(f"data set '{name}' has no option '{next(iter(options))}': a file has no options")
        known = Traits()
    if not known.divided:
        PARTITIONS.validate(partition_name or _DEFAULT_PARTITION, partition_options or {})
    elif partition_name or partition_options:
        raise CoterieError(f"data set '{name}' comes divided among clients: leave out the partition")


def default_clients(name: str) -> int:
    """Return how many clients a data set has unless the user says otherwise."""
    return (traits(name) if name in DATASETS else Traits()).clients


def _file(name: str) -> Path:
    """Return the file that a data set's name stands for, where it is not a registered one."""
    if name in stored_names():
        return find(f"{name}.npz")
    path = Path(name).expanduser()
    if not path.suffix and path.name == name:
        raise CoterieError(
            f"unknown data set '{name}': {suggestion(name, {*DATASETS, *stored_names()})} "
            "(or give the path of an .npz file)"
        )
    if path.is_dir() or path.suffix != ".npz":
        raise CoterieError(f"data set '{name}' is not an .npz file: save your arrays with np.savez")
    if not path.is_file():
        beside = [file.name for file in path.parent.glob("*.npz")]
        hint = suggestion(path.name, beside) if beside else "there are no .npz files"
        raise CoterieError(f"there is no file '{name}': in the folder '{path.parent.absolute()}' {hint}")
    return path

"""The one door to data: from names and options to a federated data set."""

import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.data.catalogue import CATALOGUE, where
from coterie.data.dividing import divide, with_server_share
from coterie.data.federated import Dataset, FederatedData
from coterie.data.folder import find, stored_names
from coterie.data.in_memory import error_in_name, is_table
from coterie.data.numbers import as_labels, as_numbers, check_kind
from coterie.data.readers.files import look
from coterie.data.readers.formats import FORMATS, Recognised, recognise
from coterie.data.readers.images import folders
from coterie.data.readers.tables import table_share
from coterie.data.registries import DATASETS, PARTITIONS, SourceTraits, traits
from coterie.data.tables.encoding import TableEncoding
from coterie.data.tables.rows import ReadingOptions
from coterie.errors import CoterieError, suggestion
from coterie.registry import same_name


def load(
    name: str,
    options: Mapping[str, Any] | None = None,
    partition: tuple[str, Mapping[str, Any]] | None = None,
    clients: int | None = None,
    seed: int = 0,
    *,
    server_share: float | None = None,
    surplus: int = 1,
    exchangeable: bool = False,
    numbers: bool = False,
) -> FederatedData:
    """Load a data set, by its name or the path of a file or folder, divided among clients.

    A pooled data set is divided by the partition given; by default by user where it comes so, else `iid`. Among how
    many clients depends on the data where nobody says: see `fitting_clients`.
    A divided one takes none. `server_share`, `surplus` and `exchangeable` are those of `divide`. With `numbers` what is
    to be predicted are numbers, else they are refused.
    """
    options = options or {}
    partition_name, partition_options = partition or (None, {})
    check(name, options, partition_name, partition_options)
    if name in DATASETS and traits(name).divided:
        clients = default_clients(name) if clients is None else clients
        source, values = DATASETS[name], DATASETS.validate(name, options)
        if "server_share" in inspect.signature(source).parameters:
            divided: FederatedData = source(clients, seed, server_share, **values)
            return check_kind(divided, numbers)
        return check_kind(with_server_share(source(clients, seed, **values), server_share), numbers)
    dataset = read_pooled(name, options, numbers)
    by = partition_name or default_partition(name, options)
    return divide(
        dataset,
        by,
        partition_options,
        clients,
        seed,
        usual_clients=len(dataset.train) if _clients_are_named(name, options) else default_clients(name),
        server_share=server_share,
        surplus=surplus,
        exchangeable=exchangeable,
    )


def read_pooled(name: str, options: Mapping[str, Any] | None = None, numbers: bool = False) -> Dataset:
    """Read a data set that does not come divided, by its name or the path of a file or folder, to predict `numbers`."""
    dataset: Dataset
    if name not in DATASETS:
        dataset = _stored(name).read(options=options or {})
    else:
        dataset = DATASETS[name](**DATASETS.validate(name, options or {}))
    return as_numbers(dataset) if numbers else as_labels(dataset)


def read_share(
    path: Path,
    classes: int | None,
    class_names: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    encoding: TableEncoding | None = None,
) -> Dataset:
    """Read what one site has of a data set, whose classes all sites have agreed on; it may lack any of them.

    Where the data are a table's, `encoding` is how rows become inputs.
    """
    try:
        recognised = recognise(path)
    except CoterieError:
        files = look(path)
        if not folders(files) or any("/" not in name for name in files.names):
            raise
        recognised = Recognised(files, "images")  # of a single class
    accepted = FORMATS.options(recognised.format)
    if "class_names" in accepted and "classes" not in accepted and class_names is None:
        here = ", ".join(f'"{name}"' for name in folders(recognised.files)[:3])
        raise CoterieError(
            f"{recognised.files.place}: each site would number its folders of images in its own way: add "
            f"class_names = [{here}, ...], the names of all {classes} classes, to [samples] of federation.toml"
        )
    agreed = {"classes": classes, "class_names": class_names and list(class_names)}
    if own := sorted(agreed.keys() & (options or {}).keys()):
        raise CoterieError(f"{own[0]} is agreed on by all sites: leave it out of a site's own options")
    given = {**(options or {}), **{key: value for key, value in agreed.items() if key in accepted}}
    if recognised.format == "table":
        return table_share(recognised.files, ReadingOptions(**recognised.check(given)), encoding)
    return recognised.read(options=given)


def check(
    name: str,
    options: Mapping[str, Any] | None = None,
    partition_name: str | None = None,
    partition_options: Mapping[str, Any] | None = None,
    *,
    files: bool = True,
) -> None:
    """Raise a `CoterieError` unless `load` would accept these; no data are read, but with `files` they must be there.

    Without them only what has a name is known.
    """
    if name in DATASETS:
        values = DATASETS.validate(name, options or {})
        source = traits(name)
        if source.made_of_option:
            for part in values[source.made_of_option].split("+"):
                if part in DATASETS and traits(part).divided:
                    raise CoterieError(
                        f"data set '{name}' cannot be made of '{part}', which comes divided among clients"
                    )
                check(part, files=files)
        for needed in (source.made_of or (name,)) if files else ():
            file = traits(needed).file
            if file and needed in CATALOGUE:
                where(needed)
            elif file:
                find(file)
    else:
        if files:
            _stored(name).check(options or {})
        source = SourceTraits()
    if not source.divided:
        PARTITIONS.validate(partition_name or default_partition(name, options), partition_options or {})
    elif partition_name or partition_options:
        raise CoterieError(f"data set '{name}' comes divided among clients: leave out the partition")


def known_name(name: str) -> str:
    """Return the data set that is meant, whatever its capital letters; a path that is there stays as it is."""
    if name in DATASETS or name in stored_names() or os.path.exists(os.path.expanduser(name)):
        return name
    return str(same_name(name, {*DATASETS, *stored_names()}))


def default_clients(name: str) -> int:
    """Return how many clients a data set has unless the user says otherwise, or it is too small for them."""
    return (traits(name) if name in DATASETS else SourceTraits()).clients


def default_partition(name: str, options: Mapping[str, Any] | None = None) -> str:
    """Return how a pooled data set is divided unless the user says otherwise."""
    by_user = name in CATALOGUE and CATALOGUE[name].by_user
    return "by-user" if by_user or _clients_are_named(name, options or {}) else "iid"


def _clients_are_named(name: str, options: Mapping[str, Any]) -> bool:
    """Say whether a table is meant, and the column whose values are its clients."""
    return options.get("client") is not None and (name not in DATASETS or is_table(name))


def _stored(name: str) -> Recognised:
    """Return what a data set's name stands for, where it is not a registered one: a file or a folder."""
    if name in stored_names():
        return recognise(find(f"{name}.npz"))
    if not name.strip():
        raise CoterieError(
            "the name of the data set is empty: name one, such as digits, or the path of a file or folder"
        )
    path = Path(name).expanduser()
    try:
        if path.exists():
            return recognise(path)
    except OSError as closed:  # a name too long, a folder that is closed
        raise CoterieError(f"the data set '{name}' can't be read: {closed.strerror}") from None
    if error := error_in_name(name):
        raise CoterieError(error)
    if not path.suffix and path.name == name:
        raise CoterieError(
            f"unknown data set '{name}': {suggestion(name, {*DATASETS, *stored_names()})} "
            "(or give the path of a file or folder)"
        )
    beside = [other.name for other in path.parent.glob("*") if other.is_dir() or other.suffix == path.suffix]
    hint = suggestion(path.name, beside) if beside else f"there are no {path.suffix} files"
    raise CoterieError(f"there is no file '{name}' in the folder '{path.parent.absolute()}': {hint}")

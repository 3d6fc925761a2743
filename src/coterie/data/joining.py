"""Clients that come when training is over, with samples of their own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.data.dividing import TEST_FRACTION, held_out
from coterie.data.federated import Dataset, FederatedData, Samples
from coterie.data.loading import read_share
from coterie.data.numbers import as_labels, as_numbers, scaled
from coterie.data.parts import ranges
from coterie.data.readers.files import look
from coterie.data.readers.formats import FORMATS, recognise
from coterie.errors import CoterieError
from coterie.streams import stream


def joined_by(data: FederatedData, path: Path, options: Mapping[str, Any], seed: int) -> FederatedData:
    """Return the data with the clients that a file or folder holds, who come after all that there are.

    A data set is one client, or one for each of its users where it says who made its samples; a folder of several data
    sets is a client for each. `options` are those that the run's own data are read with.
    """
    first, clients = data.all_clients, []
    for place in _data_sets(path):
        clients += _clients(_read(place, data, options))
    parts = [_with_test(client, stream(seed, "test part", first + i)) for i, client in enumerate(clients)]
    train, test = [train for train, _ in parts], [test for _, test in parts]
    newcomers = replace(
        data,
        train=_together(train),
        test=_together(test),
        train_parts=ranges(train),
        test_parts=ranges(test),
        common_test=False,
        true_groups=None,
        drift=(),
        notes=(),
        lends_tests=False,
        later=(),
        drawn_tests=any(client.test is None for client in clients),  # then all get the larger noise
    )
    return replace(data, later=(*data.later, newcomers))


def _data_sets(path: Path) -> list[Path]:
    """Return the data sets at a path: it, or where a folder holds several files that are one each, these."""
    path = path.expanduser()
    if path.is_dir():
        inside = [path / name for name in sorted(look(path).names) if "/" not in name]
        alone = [file for file in inside if file.suffix == ".npz"]
        if len(alone) > 1:
            return alone
    return [path]


def _read(path: Path, like: FederatedData, options: Mapping[str, Any]) -> Dataset:
    """Read samples of the classes that a run knows; refuse those of another kind."""
    try:
        accepted = FORMATS.options(recognise(path).format)
    except CoterieError:
        accepted = FORMATS.options("images")  # of a single class, or else `read_share` says what is wrong
    if "class_names" in accepted and "classes" not in accepted and not like.class_names:
        raise CoterieError(f"{path}: folders of images are numbered by names of classes, which the run does not know")
    given = {
        key: value
        for key, value in options.items()
        if key in accepted and key not in ("classes", "class_names", "test")
    }
    if like.target is not None:
        dataset = scaled(as_numbers(read_share(path, None, None, given, like.encoding)), like.target)[0]
    else:
        dataset = as_labels(read_share(path, like.classes, like.class_names or None, given, like.encoding))
    labels = [int(part.y.max()) for part in (dataset.train, dataset.test) if part is not None and len(part.y)]
    if like.target is None and max(labels, default=0) >= like.classes:
        raise CoterieError(f"{path}: it holds the label {max(labels)}, but the run knows {like.classes} classes")
    for part in (dataset.train, dataset.test):
        if part is not None and (part.x.shape[1:], part.x.dtype) != (like.train.x.shape[1:], like.train.x.dtype):
            raise CoterieError(
                f"{path}: it has {part.x.dtype} samples of shape {part.x.shape[1:]}, but the run was trained on "
                f"{like.train.x.dtype} ones of {like.train.x.shape[1:]}: save them as they were in training"
            )
    return dataset


def _clients(dataset: Dataset) -> list[Dataset]:
    """Return a data set for each user; their test samples are their own."""
    if dataset.users is None:
        return [dataset]
    return [replace(dataset, train=dataset.train[dataset.users == u], test=None) for u in np.unique(dataset.users)]


def _with_test(client: Dataset, rng: np.random.Generator) -> tuple[Samples, Samples]:
    """Return what a client trains on, and what it is tested on: its test samples, or else a part of the others."""
    if client.test is not None:
        return client.train, client.test
    training, testing = held_out(np.arange(len(client.train)), TEST_FRACTION, rng)
    return client.train[training], client.train[testing]


def _together(parts: list[Samples]) -> Samples:
    return Samples(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))

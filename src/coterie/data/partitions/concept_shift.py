"""Groups of clients that see the same kind of samples in their own ways (ALGORITHMS 8.12).

Client i belongs to group ``i % groups``, so no group is empty if there are as many clients as groups. The
samples are dealt out evenly at random, or as another partition divides them. With `drift_at`, each group sees its
samples as the next group did from that round on.
"""

import re
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from coterie.bounded import parse_toml
from coterie.data.federated import Array, Dataset, Index, Samples
from coterie.data.numbers import check_partition
from coterie.data.on_demand import LazyArray
from coterie.data.registries import PARTITIONS, Concept, Partition, partition
from coterie.errors import CoterieError
from coterie.registry import Check

EVENLY = "iid"
MOST = 20
"""Groups, where each has the whole test set as it sees it."""


def error_in_parts(text: str) -> str | None:
    """Say why samples can't be divided so, or None."""
    try:
        name, _ = read_parts(text)
    except CoterieError as error:
        return str(error)
    return f"'{name}' makes groups itself: name another partition" if name in ("rotated", "permuted") else None


def read_parts(text: str) -> tuple[str, dict[str, Any]]:
    """Read a partition with its options, which stand behind a colon with semicolons or commas between them.

    >>> read_parts("dirichlet:alpha=0.5;min_samples=20")
    ('dirichlet', {'alpha': 0.5, 'min_samples': 20})
    """
    name, colon, rest = text.partition(":")
    options: dict[str, Any] = {}
    for piece in re.split("[;,]", rest) if colon else []:
        key, equals, value = piece.partition("=")
        if not equals:
            raise CoterieError(f"'{text}' should read name:option=value;option=value")
        try:
            options[key.strip()] = parse_toml(f"value = {value}")["value"]
        except ValueError:
            options[key.strip()] = value.strip()
    return name, PARTITIONS.validate(name, options)


Turns = Annotated[int, Ge(1), Le(4), "Groups of clients; group g sees the images turned g times by 90 degrees."]
Namings = Annotated[
    int, Ge(1), Le(1000), "Groups of clients; each but the first has its own permutation of the labels."
]
Parts = Annotated[
    str, Check(error_in_parts), "The partition that divides the samples, for instance dirichlet:alpha=0.1."
]
Drift = Annotated[int | None, Ge(1), "Round from which each group sees its samples as the next group did; none: never."]


@partition("rotated")
def rotated(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    groups: Turns = 4,
    parts: Parts = EVENLY,
    drift_at: Drift = None,
) -> Partition:
    """Up to four true groups of clients, each seeing the images turned by another right angle."""
    if len(data.shape) != 3 or data.shape[1] != data.shape[2]:
        raise CoterieError(f"partition 'rotated' needs square images, but the inputs have the shape {data.shape}")
    return replace(_seen(_divided(data, clients, rng, parts), groups, turned, drift_at), on_server=True)


@partition("permuted")
def permuted(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    groups: Namings = 4,
    parts: Parts = EVENLY,
    drift_at: Drift = None,
) -> Partition:
    """True groups of clients, each naming the classes in another order."""
    if parts != EVENLY and data.test is not None and groups > MOST:
        raise CoterieError(
            f"partition 'permuted': each of {groups} groups would have a test set of its own: use at most {MOST} "
            "groups, or leave out parts"
        )
    division = _divided(data, clients, rng, parts)
    others = [rng.permutation(data.classes) for _ in range(1, groups)]
    names = np.stack([np.arange(data.classes), *others])
    return _seen(division, groups, partial(renamed, names), drift_at)


def _divided(data: Dataset, clients: int, rng: np.random.Generator, parts: str) -> Partition:
    """Divide the samples; where clients differ, in random order, so that what they get does not go with their group."""
    name, options = read_parts(parts)
    if data.of_numbers:
        check_partition(name)
    division = PARTITIONS[name](data, clients, rng, **options)
    if name == EVENLY:
        return division
    shuffled = [division.parts[place] for place in rng.permutation(len(division.parts))]
    return replace(division, parts=shuffled, tested_on_labels=True)


def _seen(division: Partition, groups: int, concept: Concept, drift_at: int | None) -> Partition:
    """Plant groups that see samples in their own ways, in place of any that the division has."""
    member = np.arange(len(division.parts)) % groups
    return replace(division, true_groups=member, concept=concept, drift_at=drift_at)


def turned(samples: Samples, group: Index) -> Samples:
    """Group g sees the images turned counter-clockwise by g right angles."""
    lazy: Any = samples.x
    x = TurnedRows(lazy, group).as_array() if isinstance(lazy, LazyArray) else _turned(samples.x.copy(), group)
    return Samples(x, samples.y)


def _turned(x: Array, group: Index) -> Array:
    """Turn images in place."""
    for turns in np.unique(group % 4):
        chosen = group % 4 == turns
        x[chosen] = np.rot90(x[chosen], turns, axes=(2, 3))
    return x


class TurnedRows(LazyArray):
    """Images of which each is turned when it is looked up."""

    def __init__(self, source: LazyArray, group: Index) -> None:
        super().__init__(source.shape, source.dtype)
        self._source, self._group = source, group

    @property
    def nbytes(self) -> int:
        """Those of the source and of the groups."""
        return self._source.nbytes + self._group.nbytes

    def rows(self, positions: Index) -> Array:
        """Read and turn them."""
        return _turned(self._source.rows(positions), self._group[positions])


def renamed(names: Index, samples: Samples, group: Index) -> Samples:
    """Group g calls class c by the name ``names[g, c]``."""
    return Samples(samples.x, names[group, samples.y])

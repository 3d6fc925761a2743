"""The registries of data sets and partitions, and the decorators that fill them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.data.federated import Dataset, FederatedData, Index, Samples
from coterie.registry import Registry

Concept = Callable[[Samples, Index], Samples]
"""Returns samples as the group that is given for each of them sees them."""


@dataclass(frozen=True)
class Partition:
    """Who gets what: per client, positions in the training samples that were divided."""

    parts: Sequence[Index]
    true_groups: Index | None = None
    """Per client, where the partition plants groups."""
    concept: Concept | None = None
    """How each group sees its samples, where that differs."""
    on_server: bool = False
    """Whether the server's set shows all these ways in turn."""
    drift_at: int | None = None
    """From this round on each group sees its samples as the next group did."""
    tested_on_labels: bool = False
    """Where groups see samples in different ways: a client is tested on all test samples of its labels, as its group
    sees them, not on a share of the test set."""
    own_test: float | None = None
    """The share of each client's samples that is held out to test it; none: the data set's test part serves all."""
    notes: Sequence[str] = ()
    """What the user should know of how it went, a sentence each."""


@dataclass(frozen=True)
class SourceTraits:
    """What is known of a data set before it is read."""

    divided: bool = False
    """True: it comes divided among clients, and takes no partition."""
    clients: int = 100
    """How many clients there are unless the user says otherwise."""
    file: str | None = None
    """The file which it needs in the folder of data sets."""
    made_of: tuple[str, ...] = ()
    """The registered data sets which it is made of, and which must be there."""
    made_of_option: str | None = None
    """The option that names the data sets which it is made of, with + between them."""


DATASETS: Registry[Callable[..., Any]] = Registry("data set", "coterie.data.sources", "coterie.datasets")
PARTITIONS: Registry[Callable[..., Partition]] = Registry("partition", "coterie.data.partitions", "coterie.partitions")

_TRAITS: dict[Callable[..., Any], SourceTraits] = {}

PooledSource = TypeVar("PooledSource", bound=Callable[..., Dataset])
DividedSource = TypeVar("DividedSource", bound=Callable[..., FederatedData])
Source = TypeVar("Source", bound=Callable[..., Any])

partition = PARTITIONS.register
"""Registers a function ``(data, clients, rng, *, options) -> Partition`` of a pooled data set to be divided.

What it returns are positions in ``data.train``; all its randomness comes from the generator `rng`.
"""


def dataset(
    name: str, *, clients: int = SourceTraits.clients, file: str | None = None
) -> Callable[[PooledSource], PooledSource]:
    """Register a function ``(*, options) -> Dataset``: data that a partition divides among the clients.

    `clients` is the usual number of clients; `file` a file of the folder of data sets that must be there.
    """
    return _source(name, SourceTraits(clients=clients, file=file))


def divided_dataset(
    name: str,
    *,
    clients: int = SourceTraits.clients,
    made_of: tuple[str, ...] = (),
    made_of_option: str | None = None,
) -> Callable[[DividedSource], DividedSource]:
    """Register a function ``(clients, seed, *, options) -> FederatedData``: data that come divided already.

    With a third parameter, `server_share`, it decides itself what the server gets (None: as it likes).
    `clients` is the usual number of clients; `made_of` names other data sets that must be there, `made_of_option` an
    option that does.
    """
    return _source(name, SourceTraits(divided=True, clients=clients, made_of=made_of, made_of_option=made_of_option))


def _source(name: str, source_traits: SourceTraits) -> Callable[[Source], Source]:
    def enter(source: Source) -> Source:
        _TRAITS[source] = source_traits
        DATASETS.register(name)(source)
        return source

    return enter


def traits(name: str) -> SourceTraits:
    """Return what is known of a registered data set before it is read."""
    return _TRAITS.get(DATASETS[name], SourceTraits())

"""Clients whose samples share an attribute, as in PACFL's case study on CelebA."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from coterie.data.federated import Dataset, Index
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError, suggestion


@partition("by-attribute")
def by_attribute(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    attributes: Annotated[
        int | str, "Attributes, by name or column, with + between them."
    ] = "Smiling+Wavy_Hair+Wearing_Hat",
    per_client: Annotated[int, Ge(1), "Shards that each client gets; with more than one it may mix attributes."] = 1,
    test_share: Annotated[float, Gt(0), Lt(1), "Share of each client's samples that is held out to test it."] = 0.2,
) -> Partition:
    """Each part of the samples has one of some attributes and none of the others; clients get shards of the parts.

    Parts are cut into as many equal shards as clients need, in proportion to their sizes, and shards are dealt at
    random (PACFL, Fig. 7). A client with one shard has its attribute as true group. Samples with none or several of
    the attributes are left out.
    """
    columns = _columns(data, str(attributes).split("+"), "by-attribute")
    assert data.attributes is not None
    has = data.attributes[:, columns]
    sizes = (has & (has.sum(axis=1) == 1)[:, None]).sum(axis=0)
    counts = _shards_of_each(sizes, clients * per_client)
    shards: list[Index] = []
    for which, count in enumerate(counts):
        own = np.flatnonzero(has[:, which] & (has.sum(axis=1) == 1))
        shards += np.array_split(rng.permutation(own), count)
    kinds = np.repeat(np.arange(len(columns)), counts)
    drawn = rng.permutation(len(shards)).reshape(clients, per_client)
    parts = [np.sort(np.concatenate([shards[shard] for shard in own])) for own in drawn]
    unused = len(has) - int(sizes.sum())
    notes = [f"partition 'by-attribute': {unused} samples have none or several of the attributes, and are left out"]
    groups = kinds[drawn[:, 0]] if per_client == 1 else None
    return Partition(parts, groups, own_test=test_share, notes=notes if unused else ())


def attribute_groups(data: Dataset, attributes: str, parts: Sequence[Index], partition: str) -> Index:
    """Return which of some attributes most samples of each client have; of equals the first, one more for none."""
    columns = _columns(data, attributes.split("+"), partition)
    assert data.attributes is not None
    having = np.stack([data.attributes[part][:, columns].sum(axis=0) for part in parts])
    return np.where(having.any(axis=1), having.argmax(axis=1), len(columns)).astype(np.int64)


def _columns(data: Dataset, wanted: list[str], partition: str) -> list[int]:
    """Return the columns of attributes, given by name or number."""
    if data.attributes is None:
        raise CoterieError(
            f"partition '{partition}' needs attributes of samples, which data set '{data.name}' does not have: use "
            "another partition, or add 'attributes' to the .npz file"
        )
    names, count = data.attribute_names, data.attributes.shape[1]
    columns = []
    for name in wanted:
        if name in names:
            columns.append(names.index(name))
        elif name.isdecimal() and int(name) < count:
            columns.append(int(name))
        else:
            known = suggestion(name, names) if names else f"use columns 0 to {count - 1}"
            raise CoterieError(f"partition '{partition}': data set '{data.name}' has no attribute '{name}': {known}")
    if len(set(columns)) < len(columns):
        raise CoterieError(f"partition '{partition}': attributes = '{'+'.join(wanted)}' should name each once")
    return columns


def _shards_of_each(sizes: Index, shards: int) -> Index:
    """Divide shards among parts in proportion to their sizes, by largest remainders; each gets one at least."""
    if shards < len(sizes) or (sizes == 0).any() or sizes.sum() < shards:
        raise CoterieError(
            f"partition 'by-attribute': {shards} shards cannot be made of parts of {', '.join(map(str, sizes))} "
            "samples, at least one of each: change the number of clients, or name other attributes"
        )
    exact = np.asarray(shards * sizes / sizes.sum())
    counts: Index = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: shards - counts.sum()]] += 1
    while (counts == 0).any():
        counts[counts.argmax()] -= 1
        counts[counts.argmin()] += 1
    return counts

"""Equal shares: of the same mixture, or of shards of samples sorted by label (McMahan et al.; ALGORITHMS 8.7)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Dataset, Index
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError


@partition("iid")
def iid(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    labels: Annotated[int | None, Ge(1), "Labels in use, drawn at random, the same for all clients; none: all."] = None,
) -> Partition:
    """Every client gets an equal share, drawn at random."""
    y = data.train.y
    used = np.arange(len(y))
    if labels is not None:
        if data.of_numbers:
            raise CoterieError("partition 'iid': labels = ... is for classification, not for regression: leave it out")
        present = np.unique(y)
        if labels > len(present):
            raise CoterieError(
                f"partition 'iid': labels = {labels}, but there are {len(present)}: use at most {len(present)}"
            )
        used = np.flatnonzero(np.isin(y, rng.permutation(present)[:labels]))
        if clients > len(used):
            raise CoterieError(
                f"partition 'iid': the {labels} labels in use have {len(used)} samples, too few for {clients} "
                f"clients: use at most {len(used)} clients, or more labels"
            )
    return Partition([np.sort(part) for part in np.array_split(rng.permutation(used), clients)])


@partition("shards")
def shards(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    per_client: Annotated[int, Ge(1), "Shards that each client gets."] = 2,
    size: Annotated[int | None, Ge(1), "Samples in a shard; none: all samples are used, in equal shards."] = None,
) -> Partition:
    """Every client gets some shards, drawn at random, of the samples sorted by label.

    Without a `size` this is an exact partition, with shards whose sizes differ by one at most. With a `size`
    the samples that do not fill a shard, and the shards that nobody draws, are left out.
    """
    everything = np.arange(len(data.train))
    return Partition(dealt_shards("partition 'shards'", data.train.y, everything, clients, per_client, size, rng))


def dealt_shards(
    where: str, y: Index, positions: Index, clients: int, per_client: int, size: int | None, rng: np.random.Generator
) -> list[Index]:
    """Deal shards of the samples at some positions, sorted by label; `where` begins the error if they are too few."""
    samples, needed = len(positions), clients * per_client
    there = samples if size is None else samples // size
    if needed > there:
        remedies = []
        if there >= per_client:
            remedies.append(f"at most {there // per_client} clients")
        if there >= clients:
            remedies.append(f"per_client = {there // clients}")
        if size is not None and samples >= needed:
            remedies.append(f"size = {samples // needed}")
        raise CoterieError(
            f"{where}: {clients} clients with {per_client} shards each need {needed} shards"
            + (f" of {size} samples" if size else "")
            + f", but {samples} samples make {there}: use {', or '.join(remedies) or 'per_client = 1 and no size'}"
        )
    shuffled = positions[rng.permutation(samples)]
    by_label = shuffled[np.argsort(y[shuffled], kind="stable")]
    pieces = np.array_split(by_label, needed) if size is None else np.split(by_label[: there * size], there)
    drawn = rng.permutation(len(pieces))[:needed].reshape(clients, per_client)
    return [np.sort(np.concatenate([pieces[shard] for shard in own])) for own in drawn]

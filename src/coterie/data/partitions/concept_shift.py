"""Groups of clients that see the same kind of samples in their own ways (ALGORITHMS 8.12).

Client i belongs to group ``i % groups``, so no group is empty if there are as many clients as groups. The
samples are dealt out evenly at random. With `drift_at`, each group sees its samples as the next group did
from that round on.
"""

from functools import partial
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from coterie.data.federated import Dataset, Index, Samples
from coterie.data.partitions.even_sizes import iid
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

Turns = Annotated[int, Ge(1), Le(4), "Groups of clients; group g sees the images turned g times by 90 degrees."]
Namings = Annotated[
    int, Ge(1), Le(1000), "Groups of clients; each but the first has its own permutation of the labels."
]
Drift = Annotated[int | None, Ge(1), "Round from which each group sees its samples as the next group did; none: never."]


@partition("rotated")
def rotated(
    data: Dataset, clients: int, rng: np.random.Generator, *, groups: Turns = 4, drift_at: Drift = None
) -> Partition:
    """Up to four true groups of clients, each seeing the images turned by another right angle."""
    if len(data.shape) != 3 or data.shape[1] != data.shape[2]:
        raise CoterieError(f"partition 'rotated' needs square images, but the inputs have the shape {data.shape}")
    parts = iid(data, clients, rng).parts
    return Partition(parts, np.arange(clients) % groups, turned, on_server=True, drift_at=drift_at)


@partition("permuted")
def permuted(
    data: Dataset, clients: int, rng: np.random.Generator, *, groups: Namings = 4, drift_at: Drift = None
) -> Partition:
    """True groups of clients, each naming the classes in another order."""
    parts = iid(data, clients, rng).parts
    others = [rng.permutation(data.classes) for _ in range(1, groups)]
    names = np.stack([np.arange(data.classes), *others])
    return Partition(parts, np.arange(clients) % groups, partial(renamed, names), drift_at=drift_at)


def turned(samples: Samples, group: Index) -> Samples:
    """Group g sees the images turned counter-clockwise by g right angles."""
    x = samples.x.copy()
    for turns in np.unique(group % 4):
        chosen = group % 4 == turns
        x[chosen] = np.rot90(x[chosen], turns, axes=(2, 3))
    return Samples(x, samples.y)


def renamed(names: Index, samples: Samples, group: Index) -> Samples:
    """Group g calls class c by the name ``names[g, c]``."""
    return Samples(samples.x, names[group, samples.y])

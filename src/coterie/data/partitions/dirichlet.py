"""Label proportions drawn from Dirichlet distributions, for each label (ALGORITHMS 8.4) or each client (8.5)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.counting import Shares, Table, best_draw, cut, dealt, mended, moved_note
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

LARGEST = 1e6
"""A concentration beyond which shares are even to all digits that matter."""


@partition("dirichlet")
def dirichlet(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    alpha: Annotated[float, Gt(0), Le(LARGEST), "Concentration: the smaller, the fewer clients share a label."] = 0.1,
    min_samples: Annotated[int, Ge(0), "Samples that each client has at least."] = 10,
) -> Partition:
    """The samples of each label are shared by all clients in proportions drawn from a Dirichlet distribution.

    As in NIID-Bench, who has its fair share already gets nothing of the labels that follow, and draws are
    repeated while a client has too few samples. Here that ends: after 20 draws the best one is mended by
    moving samples from the largest clients to those below the minimum, and a note says how many.
    """
    y = data.train.y
    if clients * min_samples > len(y):
        raise CoterieError(
            f"partition 'dirichlet': at least {min_samples} samples for each of {clients} clients are "
            f"{clients * min_samples}, but there are {len(y)}: use at most {len(y) // min_samples} clients, "
            f"or min_samples = {len(y) // clients}"
        )
    parts, moved = shared_by_dirichlet(y, clients, alpha, min_samples, rng)
    return Partition(parts, notes=moved_note("dirichlet", moved, len(y), min_samples))


def shared_by_dirichlet(
    y: Index, clients: int, alpha: float, min_samples: int, rng: np.random.Generator
) -> tuple[list[Index], int]:
    """Return positions per client, and how many samples were moved to give all the minimum, which must suffice."""
    labels, sizes = np.unique(y, return_counts=True)
    drawn = best_draw(lambda: _shared(sizes, clients, alpha, rng), min_samples)
    table, moved = mended(drawn, min_samples)
    return dealt(y, labels, table, rng), moved


def _shared(sizes: Index, clients: int, alpha: float, rng: np.random.Generator) -> Table:
    """Draw how many samples of each label each client gets."""
    held = np.zeros(clients, np.int64)
    table = np.empty((clients, len(sizes)), np.int64)
    for label, drawn in enumerate(rng.dirichlet(np.full(clients, alpha), len(sizes))):
        wanting = np.where(held * clients < sizes.sum(), drawn, 0.0)
        shares = wanting if wanting.sum() > 0 else drawn
        table[:, label] = cut(shares / shares.sum(), sizes[label])
        held += table[:, label]
    return table


@partition("dirichlet-categories")
def dirichlet_categories(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    alpha: Annotated[float, Gt(0), Le(LARGEST), "Concentration: the smaller, the fewer labels a client has."] = 0.25,
    scale: Annotated[
        float | None,
        Gt(0),
        Le(LARGEST),
        "Factor of the label frequencies, which sum to 1; 1: as Hsu et al.; none: the number of labels.",
    ] = None,
) -> Partition:
    """Every client draws its label proportions from a Dirichlet distribution, and then samples, all equally many.

    Client after client draws its samples one by one: a label from its own proportions among those of which
    some are left, then a sample of it. In the end all samples are given out.
    """
    labels, stock = np.unique(data.train.y, return_counts=True)
    concentration = alpha * (len(labels) if scale is None else scale) * stock / stock.sum()
    sizes = [len(part) for part in np.array_split(data.train.y, clients)]
    table = np.empty((clients, len(labels)), np.int64)
    for client, size in enumerate(sizes):
        table[client] = _drawn(rng.dirichlet(concentration), size, stock, rng)
        stock = stock - table[client]
    return Partition(dealt(data.train.y, labels, table, rng))


def _drawn(proportions: Shares, size: int, stock: Index, rng: np.random.Generator) -> Index:
    """Draw so many labels one by one, never more of one than there are; return how many of each."""
    counts = np.zeros(len(stock), np.int64)
    while counts.sum() < size:
        left = stock - counts
        weights = np.where(left > 0, proportions, 0.0)
        if weights.sum() < np.finfo(np.float64).tiny:  # nothing is left of its labels, so it takes what there is
            weights = left.astype(np.float64)
        lots = rng.choice(len(stock), size - counts.sum(), p=weights / weights.sum())
        # Many are drawn at once, up to the first that is not there any more: the rest are drawn anew without it.
        missing = [np.flatnonzero(lots == label)[left[label] :] for label in np.unique(lots)]
        first = min((int(late[0]) for late in missing if len(late)), default=len(lots))
        counts += np.bincount(lots[:first], minlength=len(stock))
    return counts

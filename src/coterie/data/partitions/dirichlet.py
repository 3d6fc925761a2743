"""Proportions drawn from Dirichlet distributions, for each label (ALGORITHMS 8.4), client (8.5) or label set (8.6)."""

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from coterie.data.federated import Dataset, Index
from coterie.data.partitions import counting
from coterie.data.partitions.counting import Owned, Shares, Table, TooFewError
from coterie.data.parts import ClientParts
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

LARGEST = 1e6
"""A concentration beyond which shares are even to all digits that matter."""
Concentration = Annotated[float, Gt(0), Le(LARGEST), "Concentration: the smaller, the fewer clients share a label."]
Minimum = Annotated[int, Ge(0), "Samples that each client has at least."]


@partition("dirichlet")
def dirichlet(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    alpha: Concentration = 0.1,
    min_samples: Minimum = 10,
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
    return Partition(parts, notes=counting.moved_note("dirichlet", moved, len(y), min_samples))


def shared_by_dirichlet(
    y: Index, clients: int, alpha: float, min_samples: int, rng: np.random.Generator
) -> tuple[ClientParts, int]:
    """Return positions per client, and how many samples were moved to give all the minimum, which must suffice."""
    labels, sizes = np.unique(y, return_counts=True)
    drawn = counting.best_draw(lambda: _shared(sizes, clients, alpha, rng), min_samples)
    table, moved = counting.mended(drawn, min_samples)
    return counting.dealt(y, labels, table, rng), moved


def _shared(sizes: Index, clients: int, alpha: float, rng: np.random.Generator) -> Table:
    """Draw how many samples of each label each client gets."""
    held = np.zeros(clients, np.int64)
    table = np.empty((clients, len(sizes)), np.int64)
    for label, drawn in enumerate(rng.dirichlet(np.full(clients, alpha), len(sizes))):
        wanting = np.where(held * clients < sizes.sum(), drawn, 0.0)
        shares = wanting if wanting.sum() > 0 else drawn
        table[:, label] = counting.cut(shares / shares.sum(), sizes[label])
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
    return Partition(counting.dealt(data.train.y, labels, table, rng))


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


@partition("label-skew-quantity")
def label_skew_quantity(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    rho: Annotated[float, Gt(0), Le(1), "Fraction of the labels that each group has."] = 0.2,
    alpha: Annotated[
        float, Gt(0), Le(LARGEST), "Concentration of the shares in a label: 1 a low, 0.25 a high shift of quantities."
    ] = 1.0,
    groups: Annotated[
        int | None, Ge(1), "Groups of clients; none: the fewest that have all labels, 5 for rho = 0.2, 4 for 0.3."
    ] = None,
    min_samples: Minimum = 10,
) -> Partition:
    """True groups of clients with a fraction rho of the labels each, whose samples they share in uneven parts.

    Client i belongs to group ``i % groups``. No two groups have the same labels. All labels have owners if the
    groups suffice for that; else the samples of the others are left out, and a note says so. Owners share
    the samples of a label in proportions drawn from a Dirichlet distribution; if after 20 draws some client
    still has too few, the best draw is mended by moving samples, and a note says how many.
    """
    name, y = "label-skew-quantity", data.train.y
    labels, sizes = np.unique(y, return_counts=True)
    each = max(1, round(rho * len(labels)))
    groups = min(math.ceil(len(labels) / each), clients) if groups is None else groups
    different = math.comb(len(labels), each)
    if groups > min(clients, different):
        sets = f"with {each} of {len(labels)} labels each there are {different} different ones"
        raise CoterieError(
            f"partition '{name}' cannot make {groups} groups, as "
            + (f"there are {clients} clients" if groups > clients else sets)
            + f": use groups = {min(clients, different)}"
        )
    group = np.arange(clients) % groups
    owned = _label_sets(groups, len(labels), each, rng)[group]

    def shares_of_labels() -> Table:
        table = np.zeros(owned.shape, np.int64)
        for label in np.flatnonzero(owned.any(axis=0)):
            owners = np.flatnonzero(owned[:, label])
            table[owners, label] = counting.cut(rng.dirichlet(np.full(len(owners), alpha)), sizes[label])
        return table

    try:
        table, moved = counting.mended(counting.best_draw(shares_of_labels, min_samples), min_samples, owned)
    except TooFewError:
        largest = _largest_minimum(shares_of_labels(), min_samples, owned)
        raise CoterieError(
            f"partition '{name}': the labels of a group have too few samples for {clients} clients in {groups} groups "
            f"with at least {min_samples} samples each: use min_samples = {largest}, or fewer clients"
        ) from None
    notes = counting.moved_note(name, moved, int(table.sum()), min_samples)
    notes += counting.unowned_note(name, labels, sizes, table)
    return Partition(counting.dealt(y, labels, table, rng), group, notes=notes)


def _label_sets(groups: int, labels: int, each: int, rng: np.random.Generator) -> Owned:
    """Draw a different label set for each group, (groups, labels), all of them together covering all they can."""
    order = rng.permutation(labels)
    sets: list[Index] = []
    seen: set[tuple[int, ...]] = set()
    while len(sets) < groups:
        new = order[len(sets) * each :][:each]
        others = rng.permutation(np.setdiff1d(order, new))
        drawn = np.sort(np.concatenate([new, others[: each - len(new)]]))
        if tuple(drawn) not in seen:  # only sets without a new label may have been seen, and are drawn again
            seen.add(tuple(drawn))
            sets.append(drawn)
    owned = np.zeros((groups, labels), bool)
    owned[np.arange(groups)[:, None], sets] = True
    return owned


def _largest_minimum(table: Table, too_large: int, owned: Owned) -> int:
    """Return the largest minimum that the clients can be given."""
    possible, too_large = 0, min(too_large, int(table.sum()) // len(table) + 1)
    while too_large - possible > 1:
        tried = (possible + too_large) // 2
        try:
            counting.mended(table, tried, owned)
            possible = tried
        except TooFewError:
            too_large = tried
    return possible

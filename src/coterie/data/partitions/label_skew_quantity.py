"""Groups of clients with a label set each, who share its samples unevenly (FLAG; ALGORITHMS 8.6)."""

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.counting import (
    Owned,
    Table,
    TooFewError,
    best_draw,
    cut,
    dealt,
    mended,
    moved_note,
    unowned_note,
)
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

_NAME = "label-skew-quantity"


@partition(_NAME)
def label_skew_quantity(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    rho: Annotated[float, Gt(0), Le(1), "Fraction of the labels that each group has."] = 0.2,
    alpha: Annotated[
        float, Gt(0), Le(1e6), "Concentration of the shares in a label: 1 a low, 0.25 a high shift of quantities."
    ] = 1.0,
    groups: Annotated[
        int | None, Ge(1), "Groups of clients; none: the fewest that have all labels, 5 for rho = 0.2, 4 for 0.3."
    ] = None,
    min_samples: Annotated[int, Ge(0), "Samples that each client has at least."] = 10,
) -> Partition:
    """True groups of clients with a fraction rho of the labels each, whose samples they share in uneven parts.

    Client i belongs to group ``i % groups``. No two groups have the same labels. All labels have owners if the
    groups suffice for that; else the samples of the others are left out, and a note says so. Owners share
    the samples of a label in proportions drawn from a Dirichlet distribution; if after 20 draws some client
    still has too few, the best draw is mended by moving samples, and a note says how many.
    """
    y = data.train.y
    labels, sizes = np.unique(y, return_counts=True)
    each = max(1, round(rho * len(labels)))
    groups = min(math.ceil(len(labels) / each), clients) if groups is None else groups
    if groups > min(clients, math.comb(len(labels), each)):
        reason = (
            f"there are {clients} clients"
            if groups > clients
            else f"with {each} of {len(labels)} labels each there are {math.comb(len(labels), each)} different ones"
        )
        raise CoterieError(
            f"partition '{_NAME}' cannot make {groups} groups, as {reason}: "
            f"use groups = {min(clients, math.comb(len(labels), each))}"
        )
    group = np.arange(clients) % groups
    owned = _label_sets(groups, len(labels), each, rng)[group]

    def shared() -> Table:
        table = np.zeros(owned.shape, np.int64)
        for label in np.flatnonzero(owned.any(axis=0)):
            owners = np.flatnonzero(owned[:, label])
            table[owners, label] = cut(rng.dirichlet(np.full(len(owners), alpha)), sizes[label])
        return table

    try:
        table, moved = mended(best_draw(shared, min_samples), min_samples, owned)
    except TooFewError:
        largest = _largest_minimum(shared(), min_samples, owned)
        raise CoterieError(
            f"partition '{_NAME}': the labels of a group have too few samples for {clients} clients in {groups} groups "
            f"with at least {min_samples} samples each: use min_samples = {largest}, or fewer clients"
        ) from None
    notes = moved_note(_NAME, moved, int(table.sum()), min_samples) + unowned_note(_NAME, labels, sizes, table)
    return Partition(dealt(y, labels, table, rng), group, notes=notes)


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
            mended(table, tried, owned)
            possible = tried
        except TooFewError:
            too_large = tried
    return possible

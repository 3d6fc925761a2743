"""Every client knows only some of the labels ("#label k" of NIID-Bench; ALGORITHMS 8.2)."""

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.counting import Owned
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

_DRAWS = 100


@partition("label-skew")
def label_skew(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    rho: Annotated[float, Gt(0), Le(1), "Fraction of the labels that each client has."] = 0.2,
) -> Partition:
    """Every client has a fraction rho of the labels; the samples of a label are shared evenly by its owners."""
    y = data.train.y
    labels = np.unique(y)
    each = max(1, round(rho * len(labels)))
    if each * clients < len(labels):
        rho_needed = math.ceil(1000 * math.ceil(len(labels) / clients) / len(labels)) / 1000
        raise CoterieError(
            f"partition 'label-skew': with rho = {rho:g} each of {clients} clients has {each} of {len(labels)} labels, "
            f"so some label has no owner: use at least {math.ceil(len(labels) / each)} clients, "
            f"or rho = {rho_needed:g}"
        )
    return Partition(shared_evenly(y, labels, covering(clients, len(labels), each, rng), rng))


def shared_evenly(y: Index, labels: Index, owned: Owned, rng: np.random.Generator) -> list[Index]:
    """Return positions per client: the samples of each label, shuffled, in parts that differ by one at most."""
    pieces: list[list[Index]] = [[] for _ in owned]
    held = np.zeros(len(owned), np.int64)
    for column, label in enumerate(labels):
        owners = np.flatnonzero(owned[:, column])
        # The odd samples go to those who hold least so far, so that with many clients few remain empty-handed.
        owners = owners[np.lexsort((rng.random(len(owners)), held[owners]))]
        positions = rng.permutation(np.flatnonzero(y == label))
        for owner, piece in zip(owners, np.array_split(positions, len(owners)), strict=True):
            pieces[owner].append(piece)
            held[owner] += len(piece)
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def covering(clients: int, labels: int, each: int, rng: np.random.Generator) -> Owned:
    """Draw who has which labels, `each` of them, until every label has an owner; `clients` times `each` suffice.

    Client i gets the label i modulo their number first, then others at random, all different. Where clients are so few
    that a label may be left over, there are fewer clients than labels, and no two have the same first label; of the
    owners of a shared label, one at least did not get it first and can give it up.
    """
    rows = np.arange(clients)

    def draw() -> Owned:
        lots = rng.random((clients, labels))
        lots[rows, rows % labels] = -1.0
        owned = np.zeros((clients, labels), bool)
        owned[rows[:, None], np.argpartition(lots, each - 1, axis=1)[:, :each]] = True
        return owned

    first = np.zeros((clients, labels), bool)
    first[rows, rows % labels] = True
    return drawn_until_covering(draw, lambda spare: spare & ~first, rng)


def drawn_until_covering(
    draw: Callable[[], Owned], can_give_up: Callable[[Owned], Owned], rng: np.random.Generator
) -> Owned:
    """Draw who has which labels until every label has an owner; after many draws the last one is mended.

    Nearly all draws may leave a label over, so that drawing alone would not end. Each label without owner is then given
    to a client in place of one that others have as well, which must be among those that the client `can_give_up`.
    """
    for _ in range(_DRAWS):
        owned = draw()
        if owned.any(axis=0).all():
            return owned
    for label in np.flatnonzero(~owned.any(axis=0)):
        spare = can_give_up(owned & (owned.sum(axis=0) > 1))
        client, given_up = rng.choice(np.argwhere(spare))
        owned[client, given_up], owned[client, label] = False, True
    return owned

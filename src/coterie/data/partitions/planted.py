"""Two groups of clients by how many labels of one set they have ("noniid1"; ALGORITHMS 8.3)."""

import math
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Gt, Lt

from coterie.data.federated import Dataset
from coterie.data.partitions.counting import Owned
from coterie.data.partitions.label_skew import drawn_until_covering, shared_evenly
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError


@partition("planted")
def planted(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    rho: Annotated[float, Gt(0), Lt(1), "Fraction of the labels that each client has."] = 0.2,
) -> Partition:
    """Two true groups of clients: those that have at least half of one label set, and those that have less.

    Every client has a fraction rho of the labels. Client 0 has the set itself; of the others two in three, by chance,
    have half of it or more, one in three a quarter or less (rounded up), and for the rest labels outside of it. The
    samples of a label are shared evenly by its owners. With two labels each, a quarter rounded up is as much as
    half, so groups are told apart by the labels that a client really has, not by how they were drawn.
    """
    labels = np.unique(data.train.y)
    each = round(rho * len(labels))
    most = math.ceil(2 * len(labels) / 3) - 1
    if not 2 <= each <= most:
        raise CoterieError(
            f"partition 'planted': rho = {rho:g} gives each client {each} of {len(labels)} labels, but two groups need "
            + (f"2 to {most}: use rho = {min(max(each, 2), most) / len(labels):.4g}" if most >= 2 else "4 labels")
        )
    if each * clients < len(labels):
        raise CoterieError(
            f"partition 'planted': with rho = {rho:g} each of {clients} clients has {each} of {len(labels)} labels, "
            f"so some label has no owner: use at least {math.ceil(len(labels) / each)} clients"
        )
    base = np.zeros(len(labels), bool)
    base[rng.permutation(len(labels))[:each]] = True

    def can_give_up(spare: Owned) -> Owned:
        # There are as many places as labels, so if one has no owner another has several, and not only client 0.
        spare[0] = False
        outside = spare & ~base
        return outside if outside.any() else spare

    owned = drawn_until_covering(lambda: _draw(base, clients, rng), can_give_up, rng)
    group = (2 * owned[:, base].sum(axis=1) < each).astype(np.int64)
    return Partition(shared_evenly(data.train.y, labels, owned, rng), group)


def _draw(base: npt.NDArray[np.bool_], clients: int, rng: np.random.Generator) -> Owned:
    """Draw for each client how many labels it has of the base set, then which, and which others."""
    labels, each = len(base), int(base.sum())
    kind = rng.integers(0, 3, clients)
    near = rng.integers(math.ceil(labels / 2), labels, clients)
    far = rng.integers(0, labels // 4 + 1, clients)
    common = -(-each * np.where(kind == 2, far, near) // labels)
    common[(kind == 0) & (common == each)] -= math.ceil(0.05 * each)
    common = np.maximum(common, 2 * each - labels)  # there are no more labels outside the set
    common[0] = each
    lots = rng.random((clients, labels))
    inside = np.where(base, lots, 2.0).argsort(axis=1).argsort(axis=1) < common[:, None]
    outside = np.where(base, 2.0, lots).argsort(axis=1).argsort(axis=1) < (each - common)[:, None]
    owned: Owned = inside | outside
    return owned

"""Every client has only some of the labels.

They are drawn ("#label k" of NIID-Bench; ALGORITHMS 8.2), planted (8.3), or those that the user names.
"""

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

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
    rho_needed = math.ceil(1000 * math.ceil(len(labels) / clients) / len(labels)) / 1000
    _check_owners("label-skew", rho, clients, len(labels), each, f", or rho = {rho_needed:g}")
    return Partition(shared_evenly(y, labels, covering(clients, len(labels), each, rng), rng))


def _check_owners(name: str, rho: float, clients: int, labels: int, each: int, remedy: str = "") -> None:
    if each * clients < labels:
        raise CoterieError(
            f"partition '{name}': with rho = {rho:g} each of {clients} clients has {each} of {labels} labels, "
            f"so some label has no owner: use at least {math.ceil(labels / each)} clients{remedy}"
        )


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
    _check_owners("planted", rho, clients, len(labels), each)
    base = np.zeros(len(labels), bool)
    base[rng.permutation(len(labels))[:each]] = True

    def can_give_up(spare: Owned) -> Owned:
        # There are as many places as labels, so if one has no owner another has several, and not only client 0.
        spare[0] = False
        outside = spare & ~base
        return outside if outside.any() else spare

    owned = drawn_until_covering(lambda: _draw_planted(base, clients, rng), can_give_up, rng)
    group = (2 * owned[:, base].sum(axis=1) < each).astype(np.int64)
    return Partition(shared_evenly(data.train.y, labels, owned, rng), group)


def _draw_planted(base: Owned, clients: int, rng: np.random.Generator) -> Owned:
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


@partition("given-labels")
def given_labels(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    labels: Annotated[int | str, "Sets of labels, for instance 8+9/0+1; clients take them in turn."],
    samples: Annotated[
        int | None, Ge(1), "Samples per client, evenly over its labels; none: all, shared evenly by a label's owners."
    ] = None,
) -> Partition:
    """Client i has the i-th of the sets of labels that are named, which are taken in turn; they are the true groups.

    With `samples`, what a client gets does not depend on which sets come after its own.
    """
    y = data.train.y
    sets = read_sets(str(labels))
    present = np.unique(y)
    check_labels(sorted(set().union(*sets)), present, data.name)
    if clients < len(sets):
        raise CoterieError(
            f"partition 'given-labels': there are {len(sets)} sets of labels, but {clients} clients: use at least "
            f"{len(sets)} clients"
        )
    turn = np.arange(clients) % len(sets)
    if samples is None:
        owned = np.array([np.isin(present, sets[k]) for k in turn])
        used = owned.any(axis=0)
        return Partition(shared_evenly(y, present[used], owned[:, used], rng), turn)
    stock = {int(label): rng.permutation(np.flatnonzero(y == label)) for label in present}  # all, whoever needs them
    return Partition([_taken(stock, sets[k], samples) for k in turn], turn)


def read_sets(text: str) -> list[list[int]]:
    """Read sets of labels, each ascending.

    >>> read_sets("8+9/1+0")
    [[8, 9], [0, 1]]
    """
    sets = []
    for piece in text.split("/"):
        try:
            labels = sorted(int(label) for label in piece.split("+"))
        except ValueError:
            raise CoterieError(
                f"partition 'given-labels': labels = '{text}' should be sets of labels like 8+9/0+1"
            ) from None
        if len(set(labels)) < len(labels):
            raise CoterieError(f"partition 'given-labels': '{piece}' names a label twice: name it once")
        sets.append(labels)
    return sets


def check_labels(wanted: list[int], present: Index, name: str) -> None:
    """Refuse labels that a data set does not have."""
    for label in wanted:
        if label not in present:
            span = f"{present[0]} to {present[-1]}" if len(present) > 12 else ", ".join(map(str, present))
            raise CoterieError(f"data set '{name}' has no label {label}: its labels are {span}")


def _taken(stock: dict[int, Index], labels: list[int], samples: int) -> Index:
    """Take a client's samples off the stock, as evenly over its labels as can be."""
    if samples < len(labels):
        raise CoterieError(
            f"partition 'given-labels': {samples} samples are too few for {len(labels)} labels: use at least "
            f"{len(labels)}"
        )
    pieces = []
    for rank, label in enumerate(labels):
        count = (samples + len(labels) - 1 - rank) // len(labels)
        if count > len(stock[label]):
            raise CoterieError(
                f"partition 'given-labels': of label {label} there are {len(stock[label])} samples left where {count} "
                "are needed: use fewer samples or clients"
            )
        pieces.append(stock[label][:count])
        stock[label] = stock[label][count:]
    return np.sort(np.concatenate(pieces))

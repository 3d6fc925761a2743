"""Every client has the labels that it is given: for what-if questions."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.label_skew import shared_evenly
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError


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

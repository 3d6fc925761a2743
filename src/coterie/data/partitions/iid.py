"""Everyone gets the same mixture."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Dataset
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

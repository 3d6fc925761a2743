"""Everyone gets the same mixture."""

from __future__ import annotations

import numpy as np

from coterie.data.federated import Dataset
from coterie.data.registries import Partition, partition


@partition("iid")
def iid(data: Dataset, clients: int, rng: np.random.Generator) -> Partition:
    """Every client gets an equal share, drawn at random."""
    return Partition([np.sort(part) for part in np.array_split(rng.permutation(len(data.train)), clients)])

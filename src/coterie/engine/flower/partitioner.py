"""Our partitions for Flower Datasets: any data set of its hub, divided as in a run of Coterie.

from flwr_datasets import FederatedDataset
from coterie.engine.flower.partitioner import CoteriePartitioner

divided = CoteriePartitioner("label-skew", 100, {"rho": 0.2}, seed=0)
FederatedDataset(dataset="ylecun/mnist", partitioners={"train": divided}).load_partition(0)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from flwr_datasets.partitioner import Partitioner

from coterie.data import PARTITIONS, Dataset, Samples
from coterie.data.dividing import checked
from coterie.data.federated import Index
from coterie.data.registries import Partition
from coterie.errors import CoterieError
from coterie.streams import stream

BY_IMAGES = ("sc-niid", "sc-dirichlet")


class CoteriePartitioner(Partitioner):  # type: ignore[misc,unused-ignore]
    """Divides a data set by a registered partition; ``coterie partitions`` lists them with their options."""

    def __init__(
        self,
        partition: str,
        num_partitions: int,
        options: Mapping[str, Any] | None = None,
        *,
        partition_by: str = "label",
        user: str | None = None,
        inputs: str | None = None,
        seed: int = 0,
    ) -> None:
        """`partition_by` is the column of labels, `user` that of who made a sample, which partition 'by-user' needs.

        `inputs` is the column of images, all of one size, which partitions by super clusters look at. No samples are
        kept for a server, whereas a run of Coterie sets some aside for it first.
        """
        super().__init__()
        self._name, self._count, self._seed = partition, num_partitions, seed
        self._options = PARTITIONS.validate(partition, options or {})
        self._partition_by, self._user, self._inputs = partition_by, user, inputs
        if partition in BY_IMAGES and inputs is None:
            raise CoterieError(f"partition '{partition}' looks at images: name their column, inputs='image'")

    @property
    def num_partitions(self) -> int:
        """How many parts there are."""
        return self._count

    @property
    def true_groups(self) -> Index | None:
        """The group of each part, where the partition plants groups."""
        return self._division.true_groups

    def load_partition(self, partition_id: int) -> Any:
        """Return a part, a `datasets.Dataset`."""
        if not 0 <= partition_id < self._count:
            raise ValueError(f"there are the partitions 0 to {self._count - 1}, not {partition_id}")
        return self.dataset.select(self._division.parts[partition_id])

    @cached_property
    def _division(self) -> Partition:
        labels, classes = _numbered(self.dataset, self._partition_by)
        if not 1 <= self._count <= len(labels):
            raise CoterieError(f"{len(labels)} samples can't be divided into {self._count} partitions")
        x = np.zeros((len(labels), 1, 1, 1), np.float32)  # most partitions go by labels and users only
        if self._inputs is not None:
            x = np.stack([np.asarray(image) for image in self.dataset[self._inputs]])
        users = None if self._user is None else _numbered(self.dataset, self._user)[0]
        pool = Dataset("the data set", Samples(x, labels), None, classes, users=users)
        division = PARTITIONS[self._name](pool, self._count, stream(self._seed, "partition"), **self._options)
        if division.concept is not None:
            raise CoterieError(
                f"partition '{self._name}' shows samples to groups of clients in different ways, which Flower Datasets "
                "has no place for: use another"
            )
        checked(division, self._name, len(labels), self._count)
        return division


def _numbered(dataset: Any, column: str) -> tuple[Index, int]:
    """Return a column as numbers from 0, and how many there are; classes that Flower Datasets numbers keep theirs."""
    if column not in dataset.column_names:
        raise CoterieError(f"there is no column '{column}': there are {', '.join(dataset.column_names)}")
    classes = getattr(dataset.features[column], "num_classes", None)
    values = np.asarray(dataset[column])
    if classes is not None:
        return values.astype(np.int64), int(classes)
    distinct, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)

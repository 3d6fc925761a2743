"""Data sets and how they are divided among clients."""

from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Normalisation, Samples
from coterie.data.folder import stored_names
from coterie.data.loading import check, default_clients, load
from coterie.data.readers.npz import read_inputs, read_npz
from coterie.data.registries import (
    DATASETS,
    PARTITIONS,
    Partition,
    Traits,
    dataset,
    divided_dataset,
    partition,
    traits,
)

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Dataset",
    "FederatedData",
    "Normalisation",
    "Partition",
    "Samples",
    "Traits",
    "check",
    "dataset",
    "default_clients",
    "divide",
    "divided_dataset",
    "load",
    "partition",
    "read_inputs",
    "read_npz",
    "stored_names",
    "traits",
]

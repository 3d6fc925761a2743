"""Data sets and how they are divided among clients."""

from coterie.data.catalogue import is_here, listing
from coterie.data.dividing import divide
from coterie.data.federated import Dataset, FederatedData, Normalisation, Normaliser, Samples
from coterie.data.folder import stored_names
from coterie.data.loading import check, default_clients, default_partition, known_name, load, read_share
from coterie.data.readers.formats import FORMATS, read, reader, recognise
from coterie.data.readers.inputs import Inputs, read_inputs
from coterie.data.readers.npz import read_npz
from coterie.data.registries import DATASETS, PARTITIONS, Partition, dataset, divided_dataset, partition, traits

__all__ = [
    "DATASETS", "FORMATS", "PARTITIONS", "Dataset", "FederatedData", "Inputs", "Normalisation", "Normaliser",
    "Partition", "Samples", "check", "dataset", "default_clients", "default_partition", "divide",
    "divided_dataset", "is_here", "known_name", "listing", "load", "partition", "read", "read_inputs", "read_npz",
    "read_share", "reader", "recognise", "stored_names", "traits",
]  # fmt: skip

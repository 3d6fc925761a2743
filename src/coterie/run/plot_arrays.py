"""What pictures of a run need beside its numbers: who holds which labels, what clients were grouped by, pools."""

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import Grouping
from coterie.data import FederatedData
from coterie.federation import Algorithm
from coterie.federation.curriculum import ClientCurriculum
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.training.batches import pool_size

Arrays = dict[str, npt.NDArray[Any]]
STEPS = 101
"""At how many points of a local training the pool of samples is noted."""


class PlotArrays:
    """Keeps a file of arrays beside the result up to date.

    `label_counts` (clients, classes) are training samples, at the end where data drift; known in a simulation only.
    Where clients were grouped by proximities: `grouped` are who, then `proximity`, `tree` and `labels` of these.
    With a curriculum, `sample_pool` is the share of a client's samples over a local training, `client_pool` the
    number of clients by round.
    """

    def __init__(self, folder: RunFolder, config: Config, data: FederatedData) -> None:
        self.folder, self.config, self.data = folder, config, data
        self._written: npt.NDArray[np.float64] | None = None

    def update(self, algorithm: Algorithm) -> None:
        """Write the file if it is not there, or if there is something new to see. Do it before a checkpoint."""
        grouping = algorithm.grouping
        proximity = None if grouping is None else grouping.proximity
        if self.folder.arrays_file.exists() and (proximity is None or proximity is self._written):
            return
        arrays = pools(self.config, self.data.clients)
        if self.data.clients:  # whose data are here
            arrays["label_counts"] = label_counts(self.data)
        if grouping is not None and proximity is not None:
            arrays |= grouped(grouping, list(algorithm.groups() or {}))
        self.folder.write_arrays(arrays)
        self._written = proximity


def label_counts(data: FederatedData) -> npt.NDArray[np.int64]:
    """Return training samples by client and class, (clients, classes)."""
    parts = data.drift[-1].train_parts if data.drift else data.train_parts
    counts = [np.bincount(data.train.y[part], minlength=data.classes) for part in parts]
    return np.array(counts, np.int64)


def grouped(grouping: Grouping, clients: list[int]) -> Arrays:
    """Return what `clients`, in the order of the grouping, were grouped by."""
    proximity = np.asarray(grouping.proximity, np.float32)
    n = len(proximity)
    return {
        "grouped": np.array(clients[:n], np.int64),
        "proximity": proximity,
        "tree": np.asarray(grouping.tree, np.float64).reshape(-1, 4),
        "labels": np.asarray(grouping.labels[:n], np.int64),
    }


def pools(config: Config, clients: int) -> Arrays:
    """Return how the pools of a run's curricula grow."""
    arrays: Arrays = {}
    of_data, of_clients, rounds = config.curriculum.of_data, config.curriculum.of_clients, config.training.rounds
    curriculum = None if of_data is None else of_data.make()
    if curriculum is not None:
        samples = 10_000
        sizes = [pool_size(curriculum, step, STEPS - 1, samples, 1) for step in range(STEPS)]
        arrays["sample_pool"] = np.array(sizes, np.float64) / samples
    sampler = None if of_clients is None else of_clients.make()
    if isinstance(sampler, ClientCurriculum):
        arrays["client_pool"] = np.array([sampler.size(r, rounds, clients) for r in range(1, rounds + 1)], np.int64)
    return arrays

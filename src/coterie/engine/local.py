"""From divided data to the clients of a simulation."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.client import Client, LocalData, Store
from coterie.data import FederatedData
from coterie.training import CommonTest, Trainer

Index = npt.NDArray[np.int64]


def make_clients(
    data: FederatedData, store: Store, trainer: Trainer, common_test: CommonTest | None = None
) -> list[Client]:
    """Make all clients of divided data, in their order."""
    clients = []
    for id in range(data.clients):
        first, *rest = (_local(data, train[id], test[id], common_test) for train, test in _phases(data))
        later = {phase.start: local for phase, local in zip(data.drift, rest, strict=True)}
        clients.append(Client(id, first, store, trainer, later))
    return clients


def _phases(data: FederatedData) -> list[tuple[Sequence[Index], Sequence[Index]]]:
    """Return the parts of all clients, at first and after each drift."""
    first = data.train_parts, data.test_parts
    return [first, *((phase.train_parts, phase.test_parts) for phase in data.drift)]


def _local(data: FederatedData, train: Index, test: Index, common_test: CommonTest | None) -> LocalData:
    return LocalData(
        data.train.x, data.train.y, train, data.test.x, data.test.y, test, data.classes, data.normalise, common_test
    )

"""A federation in which the samples of some clients become others in some round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.client import MemoryStore
from coterie.clustering import adjusted_rand_index
from coterie.data import FederatedData, Samples
from coterie.data.federated import Phase
from coterie.federation import Algorithm
from coterie.run.building import Session, completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.testing import small_settings
from coterie.training import one_thread

Change = Callable[[Samples], Samples]


def turned(times: int) -> Change:
    """Images turned by so many right angles."""
    return lambda samples: Samples(np.rot90(samples.x, times, axes=(2, 3)).copy(), samples.y)


def changed(data: FederatedData, clients: Sequence[int], at: int, change: Change) -> FederatedData:
    """From a round on the samples of some clients are changed."""
    parts = {"train": list(data.train_parts), "test": list(data.test_parts)}
    pools = {"train": data.train, "test": data.test}
    for client in clients:
        for name, pool in pools.items():
            now = change(pool[parts[name][client]])
            parts[name][client] = np.arange(len(pool), len(pool) + len(now))
            pools[name] = Samples(np.concatenate([pool.x, now.x]), np.concatenate([pool.y, now.y]))
    phase = Phase(at, parts["train"], parts["test"])
    return replace(data, **pools, drift=[phase], true_groups=None, test_views=None)


@contextmanager
def drifting(
    method: str,
    who: Sequence[int],
    at: int,
    change: Change,
    divide: Callable[[FederatedData], FederatedData] = lambda data: data,
    **settings: Any,
) -> Iterator[Session]:
    """Set up a method in such a federation, and let it begin."""
    config = settings_to_config(None, {"algorithm": method, **small_settings(method), "fraction": 1.0, **settings})
    data = changed(divide(load_data(config)), who, at, change)
    with one_thread(), session(completed(config, data), data, MemoryStore()) as run:
        run.algorithm.begin(run.fed)
        yield run


def play(run: Session, *numbers: int) -> None:
    """Let rounds pass."""
    for t in numbers:
        run.fed.start_round(t)
        run.algorithm.round(run.fed, run.fed.cohort(t))


def agreement(method: Algorithm, truth: Sequence[int]) -> float:
    """How well the groups of all clients agree with others."""
    groups = method.groups() or {}
    assert sorted(groups) == list(range(len(truth)))
    return adjusted_rand_index([groups[client] for client in range(len(truth))], truth)

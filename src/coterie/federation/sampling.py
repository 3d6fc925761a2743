"""Who takes part in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coterie.federation.state import Resumable
from coterie.messages import ClientId

if TYPE_CHECKING:
    from coterie.federation.algorithm import Algorithm
    from coterie.federation.federation import Federation


USUAL_FRACTION = 0.1
LARGE = 10_000
"""With more clients a cohort is drawn without putting all of them in order."""
LEAST_COHORT = 5
"""Clients of a round unless the user says otherwise, where there are so many: of a mean of two, half is chance."""


def cohort_share(fraction: float | None, clients: int) -> float:
    """Return the share of the clients that a round has: `fraction`, or where that is not set a usual one.

    >>> cohort_share(0.3, 20), cohort_share(None, 100), cohort_share(None, 20), cohort_share(None, 3)
    (0.3, 0.1, 0.25, 1.0)
    """
    return max(USUAL_FRACTION, min(LEAST_COHORT, clients) / max(clients, 1)) if fraction is None else fraction


def order_of_cohorts(rng: np.random.Generator, clients: int, size: int, only_first: bool = False) -> list[int]:
    """Return the positions of clients in random order, of which each `size` are a cohort; or those of the first only.

    >>> import numpy as np
    >>> first = order_of_cohorts(np.random.default_rng(0), 20_000, 3, only_first=True)
    >>> everyone = order_of_cohorts(np.random.default_rng(0), 20_000, 3)
    >>> first == everyone[:3], sorted(everyone) == list(range(20_000))
    (True, True)
    """
    if clients <= LARGE:
        order: list[int] = rng.permutation(clients).tolist()
        return order[:size] if only_first else order
    drawn: list[int] = rng.choice(clients, min(size, clients), replace=False).tolist()
    if only_first:
        return drawn
    others = np.setdiff1d(np.arange(clients), drawn, assume_unique=True)
    rest: list[int] = rng.permutation(others).tolist()
    return drawn + rest


class ClientSampler(Resumable, ABC):
    """Draws the clients of a round; it declares what later rounds depend on with `saved`."""

    all_batches: bool = False
    """Whether a round has several cohorts, which together are all clients that may take part."""

    @abstractmethod
    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohorts of the present round; usually one."""

    def schedule(self, rounds: int, clients: int) -> Sequence[str]:
        """Say of each round what in it depends on how many `rounds` the run has, as `Algorithm.schedule` does."""
        return ()


class PoissonSampler(ClientSampler):
    """A cohort a round, of those clients whose coins say so: each has one of its own, so that nobody's place counts.

    That is what the accounting of private training assumes; a cohort of a fixed size costs more. It may be empty.
    """

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohort."""
        coins = fed.settings.noise_source.draw("coin", fed.round).random(len(fed.trainable))
        pool = fed.trainable
        yield [pool[i] for i in np.flatnonzero(coins < fed.fraction).tolist()]


class UniformSampler(ClientSampler):
    """One cohort a round, drawn from all clients by the seed alone, so that all methods see the same ones."""

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohort."""
        yield fed.cohort(fed.round)

"""Who takes part in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coterie.messages import ClientId

if TYPE_CHECKING:
    from coterie.federation.algorithm import Algorithm
    from coterie.federation.federation import Federation


class ClientSampler(ABC):
    """Draws the clients of a round."""

    all_batches: bool = False
    """Whether a round has several cohorts, which together are all clients that may take part."""

    @abstractmethod
    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohorts of the present round; usually one."""

    def save(self) -> dict[str, Any]:
        """Return what later rounds depend on."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `save` returned."""


class UniformSampler(ClientSampler):
    """One cohort a round, drawn from all clients by the seed alone, so that all methods see the same ones."""

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohort."""
        yield fed.cohort(fed.round)

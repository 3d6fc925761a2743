"""Where clients live, as the federation sees it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from coterie.messages import ClientId, Failure, Reply, Request


class Engine(ABC):
    """Carries requests to clients and replies back; knows nothing about methods."""

    name: str
    """Its name in results."""

    @abstractmethod
    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the clients that are here in a round, with the number of training samples that each declared.

        A mapping that was returned does not change: the same object says that nobody came or went.
        """

    def tests(self, round: int) -> Mapping[ClientId, int]:
        """Return how many test samples clients declared, where that is known."""
        return {}

    @abstractmethod
    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Carry requests out, in any order; nothing arrives after `deadline` seconds."""

    @property
    def closes_early(self) -> bool:
        """Whether an exchange may end when enough clients have answered, even if others are still working."""
        return False

    @property
    def clients_remain(self) -> bool:
        """Whether clients go on when the server is killed; simulated ones end with it, and go on from their states."""
        return False

    def incidents(self) -> Sequence[Failure]:
        """Return what has happened outside of exchanges since this was last called."""
        return ()


class EngineWrapper(Engine):
    """An engine that wraps another and passes everything on; subclasses change or record what they want."""

    def __init__(self, inner: Engine) -> None:
        self.inner, self.name = inner, inner.name

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return who is there."""
        return self.inner.present(round)

    def tests(self, round: int) -> Mapping[ClientId, int]:
        """Return how many test samples clients declared."""
        return self.inner.tests(round)

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Pass requests and replies on."""
        return self.inner.exchange(requests, deadline)

    @property
    def closes_early(self) -> bool:
        """Whether the inner engine does."""
        return self.inner.closes_early

    @property
    def clients_remain(self) -> bool:
        """Whether those of the inner engine do."""
        return self.inner.clients_remain

    def incidents(self) -> Sequence[Failure]:
        """Pass incidents on."""
        return self.inner.incidents()

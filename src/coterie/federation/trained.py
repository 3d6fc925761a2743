"""What clients trained, as methods go through it."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from coterie.messages import ClientId, Reply, TrainReply


class Answers(Protocol):
    """What clients trained: a dictionary, or what comes one after another."""

    def items(self) -> Iterable[tuple[ClientId, TrainReply]]:
        """Return each client with its answer, in order of clients."""
        ...


class Trained:
    """What clients trained, one after another as their replies come; it can be gone through once."""

    def __init__(self, replies: Iterable[Reply], which: int = 0) -> None:
        """Where replies hold several trainings, `which` says whose result it is."""
        self._replies, self._which, self._begun = iter(replies), which, False
        self.clients: list[ClientId] = []
        """Whose answers have been there."""

    def __bool__(self) -> bool:
        """Whether anybody has trained; waits for the first reply."""
        for first in self._replies:
            self._replies = chain([first], self._replies)
            return True
        return False

    def items(self) -> Iterator[tuple[ClientId, TrainReply]]:
        """Yield each client with its answer, in order of clients."""
        if self._begun:
            raise RuntimeError("what clients trained comes once and is not kept: dict(trained.items()) holds it")
        self._begun = True
        return self._items()

    def _items(self) -> Iterator[tuple[ClientId, TrainReply]]:
        for reply in self._replies:
            self.clients.append(reply.client)
            yield reply.client, reply.answer(TrainReply, self._which)

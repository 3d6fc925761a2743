"""The embedded engine: all clients in this process, worked on by a few threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.client import Client, LocalData, Store
from coterie.data import FederatedData
from coterie.errors import CoterieError
from coterie.messages import EVALUATION, Answer, ClientId, Evaluated, Failure, Pruned, Reply, Request, Trained
from coterie.streams import stream
from coterie.training import CommonTest, Trainer

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Faults:
    """What the engine plays, as probabilities per client and round; requests that only measure are spared."""

    drop: float = 0.0
    """The client never hears of the request."""
    straggle: float = 0.0
    """The client does the work, but its reply comes too late."""
    hostile: float = 0.0
    """The client answers nonsense."""


class EmbeddedEngine:
    """Carries requests to clients in this process; the numbers do not depend on how many workers there are."""

    name = "embedded"

    def __init__(
        self,
        data: FederatedData,
        store: Store,
        trainer: Trainer,
        *,
        workers: int = 1,
        faults: Faults | None = None,
        seed: int = 0,
        common_test: CommonTest | None = None,
        arrivals: Mapping[ClientId, int] | None = None,
    ) -> None:
        """`arrivals` says in which round clients come that are not there from the beginning."""
        self._clients = []
        for id in range(data.clients):
            first, *rest = (_local(data, train[id], test[id], common_test) for train, test in _phases(data))
            later = {phase.start: local for phase, local in zip(data.drift, rest, strict=True)}
            self._clients.append(Client(id, first, store, trainer, later))
        self._samples = {id: len(part) for id, part in enumerate(data.train_parts)}
        self._arrivals = arrivals or {}
        self._faults, self._seed = faults or Faults(), seed
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="client")

    def __enter__(self) -> EmbeddedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(cancel_futures=True)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return all clients that have come: here nobody leaves."""
        return {id: samples for id, samples in self._samples.items() if self._arrivals.get(id, 0) <= round}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Have each client answer; the deadline is played by `straggle`, not measured."""
        futures = [self._workers.submit(self._answer, client, request) for client, request in requests.items()]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def _answer(self, client: ClientId, request: Request) -> Reply | Failure:
        fate = "" if request.kind == EVALUATION else self._fate(client, request.round)
        if fate == "drop":
            return Failure(client, request.round, "dropped")
        try:
            reply = self._clients[client].answer(request)
        except (CoterieError, OSError, MemoryError):
            raise
        except Exception as error:
            verbs = ", ".join(type(verb).__name__.lower() for verb in request.verbs)
            raise RuntimeError(f"client {client}, round {request.round} ({verbs}): {error}") from error
        if fate == "straggle":
            return Failure(client, request.round, "late")
        if fate == "hostile" and isinstance(reply, Reply):
            return corrupted(reply, stream(self._seed, "hostile", client, request.round))
        return reply

    def _fate(self, client: ClientId, round: int) -> str:
        faults = self._faults
        luck = stream(self._seed, "faults", client, round).random(3)
        fates = ("drop", faults.drop), ("straggle", faults.straggle), ("hostile", faults.hostile)
        return next((fate for (fate, chance), x in zip(fates, luck, strict=True) if x < chance), "")


def corrupted(reply: Reply, rng: np.random.Generator) -> Reply:
    """Return a reply as a broken or hostile client might send it: NaN, wrong shapes, numbers that can't be."""
    way = int(rng.integers(3))

    def spoil(answer: Answer) -> Any:
        if not isinstance(answer, Trained | Pruned) or not answer.params or way == 2:
            return Evaluated(-1, 7, float("nan"))
        name, value = next(iter(answer.params.items()))
        wrong = np.full_like(value, np.nan) if way == 0 else np.concatenate([value, value])
        return replace(answer, params={**answer.params, name: wrong})

    return replace(reply, answers=tuple(spoil(answer) for answer in reply.answers))


def _phases(data: FederatedData) -> list[tuple[Sequence[Index], Sequence[Index]]]:
    """Return the parts of all clients, at first and after each drift."""
    first = data.train_parts, data.test_parts
    return [first, *((phase.train_parts, phase.test_parts) for phase in data.drift)]


def _local(data: FederatedData, train: Index, test: Index, common_test: CommonTest | None) -> LocalData:
    return LocalData(
        data.train.x, data.train.y, train, data.test.x, data.test.y, test, data.classes, data.normalise, common_test
    )

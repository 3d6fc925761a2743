"""The embedded engine: all clients in this process, worked on by a few threads."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import accumulate, chain, islice
from typing import overload

from coterie.client import UNPROTECTED, Client, LocalData, PrivacyTerms, Protection, Store, answer_together
from coterie.client.releases import NO_TERMS
from coterie.data import FederatedData
from coterie.data.parts import Positions, part_sizes
from coterie.engine.faults import SimulatedFaults
from coterie.errors import CoterieError
from coterie.federation import Engine
from coterie.messages import ClientId, Evaluate, Failure, Reply, Request, Signature, Train, read_only
from coterie.training import CommonTest, Trainer
from coterie.training.job import one_by_one

AT_ONCE = 4096
"""Samples of clients that describe themselves at a time: what it takes to start a thread is little then."""
TESTED_AT_ONCE = 16
"""Clients whose models are only tested, at most: the more, the fewer hand-overs between threads."""
TURNS = 4
"""But each worker gets so many of these batches, so that none waits long for another."""


class EmbeddedEngine(Engine):
    """Carries requests to clients in this process; the numbers do not depend on how many workers there are.

    Messages are values, as if they had travelled: neither side can change the other's arrays or dictionaries.
    """

    name = "embedded"

    def __init__(
        self,
        data: FederatedData,
        store: Store,
        trainer: Trainer,
        *,
        workers: int = 1,
        faults: SimulatedFaults | None = None,
        seed: int = 0,
        common_test: CommonTest | None = None,
        arrivals: Mapping[ClientId, int] | None = None,
        protection: Protection = UNPROTECTED,
        batch_clients: int = 1,
        terms: PrivacyTerms = NO_TERMS,
    ) -> None:
        """`arrivals` says in which round late clients come; `protection` and `terms` are what clients hold back.

        `batch_clients` is how many train at once, as one task of the trainer; the compiled one takes them one by one.
        """
        self._trainer, self._batch_clients = trainer, 1 if trainer.name == "native" else batch_clients
        self._clients = SimulatedClients(data, store, trainer, common_test, protection, terms)
        self._faults, self._seed = faults or SimulatedFaults(), seed
        self._samples = dict(enumerate(_sizes(of.train_parts for of in (data, *data.later))))
        declared = self._faults.declared(terms.told("train", self._samples))
        self._attendance = Attendance(declared, arrivals or {})
        tests = dict(enumerate(_sizes(of.test_parts for of in (data, *data.later))))
        self._tests = terms.told("evaluate", tests)
        self._workers, self._threads = ThreadPoolExecutor(workers, thread_name_prefix="client"), workers

    def __enter__(self) -> EmbeddedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(cancel_futures=True)

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return all clients that have joined: here nobody leaves."""
        return self._attendance.present(round)

    def tests(self, round: int) -> Mapping[ClientId, int]:
        """Return how many test samples clients have."""
        return self._tests

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Have each client answer; the deadline is played by `straggle`, not measured."""
        received = {id(request): request for request in requests.values()}  # one request for many stays one
        received = {key: read_only(request) for key, request in received.items()}
        batches = self._batches({client: received[id(request)] for client, request in requests.items()})
        asked, running = iter(batches), list[Future[list[Reply | Failure]]]()
        try:
            while True:  # nobody works far ahead of the server, so that answers do not pile up here
                room = 2 * self._threads - len(running)
                running += [self._workers.submit(self._answer, batch) for batch in islice(asked, room)]
                if not running:
                    return
                wait(running, return_when=FIRST_COMPLETED)
                done = deque(future for future in running if future.done())
                running = [future for future in running if future not in done]
                while done:
                    yield from done.popleft().result()
        finally:
            for future in running:
                future.cancel()

    def _batches(self, requests: Mapping[ClientId, Request]) -> Iterable[Mapping[ClientId, Request]]:
        """Divide requests into those answered at once: of clients that describe themselves, test, or can train so."""
        distinct = {id(request): request for request in requests.values()}
        verbs = [verb for request in distinct.values() for verb in request.verbs]
        if all(isinstance(verb, Signature) for verb in verbs):
            return self._filled(requests)
        if all(isinstance(verb, Evaluate) for verb in verbs):
            turns = self._threads * TURNS
            return _divided(requests, min(TESTED_AT_ONCE, -(-len(requests) // turns)))
        if self._batch_clients == 1:
            return [{client: request} for client, request in requests.items()]
        from coterie.training.torch_together import can_stack

        training = [
            client
            for client, request in requests.items()
            if any(isinstance(verb, Train) and can_stack(verb.plan) for verb in request.verbs)
        ]
        training.sort(key=lambda client: (-len(self._clients[client].data_at(requests[client].round).train), client))
        batches = [training[i : i + self._batch_clients] for i in range(0, len(training), self._batch_clients)]
        alone = [[client] for client in requests.keys() - {*training}]
        return [{client: requests[client] for client in batch} for batch in batches + alone]

    def _filled(self, requests: Mapping[ClientId, Request]) -> Iterator[dict[ClientId, Request]]:
        """Put clients together as long as they have few samples in all."""
        batch, samples = dict[ClientId, Request](), 0
        for client, request in requests.items():
            samples += self._samples[client]
            if batch and samples > AT_ONCE:
                yield batch
                batch, samples = {}, self._samples[client]
            batch[client] = request
        if batch:
            yield batch

    def _answer(self, requests: Mapping[ClientId, Request]) -> list[Reply | Failure]:
        dropped = {client: self._faults.before(self._seed, client, request) for client, request in requests.items()}
        asked = {client: request for client, request in requests.items() if dropped[client] is None}
        train = self._trainer.train_together if self._batch_clients > 1 else partial(one_by_one, self._trainer)
        try:
            answers = answer_together([(self._clients[client], request) for client, request in asked.items()], train)
        except (CoterieError, OSError, MemoryError):
            raise
        except Exception as error:
            if len(asked) > 1 and self._batch_clients == 1:  # one by one it shows whose it is
                return [reply for one in requests.items() for reply in self._answer(dict([one]))]
            who = f"client{'s'[: len(asked) - 1]} {', '.join(map(str, asked))}"
            first = next(iter(asked.values()))
            verbs = ", ".join(type(verb).__name__.lower() for verb in first.verbs)
            raise RuntimeError(f"{who}, round {first.round} ({verbs}): {error}") from error
        replies = [
            self._faults.after(self._seed, client, request, reply)
            for (client, request), reply in zip(asked.items(), answers, strict=True)
        ]
        return [*(failure for failure in dropped.values() if failure is not None), *map(read_only, replies)]


def _divided(requests: Mapping[ClientId, Request], size: int) -> Iterator[dict[ClientId, Request]]:
    """Yield requests, so many at a time."""
    rest = iter(requests.items())
    while batch := dict(islice(rest, size)):
        yield batch


class Attendance:
    """Who is there in which round, where clients come and nobody leaves."""

    def __init__(self, samples: Mapping[ClientId, int], arrivals: Mapping[ClientId, int]) -> None:
        """`samples` are those that clients declare, `arrivals` the rounds in which late ones come."""
        self._samples, self._arrivals = samples, arrivals
        self._rounds = sorted({0, *arrivals.values()})
        self._came, self._present = -1, dict[ClientId, int]()

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return the samples of those who are there; the same object as long as nobody comes."""
        came = bisect_right(self._rounds, round)
        if came != self._came:
            here = {id: samples for id, samples in self._samples.items() if self._arrivals.get(id, 0) <= round}
            self._came, self._present = came, here
        return self._present


class SimulatedClients(Sequence[Client]):
    """The clients of divided data, behind them those of data sets that come later; each is made when it is asked."""

    def __init__(
        self,
        data: FederatedData,
        store: Store,
        trainer: Trainer,
        common_test: CommonTest | None = None,
        protection: Protection = UNPROTECTED,
        terms: PrivacyTerms = NO_TERMS,
    ) -> None:
        self._of, self._common_test = (data, *data.later), common_test
        self._store, self._trainer, self._protection, self._terms = store, trainer, protection, terms
        self._starts = [0, *accumulate(of.clients for of in self._of)]

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, id: int) -> Client: ...
    @overload
    def __getitem__(self, id: slice) -> list[Client]: ...
    def __getitem__(self, id: int | slice) -> Client | list[Client]:
        if isinstance(id, slice):
            return [self[client] for client in range(*id.indices(len(self)))]
        if not 0 <= id < len(self):
            raise IndexError(f"there is no client {id}")
        which = bisect_right(self._starts, id) - 1
        data, position = self._of[which], id - self._starts[which]
        local = _local_data(data, position, self._common_test if which == 0 else None)
        return Client(id, local, self._store, self._trainer, self._protection, self._terms)


def _sizes(parts: Iterable[Sequence[Positions]]) -> Iterator[int]:
    """Return how many samples each client has, one data set after the other."""
    return chain.from_iterable(part_sizes(some).tolist() for some in parts)


def _local_data(data: FederatedData, position: int, common_test: CommonTest | None) -> dict[int, LocalData]:
    """Return what a client has by the round from which it has it: after each drift, other samples."""
    x, y, test_x, test_y = data.train.x, data.train.y, data.test.x, data.test.y
    phases = {0: (data.train_parts, data.test_parts)}
    phases |= {phase.start: (phase.train_parts, phase.test_parts) for phase in data.drift}
    shared = (data.classes, data.normalise, common_test, data.lends_tests, data.test_views, data.drawn_tests)
    return {
        start: LocalData(x, y, train[position], test_x, test_y, test[position], *shared)
        for start, (train, test) in phases.items()
    }

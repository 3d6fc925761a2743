"""Federation: the server's only view of the world."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.clustering import GroupingOptions
from coterie.federation.algorithm import Algorithm
from coterie.federation.engine import Engine
from coterie.federation.events import Events
from coterie.federation.ledger import Ledger
from coterie.federation.request_checks import check_requests, check_verbs
from coterie.federation.served_model import ServedModel, single
from coterie.federation.validation import error_in_reply
from coterie.messages import (
    EVALUATION,
    Array,
    ClientId,
    Evaluate,
    Failure,
    ModelSpec,
    Params,
    Plan,
    Reply,
    Request,
    Train,
    TrainReply,
    Verb,
    distance,
    wire,
)
from coterie.models import initial
from coterie.streams import stream
from coterie.training import CommonTest, Trainer

E = TypeVar("E", bound=Engine)


@dataclass(frozen=True)
class ServerData:
    """The samples that the server owns, normalised."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]


@dataclass
class Training:
    """What a round of local training looked like from the server."""

    replies: int = 0
    loss: float = 0.0
    """Sum of the clients' mean losses."""
    returned: dict[ClientId, Params] = field(default_factory=dict)
    """The whole models that clients sent back."""

    @property
    def mean_loss(self) -> float | None:
        """Mean over clients, or None where nobody trained."""
        return self.loss / self.replies if self.replies else None

    def discrepancy(self, model_for: Callable[[ClientId], ServedModel | None]) -> float | None:
        """Mean of ‖w_i − w‖ between what clients sent back and their latest server models (FedGroup, Eq. 4)."""
        models = {client: single(model_for(client)) for client in self.returned}
        apart = [distance(self.returned[client], model) for client, model in models.items() if model is not None]
        return sum(apart) / len(apart) if apart else None


class ClientSampler(Protocol):
    """Who takes part in a round."""

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohorts of the round of the moment; usually one."""
        ...

    def save(self) -> dict[str, Any]:
        """Return what later rounds depend on, as plain data."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `save` returned."""
        ...


class UniformSampler:
    """One cohort a round, drawn from all clients by the seed alone, so that all methods see the same ones."""

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohort."""
        yield fed.cohort(fed.round)

    def save(self) -> dict[str, Any]:
        """Nothing depends on what was."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Nothing depends on what was."""


@dataclass
class Federation:
    """Asks clients, validates what they say, counts bytes, and notes who is missing."""

    engine: Engine
    trainer: Trainer
    spec: ModelSpec
    seed: int
    plan: Plan
    """How clients train where the method has no other wish."""
    rounds: int
    fraction: float
    server_data: ServerData
    test: CommonTest | None = None
    """A test set for all, where there is one (protocol G)."""
    deadline: float | None = None
    """Seconds after which nobody is waited for, where time is measured."""
    min_replies: int = 1
    """A training to which fewer clients answer changes nothing."""
    oversample: float = 0.0
    """By which share cohorts are larger than needed, so that enough answer in time."""
    max_strikes: int | None = None
    """After so many invalid replies a client is left out."""
    expert: Params | None = None
    """By whose losses clients order their samples, where a curriculum says so."""
    workers: int = 1
    """How many of its own models the server runs at a time."""
    newcomer_epochs: int = 5
    """For how long clients that come late fine-tune what they receive."""
    grouping: GroupingOptions = field(default_factory=GroupingOptions)
    """What was asked for of methods that form groups."""
    selection: ClientSampler = field(default_factory=UniformSampler)
    """Who takes part in a round."""
    drifts: frozenset[int] = frozenset()
    """Rounds from which clients have other data, where that is simulated: what was measured before is out of date."""

    round: int = 0
    """The round of the moment; 0 before the first."""
    ledger: Ledger = field(default_factory=Ledger)
    events: Events = field(default_factory=Events)
    training: Training = field(default_factory=Training)
    """Of the round of the moment."""
    stale_clients: set[ClientId] = field(default_factory=set)
    """Clients whose own model may have changed since they were last evaluated."""
    admitted: set[ClientId] = field(default_factory=set)
    """Who takes part; others that are here are newcomers."""
    joined: dict[ClientId, int] = field(default_factory=dict)
    """The round in which each came who was not there from the beginning."""
    strikes: dict[ClientId, int] = field(default_factory=dict)
    """How many invalid replies each client has sent."""
    _kept: dict[ClientId, int] = field(default_factory=dict)
    """The last round in which each client was asked to keep what it trains."""
    on_reply: Callable[[int, int], None] = lambda done, total: None
    """Told after each reply how many of how many have come."""

    def __post_init__(self) -> None:
        self.admitted |= set(self.engine.present(0))

    @property
    def samples(self) -> Mapping[ClientId, int]:
        """Training samples of all who are here, newcomers too."""
        return self.engine.present(self.round)

    @property
    def clients(self) -> list[ClientId]:
        """All clients that are here and take part, in order."""
        return sorted(client for client in self.samples if client in self.admitted and not self.left_out(client))

    @property
    def trainable(self) -> list[ClientId]:
        """The clients that take part and have something to train on, in order."""
        clients, samples = self.clients, self.samples  # in this order: somebody may come in between
        return [client for client in clients if samples[client] > 0]

    @property
    def newcomers(self) -> list[ClientId]:
        """Who is here but does not take part yet, in order."""
        return sorted(client for client in self.samples if client not in self.admitted and not self.left_out(client))

    def left_out(self, client: ClientId) -> bool:
        """Say whether a client has sent nonsense too often."""
        return self.max_strikes is not None and self.strikes.get(client, 0) >= self.max_strikes

    def cohort(self, round: int) -> list[ClientId]:
        """Draw the clients of a round: max(⌊qN⌋, 1) of them, by the seed and the round alone."""
        return self.batches(round, self.trainable)[0]

    def batches(self, round: int, pool: Sequence[ClientId]) -> list[list[ClientId]]:
        """Cut a pool of clients at random into cohorts, by the seed and the round alone; the last may be smaller.

        The first cohort of a pool of everyone is the one that `cohort` draws.
        """
        size = math.ceil(self._needed * (1 + self.oversample) - 1e-9)
        drawn = [pool[i] for i in stream(self.seed, "cohort", round).permutation(len(pool))]
        return [sorted(drawn[begin : begin + size]) for begin in range(0, max(len(drawn), 1), size)]

    @property
    def _needed(self) -> int:
        """How many clients a round is meant to have."""
        return max(math.floor(self.fraction * len(self.trainable) + 1e-9), 1)

    def initial(self, which: int = 0) -> dict[str, Array]:
        """Return the common start θ⁰, or others for methods that start several models."""
        return initial(self.spec, self.seed, which)

    def request(
        self,
        *verbs: Verb,
        model: Params | None = None,
        models: Mapping[str, Params] | None = None,
        kind: str | None = None,
        spec: ModelSpec | None = None,
    ) -> Request:
        """Put verbs, and the models that they name, into a request of this round.

        `model` is short for models={"model": …}. `kind` is the heading under which the bytes are counted, by default
        that of the verbs; `spec` another network than the run's.
        """
        sent = {**(models or {}), **({} if model is None else {"model": model})}
        check_verbs(verbs, sent)
        asks = any(isinstance(verb, Train) and _asks_expert(verb) for verb in verbs)
        if self.expert is not None and asks and spec in (None, self.spec):  # of another network it is no expert
            sent["expert"] = self.expert
        return Request(self.round, self.seed, spec or self.spec, verbs, sent, kind or _kind(verbs))

    def ask(self, requests: Mapping[ClientId, Request]) -> dict[ClientId, Reply]:
        """Send requests and return the valid replies in order of clients; the others are noted as events."""
        check_requests(requests)
        sizes: dict[int, int] = {}
        for client, request in requests.items():
            if id(request) not in sizes:  # one request for many clients is measured once
                sizes[id(request)] = wire.size(request)
            self.ledger.count(request.kind, client, self.round, down=sizes[id(request)])
            if any(isinstance(verb, Train) and verb.keep for verb in request.verbs):
                if self._kept.setdefault(client, -1) == self.round:
                    raise ValueError(f"client {client} is asked twice in round {self.round} to keep what it trains")
                self._kept[client] = self.round
                self.stale_clients.add(client)
        replies: dict[ClientId, Reply] = {}
        failures: list[Failure] = []
        enough = self._enough(requests)
        self.note_incidents()
        for done, answer in enumerate(self.engine.exchange(requests, self.deadline), start=1):
            self.on_reply(done, len(requests))
            if isinstance(answer, Failure):
                failures.append(answer)
                continue
            request = requests[answer.client]
            self.ledger.count(request.kind, answer.client, self.round, up=wire.size(answer))
            error = error_in_reply(request, answer, initial(request.spec, self.seed))
            if error:
                failures.append(Failure(answer.client, self.round, "invalid", error))
            else:
                replies[answer.client] = answer
            if len(replies) == enough and self.engine.closes_early:
                break
        if enough is not None:
            replies = self._first(replies, enough)
            heard = {*replies, *(failure.client for failure in failures)}
            unused = (client for client in requests if client not in heard)
            failures += [Failure(client, self.round, "surplus", "enough others had answered") for client in unused]
        for failure in sorted(failures, key=lambda f: f.client):
            self.events.note(failure)
            if failure.kind == "invalid":
                self._strike(failure.client)
        if len(replies) < self.min_replies > 1 and _trains(requests):
            missing = next((client for client in requests if client not in replies), min(requests, default=0))
            told = f"{len(replies)} of {len(requests)} answered, {self.min_replies} must: the training changes nothing"
            self.events.note(Failure(missing, self.round, "too few", told))
            return {}
        ordered = {client: replies[client] for client in sorted(replies)}
        for client, reply in ordered.items():
            if requests[client].kind != EVALUATION:
                self._observe(requests[client], reply)
        return ordered

    def wrap_engine(self, wrapper: Callable[[Engine], E]) -> E:
        """Put an engine around the engine, for instance to watch what passes, and return it."""
        self.engine = wrapped = wrapper(self.engine)
        return wrapped

    def note_incidents(self) -> None:
        """Enter what an engine has seen outside of exchanges, such as somebody at the door under a wrong name."""
        for incident in self.engine.incidents():
            self.events.note(incident)

    def _enough(self, requests: Mapping[ClientId, Request]) -> int | None:
        """Return how many replies a training needs, where more than needed were asked for."""
        if not self.oversample or not _trains(requests) or len(requests) <= self._needed:
            return None
        return self._needed

    def _first(self, replies: dict[ClientId, Reply], count: int) -> dict[ClientId, Reply]:
        """Return so many of the replies; where time is not measured, those that the seed says came first."""
        if len(replies) <= count:
            return replies
        order = stream(self.seed, "first replies", self.round).permutation(len(replies))
        clients = sorted(replies)
        return {clients[i]: replies[clients[i]] for i in order[:count]}

    def _strike(self, client: ClientId) -> None:
        self.strikes[client] = self.strikes.get(client, 0) + 1
        if self.strikes[client] == self.max_strikes:
            told = f"{self.max_strikes} invalid replies: it is asked no more"
            self.events.note(Failure(client, self.round, "left out", told))

    def logits(self, models: Sequence[Params], x: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
        """Run models on samples that the server owns, several at a time: (samples, classes) of each."""
        with ThreadPoolExecutor(self.workers, thread_name_prefix="server") as pool:
            return list(pool.map(lambda params: self.trainer.logits(self.spec, params, x), models))

    def save(self) -> dict[str, Any]:
        """Return what has happened so far, as plain data."""
        self.note_incidents()
        return {
            "ledger": self.ledger.save(),
            "events": self.events.save(),
            "admitted": sorted(self.admitted),
            "joined": {str(client): round for client, round in self.joined.items()},
            "selection": self.selection.save(),
            "strikes": {str(client): count for client, count in self.strikes.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `save` returned."""
        self.ledger.load(state["ledger"])
        self.events.load(state["events"])
        self.admitted = set(state["admitted"])
        self.joined = {int(client): round for client, round in state["joined"].items()}
        self.selection.load(state.get("selection", {}))
        self.strikes = {int(client): count for client, count in state.get("strikes", {}).items()}

    def _observe(self, request: Request, reply: Reply) -> None:
        """Note mean loss and discrepancy of a training reply."""
        for verb, answer in zip(request.verbs, reply.answers, strict=True):
            if isinstance(verb, Train) and verb.keep and isinstance(answer, TrainReply) and answer.steps:
                self.training.replies += 1
                self.training.loss += answer.loss
                if verb.send is True:
                    self.training.returned[reply.client] = answer.params


def _trains(requests: Mapping[ClientId, Request]) -> bool:
    """Say whether these requests are a round of training."""
    return any(
        request.kind == "train" and any(isinstance(v, Train) and v.keep and v.plan.steps != 0 for v in request.verbs)
        for request in requests.values()
    )


def _asks_expert(verb: Train) -> bool:
    return verb.plan.curriculum is not None and verb.plan.curriculum.score == "E"


def _kind(verbs: tuple[Verb, ...]) -> str:
    """Name a request by its weightiest verb."""
    if any(isinstance(verb, Train) for verb in verbs):
        return "train"
    if all(isinstance(verb, Evaluate) for verb in verbs):
        return EVALUATION
    return next(type(verb).__name__.lower() for verb in verbs if not isinstance(verb, Evaluate))

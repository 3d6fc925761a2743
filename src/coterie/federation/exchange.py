"""One exchange with clients: requests are sent, replies collected and checked, and those that count selected.

Replies are checked here and nowhere else; afterwards they are trusted. Each verb says what is valid.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.federation.by_client import IntsByClient
from coterie.federation.engine import Engine
from coterie.federation.spool import Spool
from coterie.federation.state import Resumable, saved
from coterie.messages import (
    MEASUREMENTS,
    Answer,
    ClientId,
    Failure,
    Limits,
    MaskedReply,
    ModelSpec,
    Params,
    Reply,
    Request,
    Train,
    TrainReply,
    Verb,
    wire,
)
from coterie.messages.limits import MOST_SAMPLES
from coterie.models import initial
from coterie.models.learning import frozen_part
from coterie.streams import stream

ENVELOPE = 1 << 16
"""The most bytes of a reply that are not the content of its answers, besides the tensors' names and shapes."""


@dataclass
class Ledger(Resumable):
    """Bytes by kind of message; and by client and by round, evaluation not included."""

    by_kind: dict[str, dict[str, int]] = saved(default_factory=dict)
    up_by_client: IntsByClient = saved(default_factory=IntsByClient)
    down_by_client: IntsByClient = saved(default_factory=IntsByClient)
    by_round: dict[int, dict[str, int]] = saved(default_factory=dict)

    def count(self, kind: str, client: ClientId, round: int, *, down: int = 0, up: int = 0) -> None:
        """Count one message."""
        entries = [self.by_kind.setdefault(kind, {"up": 0, "down": 0})]
        if kind not in MEASUREMENTS:
            entries.append(self.by_round.setdefault(round, {"up": 0, "down": 0}))
            self.up_by_client[client] = self.up_by_client.get(client, 0) + up
            self.down_by_client[client] = self.down_by_client.get(client, 0) + down
        for entry in entries:
            entry["up"] += up
            entry["down"] += down

    @property
    def by_client(self) -> dict[ClientId, dict[str, int]]:
        """The bytes ``"up"`` and ``"down"`` of each client."""
        return {client: {"up": up, "down": self.down_by_client[client]} for client, up in self.up_by_client.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned; earlier versions had both ways of a client together."""
        if "by_client" in state:
            ways = {way: {client: both[way] for client, both in state["by_client"].items()} for way in ("up", "down")}
            state = {**state, "up_by_client": ways["up"], "down_by_client": ways["down"]}
        super().load(state)

    def total(self, way: str) -> int:
        """Return all bytes ``"up"`` or ``"down"``, evaluation not included."""
        return sum(entry[way] for kind, entry in self.by_kind.items() if kind not in MEASUREMENTS)


@dataclass
class Exchange:
    """Requests of a round to some clients, and what became of them."""

    requests: Mapping[ClientId, Request]
    round: int
    seed: int
    ledger: Ledger
    enough: int | None = None
    """How many replies are needed, if more clients are asked than that."""
    least: int = 1
    """With fewer replies none counts."""
    samples: Mapping[ClientId, int] = field(default_factory=dict)
    """Training samples that clients declared."""
    tests: Mapping[ClientId, int] = field(default_factory=dict)
    """Test samples that clients declared, or more than that."""
    failures: list[Failure] = field(default_factory=list)
    notices: list[Failure] = field(default_factory=list)
    """What valid replies say of themselves."""
    valid: set[ClientId] = field(default_factory=set)
    """Who has sent a valid reply; in the end, who of these counts."""
    trained: set[ClientId] = field(default_factory=set)
    """Who of these has trained."""
    _latest: tuple[ModelSpec, Params, Params] | None = field(default=None, init=False, repr=False)

    def send(self, engine: Engine, deadline: float | None) -> Iterator[Reply | Failure]:
        """Hand the requests to the engine and count their bytes; one shared by many clients is measured once."""
        sizes: dict[int, int] = {}
        for client, request in self.requests.items():
            if id(request) not in sizes:
                sizes[id(request)] = wire.size(request)
            self.ledger.count(request.kind, client, self.round, down=sizes[id(request)])
        return engine.exchange(self.requests, deadline)

    def replies(
        self,
        answers: Iterable[Reply | Failure],
        closes_early: bool,
        on_reply: Callable[[int, int], None],
        spool: Spool,
    ) -> Iterator[Reply]:
        """Take answers as they come; yield the replies that count in order of clients, each as soon as it is its turn.

        That is when all before it are there or have failed, and it is certain to count. Until then it waits in the
        spool. With `closes_early` it ends when there are enough. What failed is in the end in `failures`, in order.
        """
        waiting: dict[ClientId, Reply] = {}
        awaited, turns = {*self.requests}, deque(sorted(self.requests))
        for done, answer in enumerate(answers, start=1):
            on_reply(done, len(self.requests))
            awaited.discard(answer.client)
            if reply := self._checked(answer):
                waiting[reply.client] = spool.keep_reply(reply)
            if self.enough is None and len(self.valid) >= self.least:
                while turns and turns[0] not in awaited:
                    if (client := turns.popleft()) in waiting:
                        yield spool.take_reply(waiting.pop(client))
            if closes_early and len(self.valid) == self.enough:
                break
        self._settle()
        for client in turns if len(self.valid) >= self.least else ():
            if client in self.valid:
                yield spool.take_reply(waiting.pop(client))

    def _checked(self, answer: Reply | Failure) -> Reply | None:
        """Count the bytes of an answer and check it; return it whole if it is a valid reply."""
        if isinstance(answer, Failure):
            self.failures.append(answer)
            return None
        request, client = self.requests[answer.client], answer.client
        self.ledger.count(request.kind, client, self.round, up=wire.size(answer))
        samples, tests = (mapping.get(client, MOST_SAMPLES) for mapping in (self.samples, self.tests))
        template, frozen = self._network(request)
        limits = Limits(template, samples, tests, frozen.keys())
        if error := error_in_reply(request, answer, limits):
            self.failures.append(Failure(client, self.round, "invalid", error))
            return None
        said = dict.fromkeys(notice for part in answer.answers for notice in part.notices())
        self.notices += [Failure(client, self.round, "withheld", notice) for notice in said]
        self.valid.add(client)
        if any(
            isinstance(part, MaskedReply) or (isinstance(part, TrainReply) and part.steps) for part in answer.answers
        ):
            self.trained.add(client)
        return completed(request, answer, template) if frozen else answer

    def _network(self, request: Request) -> tuple[Params, Params]:
        """Return θ⁰ of the network that a request is about, and what it freezes; often the same as just now."""
        if self._latest is None or self._latest[0] is not request.spec:
            self._latest = request.spec, initial(request.spec, self.seed), frozen_part(request.spec, self.seed)
        return self._latest[1:]

    def _settle(self) -> None:
        """Leave it at the replies that count, and bring what failed into the order of clients."""
        if self.enough is not None:
            self._keep_first(self.enough)
        self.trained &= self.valid
        self.failures.sort(key=lambda failure: failure.client)
        self.notices.sort(key=lambda notice: notice.client)

    def too_few(self) -> Failure | None:
        """Say that fewer have answered than must, in the name of one who has not."""
        if len(self.valid) >= self.least or self.least == 1:
            return None
        missing = next((client for client in self.requests if client not in self.valid), min(self.requests, default=0))
        answered = f"{len(self.valid)} of {len(self.requests)} answered"
        detail = f"{answered}, {self.least} needed: the training changes nothing"
        return Failure(missing, self.round, "too few", detail)

    def _keep_first(self, count: int) -> None:
        """Keep `count` replies; if time is not measured, the seed says which came first."""
        if len(self.valid) > count:
            clients = sorted(self.valid)
            order = stream(self.seed, "first replies", self.round).permutation(len(clients))
            self.valid = {clients[i] for i in order[:count]}
        heard = {*self.valid, *(failure.client for failure in self.failures)}
        for client in self.requests:
            if client not in heard:
                self.failures.append(Failure(client, self.round, "surplus", "enough others had answered"))


def trains(requests: Mapping[ClientId, Request]) -> bool:
    """Say whether this is a round of training."""
    return any(r.kind == "train" and any(verb.trains() for verb in r.verbs) for r in requests.values())


def completed(request: Request, reply: Reply, template: Params) -> Reply:
    """Add to what was trained what the network freezes, which clients do not send.

    It is as in the model that was trained, and thus in θ⁰ unless the server has changed and sent it.
    """

    def whole(verb: Verb, answer: Answer) -> Answer:
        if not (isinstance(verb, Train) and isinstance(answer, TrainReply)):
            return answer
        start = dict(template)
        for name in verb.start:
            start |= request.models.get(name, {})
        return replace(
            answer, params={name: answer.params.get(name, value) for name, value in verb.sent(start).items()}
        )

    pairs = zip(request.verbs, reply.answers, strict=True)
    return replace(reply, answers=tuple(whole(verb, answer) for verb, answer in pairs))


def error_in_reply(request: Request, reply: Reply, limits: Limits) -> str | None:
    """Say what is wrong with a reply, or None, given what is known of its client."""
    if reply.round != request.round:
        return f"answers round {reply.round}, not round {request.round}"
    if len(reply.answers) != len(request.verbs):
        return f"{len(reply.answers)} answers to {len(request.verbs)} verbs"
    for verb, answer in zip(request.verbs, reply.answers, strict=True):
        asked = type(verb).__name__.lower()
        if type(answer) is not verb.answer_type:
            return f"{asked}: answered with {type(answer).__name__}, expected {verb.answer_type.__name__}"
        if error := verb.error_in(answer, request, limits):
            return f"{asked}: {error}"
    return None


def largest_reply(request: Request, samples: int = MOST_SAMPLES) -> int:
    """Return the most bytes that an honest reply can have, to refuse longer ones before they are read.

    `samples` are the training samples that the client declared.
    """
    template = initial(request.spec, request.seed)
    limits = Limits(template, samples)
    answers = sum(verb.largest_answer(request, limits) for verb in request.verbs)
    return ENVELOPE + 1024 * len(template) + answers

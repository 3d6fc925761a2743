"""The client curriculum: cohorts are drawn from a pool that grows from the easiest clients to all (ALGORITHMS 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from coterie.errors import CoterieError
from coterie.federation.algorithm import Algorithm
from coterie.federation.federation import Federation
from coterie.federation.sampling import ClientSampler
from coterie.federation.served_model import ServedModel, as_request, parts, single
from coterie.federation.state import saved
from coterie.messages import ClientId, Curriculum, Evaluate, EvaluateReply, Request
from coterie.messages.plan import Order, Pacing
from coterie.streams import stream
from coterie.training import pool_size

LOSSES = "losses"
"""The heading under which the ledger counts the requests for clients' losses."""
ClientScore = Literal["G", "E"]
"""Whose loss says how hard a client is: that of the model it would receive now, or the expert's."""


@dataclass
class ClientCurriculum(ClientSampler):
    """Draws the clients of a round from the first K(r) in order of ℒ_i, the mean loss on client i's training samples.

    K(r) grows with the rounds, as the pool of samples of a curriculum grows with the steps.
    """

    pacing: Pacing = "linear"
    a: float = 0.8
    b: float = 0.2
    order: Order = "curriculum"
    refresh_every: int = 1
    """Losses are requested once in this many rounds."""
    all_batches: bool = False
    """Whether a round goes through the whole pool, one cohort after the other, instead of drawing one cohort."""
    score: ClientScore = "G"
    """ℒ_i is the loss of what client i would receive now (s_G), or the expert's, which stays the same (s_E)."""

    losses: dict[ClientId, float] = saved(default_factory=dict)
    """The latest of each client that has answered."""

    def cohorts(self, fed: Federation, algorithm: Algorithm) -> Iterator[list[ClientId]]:
        """Yield the cohorts of a round in turn."""
        batches = fed.batches(fed.round, self.pool(fed, algorithm))
        yield from batches if self.all_batches else batches[:1]

    def pool(self, fed: Federation, algorithm: Algorithm) -> Sequence[ClientId]:
        """Return the first K(r) clients, sorted by number; those without a loss come last in the order of losses."""
        clients = list(fed.trainable)
        size = self.size(fed.round, fed.settings.rounds, len(clients))
        if size == len(clients):  # then no order matters, and nobody needs to be asked
            return clients
        luck = stream(fed.seed, "client order").random(max(clients) + 1)  # stays when others come; breaks ties
        shuffled = sorted(clients, key=lambda client: luck[client])
        if self.order == "random":
            return sorted(shuffled[:size])
        self.refresh(fed, algorithm)
        sign = 1 if self.order == "curriculum" else -1
        by_loss = sorted((c for c in shuffled if c in self.losses), key=lambda client: sign * self.losses[client])
        without_loss = [client for client in shuffled if client not in self.losses]
        return sorted([*by_loss, *without_loss][:size])

    def size(self, round: int, rounds: int, clients: int) -> int:
        """Return K(r), at least one client.

        >>> [ClientCurriculum(a=0.5).size(r, 10, 100) for r in (1, 3, 6, 10)]
        [20, 52, 100, 100]
        """
        paced = Curriculum(pacing=self.pacing, a=self.a, b=self.b)
        return pool_size(paced, round - 1, rounds, clients, 1) if clients else 0

    def schedule(self, rounds: int, clients: int) -> list[str]:
        """K(r) of each round."""
        return [f"cohorts from {self.size(r, rounds, clients)} of {clients} clients" for r in range(1, rounds + 1)]

    def refresh(self, fed: Federation, algorithm: Algorithm) -> None:
        """Ask for ℒ_i: all clients that can train when it is due, otherwise those that have not answered yet."""
        by_expert = self.score == "E"
        due = (not by_expert and (fed.round - 1) % self.refresh_every == 0) or fed.round in fed.settings.drifts
        asked = [client for client in fed.trainable if due or client not in self.losses]
        if by_expert:
            requests = dict.fromkeys(asked, _question(fed, fed.settings.expert))
        else:
            requests = questions(fed, algorithm, asked)
        for client, reply in fed.ask(requests).items():
            self.losses[client] = next(a.loss for a in reply.answers if isinstance(a, EvaluateReply))


def refuse_order_by_loss(sampler: ClientSampler) -> None:
    """Refuse a client curriculum for a method that has no model at the server."""
    if isinstance(sampler, ClientCurriculum) and sampler.order != "random" and sampler.score == "G":
        raise CoterieError(
            "the method has no server model by which to rank clients from easy to hard: leave out --client-curriculum, "
            "or rank by an expert, --client-curriculum score=E"
        )


def questions(fed: Federation, algorithm: Algorithm, clients: Sequence[ClientId]) -> dict[ClientId, Request]:
    """Ask each client for the mean loss, on its training samples, of what it would receive now.

    Those that would receive nothing yet (FedGroup's cold clients) are asked for the loss of their own model.
    """
    models = {client: algorithm.model_for(client) for client in clients}
    alike: dict[tuple[int, ...], Request] = {}
    requests = {}
    for client, served in models.items():
        chosen = single(served) or served
        key = () if chosen is None else tuple(id(model) for model in parts(chosen))
        if key not in alike:
            alike[key] = _question(fed, chosen)
        requests[client] = alike[key]
    return requests


def _question(fed: Federation, served: ServedModel | None) -> Request:
    if served is None:
        return fed.request(Evaluate("own", on="train"), kind=LOSSES)
    first, start, models = as_request(served)
    return fed.request(*first, Evaluate(start, on="train"), kind=LOSSES, models=models)

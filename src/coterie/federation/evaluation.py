"""Protocols L, C, G, + and W-max (ALGORITHMS 0.4), asking only for what changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from coterie.errors import CoterieError
from coterie.federation.algorithm import Algorithm
from coterie.federation.federation import Federation
from coterie.federation.served_model import (
    CandidateModels,
    ServedModel,
    SharedLayers,
    as_request,
    error_in_served_model,
    parts,
)
from coterie.federation.state import Resumable, saved
from coterie.messages import EVALUATION, ClientId, Evaluate, EvaluateReply, Plan, Request, Train, Verb
from coterie.registry import home
from coterie.training import digest

Score = tuple[int, int]
"""Correct answers and samples."""


@dataclass(frozen=True)
class Evaluation:
    """Accuracies at one moment, as fractions; None where a protocol is not defined."""

    L: float | None
    C: float | None
    G: float | None
    covered: int
    """How many clients C is averaged over: those for which the server has a model."""
    W: float | None
    """Σ correct / Σ samples under C; None unless every client has a model (FedGroup's W-max takes its maximum)."""


@dataclass
class Evaluator(Resumable):
    """Tracks the clients' scores through a run."""

    fed: Federation
    algorithm: Algorithm
    own: dict[ClientId, Score] = saved(default_factory=dict)
    received: dict[ClientId, Score] = saved(default_factory=dict)
    seen: dict[ClientId, str] = saved(default_factory=dict)
    """Digest of the model that the score in `received` belongs to."""

    def evaluate(self, clients: Iterable[ClientId] | None = None) -> Evaluation:
        """Bring all scores up to date, or those of some clients."""
        models = {client: self.algorithm.model_for(client) for client in (clients or self.fed.clients)}
        self._check(models)
        names = _names(models)
        requests = self._requests(models, names)
        for client, reply in self.fed.ask(requests).items():
            for verb, answer in zip(requests[client].verbs, reply.answers, strict=True):
                if isinstance(verb, Evaluate) and isinstance(answer, EvaluateReply):
                    score = (answer.correct, answer.samples)
                    if verb.model == ("own",):
                        self.own[client] = score
                        self.fed.mark_evaluated(client)
                    else:
                        self.received[client] = score
                        self.seen[client] = names[client]
        G, covered = self._global(models, names), len(self.received)
        return Evaluation(_mean(self.own), _mean(self.received), G, covered, self._pooled())

    def _requests(
        self, models: Mapping[ClientId, ServedModel | None], names: Mapping[ClientId, str]
    ) -> dict[ClientId, Request]:
        """Ask each client for the scores that may have changed; those with the same question share a request."""
        requests: dict[ClientId, Request] = {}
        alike: dict[tuple[bool, str | None], Request] = {}
        stale = self.fed.stale_clients
        for client, model in models.items():
            own_changed = client in stale or client not in self.own
            if model is None:
                self.received.pop(client, None)
                self.seen.pop(client, None)
            new = names.get(client) != self.seen.get(client) or (own_changed and isinstance(model, SharedLayers))
            changed = model if model is not None and new else None
            if own_changed or changed is not None:
                kind = own_changed, None if changed is None else names[client]
                if kind not in alike:
                    alike[kind] = self._request(own_changed, changed)
                requests[client] = alike[kind]
        return requests

    def _check(self, models: Mapping[ClientId, ServedModel | None]) -> None:
        """Refuse what is not a model, naming the method: nothing else would say where it came from."""
        template = self.fed.initial()
        different = {id(served): (client, served) for client, served in models.items() if served is not None}
        for client, served in different.values():
            if error := error_in_served_model(served, template):
                method = type(self.algorithm)
                raise CoterieError(f"{home(method)}: {method.__qualname__}.model_for({client}) returned {error}")

    def _request(self, own: bool, served: ServedModel | None) -> Request:
        verbs: list[Verb] = [Evaluate(("own",))] if own else []
        if served is None:
            return self.fed.request(*verbs, kind=EVALUATION)
        first, start, models = as_request(served)
        return self.fed.request(*verbs, *first, Evaluate(start), kind=EVALUATION, models=models)

    def fine_tuned(self, plan: Plan | None = None, clients: Iterable[ClientId] | None = None) -> float | None:
        """Protocol +: every client trains the server's final model by a plan, and is scored with the result."""
        requests = {}
        for client in clients or self.fed.clients:
            served = self.algorithm.model_for(client)
            if served is not None:
                first, start, models = as_request(served)
                train = Train(plan or self.fed.plan, start=start, keep=False, send=False, purpose="fine-tune")
                requests[client] = self.fed.request(*first, train, Evaluate("trained"), kind=EVALUATION, models=models)
        replies = self.fed.ask(requests)
        scores = {client: reply.answer(EvaluateReply) for client, reply in replies.items()}
        return _mean({client: (score.correct, score.samples) for client, score in scores.items()})

    def forget(self) -> None:
        """Measure everything again next time."""
        self.own.clear()
        self.received.clear()
        self.seen.clear()

    def untested(self) -> list[ClientId]:
        """Return the clients without test samples, which no mean includes."""
        return sorted(client for client, (_, samples) in self.own.items() if samples == 0)

    def _global(self, models: Mapping[ClientId, ServedModel | None], names: Mapping[ClientId, str]) -> float | None:
        """G, if there is one model for all: on the common test set, else on all clients' parts together."""
        model = next(iter(models.values()), None)
        if model is None or isinstance(model, CandidateModels | SharedLayers) or len(set(names.values())) != 1:
            return None
        if len(names) != len(models):
            return None
        if (test := self.fed.settings.test) is None:
            return self._pooled()
        score = test.evaluate(self.fed.trainer, self.fed.spec, model)
        return score.correct / score.samples if score.samples else None

    def _pooled(self) -> float | None:
        if len(self.received) < len(self.fed.clients):
            return None
        samples = sum(score[1] for score in self.received.values())
        return sum(score[0] for score in self.received.values()) / samples if samples else None


def accuracies(scores: Mapping[ClientId, Score], clients: int) -> list[float | None]:
    """Return accuracies by client, None for those without a score or without test samples."""
    tested = {client: correct / samples for client, (correct, samples) in scores.items() if samples}
    return [tested.get(client) for client in range(clients)]


def _mean(scores: Mapping[ClientId, Score]) -> float | None:
    tested = [correct / samples for _, (correct, samples) in sorted(scores.items()) if samples]
    return float(np.mean(tested)) if tested else None


def _names(models: Mapping[ClientId, ServedModel | None]) -> dict[ClientId, str]:
    """Name what each client would receive by its content; models shared by identity are read once."""
    by_identity: dict[int, str] = {}
    names: dict[ClientId, str] = {}
    for client, served in models.items():
        if served is None:
            continue
        for model in parts(served):
            if id(model) not in by_identity:
                by_identity[id(model)] = digest(model)
        names[client] = " ".join(by_identity[id(model)] for model in parts(served))
    return names

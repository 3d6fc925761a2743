"""Protocols L, C, G, + and W-max (ALGORITHMS 0.4), asking only for what changed.

They are of accuracy, or of the metric that was chosen: L, C and + are means over clients of what each computes on its
samples, G is computed by the server. Where samples are pooled, a metric counts as often as its client has samples.
Where the method serves label offsets, clients add theirs to the logits under L, C and +; under G there is none.
All clients are asked, or of many a sample (`evaluated_clients`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coterie.errors import CoterieError
from coterie.federation.algorithm import Algorithm
from coterie.federation.evaluated_clients import Basis, EvaluatedClients, known_values, value_of
from coterie.federation.federation import Federation
from coterie.federation.scores import Score, Scores
from coterie.federation.served_model import (
    CandidateModels,
    ServedModel,
    SharedLayers,
    as_request,
    error_in_served_model,
    parts,
)
from coterie.federation.training import OUTLIER
from coterie.messages import (
    EVALUATION,
    LABEL_EVALUATION,
    ClientId,
    Evaluate,
    EvaluateReply,
    Params,
    Plan,
    Request,
    Train,
    Verb,
    is_error,
)
from coterie.messages.verbs.train import ADAPTING
from coterie.registry import home
from coterie.training import digest, guessing


@dataclass(frozen=True)
class Evaluation:
    """Accuracies, or another metric, at one moment, as fractions; None where a protocol is not defined."""

    L: float | None
    C: float | None
    G: float | None
    covered: int
    """How many clients C is averaged over: those for which the server has a model, and that have a score with it."""
    W: float | None
    """Σ correct / Σ samples under C; None unless every client has a model (FedGroup's W-max takes its maximum)."""
    unadapted: dict[str, float | None] | None = None
    """L and C without the step by which clients adapt a model before they use it, where the method has one."""
    C_own: float | None = None
    """As C, each label as often as the client has it; at the end only."""
    C_lacking: float | None = None
    """As C, on test samples of labels that a client lacks, over clients that lack some; in simulations, at the end."""
    measured: dict[str, Basis] | None = None
    """On how many clients each of these stands, where they are estimates."""


class Evaluator(Scores):
    """Tracks the clients' scores through a run."""

    def __init__(self, fed: Federation, algorithm: Algorithm) -> None:
        super().__init__()
        self.fed, self.algorithm, self._evaluated = fed, algorithm, EvaluatedClients(fed)

    @property
    def evaluated(self) -> EvaluatedClients:
        """Who is evaluated."""
        return self._evaluated

    def evaluate(self, newcomers: Sequence[ClientId] | None = None) -> Evaluation:
        """Bring all scores up to date, or those of clients that came after training."""
        self.changing()
        clients = self.evaluated.among(newcomers) if newcomers else self.evaluated.now()
        models = {client: self.algorithm.model_for(client) for client in clients}
        self._check(models)
        received_by, shares = _names(models), self.algorithm.own_shares(clients)
        names = {client: _used(name, shares.get(client)) for client, name in received_by.items()}
        adaptation = self.algorithm.adaptation(self.fed)
        requests = self._requests(models, names, adaptation, shares)
        for client, reply in self.fed.ask(requests).items():
            answers = [answer for answer in reply.answers if isinstance(answer, EvaluateReply)]
            scores = [self._score(answer) for answer in answers]
            asked_own = 0 if requests[client].verbs[0] != self._evaluate(("own",)) else 1 if adaptation is None else 2
            if own := scores[:asked_own]:
                _note(client, own, self.own, self.own_unadapted)
                self.losses[client] = answers[asked_own - 1].loss
                if (value := value_of(own[-1])) is not None:
                    better = min if is_error(self.fed.settings.metric) else max
                    self.best[client] = better(value, self.best.get(client, value))
                self.fed.mark_evaluated(client)
            if received := scores[asked_own:]:
                _note(client, received, self.received, self.received_unadapted)
                self.seen[client] = names[client]
        self._forget_others()
        auxiliary = None if newcomers else self.algorithm.global_model()
        as_received = self.algorithm.served_offset is None and not any(shares.values())
        G = self._global(models, received_by, as_received) if auxiliary is None else self._beside(auxiliary)
        covered = sum(samples > 0 for _, samples in self.received.values())
        unadapted = {"L": _mean(self.own_unadapted), "C": _mean(self.received_unadapted)} if adaptation else None
        W = self._pooled()
        return Evaluation(
            _mean(self.own), _mean(self.received), G, covered, W, unadapted, measured=self._measured(W, G)
        )

    def _measured(self, W: float | None, G: float | None) -> dict[str, Basis] | None:
        """Say on what numbers stand, where they are estimates; G is one where there is no test set for all."""
        if not self.evaluated.estimates:
            return None
        measured = {key: self.evaluated.measured(known_values(s)) for key, s in (("L", self.own), ("C", self.received))}
        if W is not None:
            of_all = self.evaluated.measured_together(
                self.received.values(), W, self.fed.settings.aggregation.max_weight
            )
            measured |= {"W": of_all, **({"G": of_all} if G == W and self.fed.settings.test is None else {})}
        return {key: number for key, number in measured.items() if number.clients}

    def _forget_others(self) -> None:
        """Of clients outside the sample nobody needs to know whose model has changed: they would become many.

        Nor are there scores of them, unless an earlier version, which evaluated everybody, began the run.
        """
        if self.evaluated.everybody:
            return
        for client in [client for client in self.own if client not in self.evaluated and client not in self.fed.joined]:
            for scores in (self.own, self.received, self.own_unadapted, self.received_unadapted, self.seen, self.best):
                scores.pop(client, None)
        for client in self.fed.stale_clients - self.own.keys():
            self.fed.mark_evaluated(client)

    def evaluate_at_end(self, measured: Evaluation | None) -> Evaluation:
        """Add C by label to what was measured of the last round; None: measure that too."""
        evaluation = measured or self.evaluate()
        if self.fed.settings.metric is None:  # others are not sums over samples, which labels could weigh
            self.evaluate_by_label()
        own, lacking = _plain_mean(self.by_own_frequencies), _plain_mean(self.on_lacking)
        stands = evaluation.measured
        if stands is not None:
            by_label = {"C_own": self.by_own_frequencies, "C_lacking": self.on_lacking}
            stands = stands | {key: self.evaluated.measured([*by.values()]) for key, by in by_label.items() if by}
        return replace(evaluation, C_own=own, C_lacking=lacking, measured=stands)

    def _evaluate(
        self, model: str | tuple[str, ...], by_label: Literal[True] | None = None, own_share: float | None = None
    ) -> Evaluate:
        """Ask for the score of a model as clients use it: with their label offsets, if the method serves them."""
        return Evaluate(
            model,
            label_offset=self.algorithm.served_offset,
            by_label=by_label,
            metric=self.fed.settings.metric,
            most=self.fed.settings.evaluation.test_samples,
            own_share=own_share,
        )

    def _score(self, answer: EvaluateReply) -> Score:
        """Return what counts of an answer."""
        if self.fed.settings.metric is None:
            return answer.correct, answer.samples
        return (0, 0) if answer.score is None else (answer.score * answer.samples, answer.samples)

    def evaluate_by_label(self) -> None:
        """Ask for what C is by the labels that clients have and lack, with requests that are counted apart."""
        self.changing()
        clients = self.evaluated.now()
        models = {client: self.algorithm.model_for(client) for client in clients}
        shares, adaptation = self.algorithm.own_shares(clients), self.algorithm.adaptation(self.fed)
        names = {client: _used(name, shares.get(client)) for client, name in _names(models).items()}
        alike: dict[str, Request] = {}
        changed = {client: name for client, name in names.items() if self.seen_by_label.get(client) != name}
        for client, name in changed.items():
            if (served := models[client]) is not None and name not in alike:
                first, start, sent = as_request(served)
                adapted = [] if adaptation is None else [_adapts(start, adaptation)]
                scored = self._evaluate(start if adaptation is None else "trained", True, shares.get(client))
                alike[name] = self.fed.request(*first, *adapted, scored, kind=LABEL_EVALUATION, models=sent)
        for client, reply in self.fed.ask({client: alike[name] for client, name in changed.items()}).items():
            score = reply.answer(EvaluateReply, -1)
            self.seen_by_label[client] = changed[client]
            for measured, right in ((self.by_own_frequencies, score.own), (self.on_lacking, score.lacking)):
                if right is not None:
                    measured[client] = right

    def _requests(
        self,
        models: Mapping[ClientId, ServedModel | None],
        names: Mapping[ClientId, str],
        adaptation: Plan | None,
        shares: Mapping[ClientId, float],
    ) -> dict[ClientId, Request]:
        """Ask each client for the scores that may have changed; those with the same question share a request."""
        requests: dict[ClientId, Request] = {}
        alike: dict[tuple[bool, str | None], Request] = {}
        stale = self.fed.stale_clients
        for client, model in models.items():
            own_changed = client in stale or client not in self.own
            if model is None:
                for scores in (self.received, self.received_unadapted, self.seen):
                    scores.pop(client, None)
            of_both = isinstance(model, SharedLayers) or bool(shares.get(client))
            new = names.get(client) != self.seen.get(client) or (own_changed and of_both)
            changed = model if model is not None and new else None
            if own_changed or changed is not None:
                kind = own_changed, None if changed is None else names[client]
                if kind not in alike:
                    alike[kind] = self._request(own_changed, changed, adaptation, shares.get(client))
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

    def _request(
        self, own: bool, served: ServedModel | None, adaptation: Plan | None, own_share: float | None
    ) -> Request:
        """Ask for a score of each model, and for another after the adaptation, if there is one."""
        verbs: list[Verb] = []
        if own:
            verbs += self._evaluate(("own",)), *self._adapted(("own",), adaptation)
        if served is None:
            return self.fed.request(*verbs, kind=EVALUATION)
        first, start, models = as_request(served)
        verbs += *first, self._evaluate(start, own_share=own_share), *self._adapted(start, adaptation)
        return self.fed.request(*verbs, kind=EVALUATION, models=models)

    def _adapted(self, start: tuple[str, ...], plan: Plan | None) -> list[Verb]:
        """Return what scores a model once a client has adapted it, if it does so by a plan."""
        return [] if plan is None else [_adapts(start, plan), self._evaluate("trained")]

    def fine_tune(self) -> float | None:
        """Protocol +: each client trains the server's final model once more, and is scored with the result."""
        self.changing()
        requests = {}
        for client in self.evaluated.fine_tuning():
            served = self.algorithm.model_for(client)
            if served is not None:
                first, start, models = as_request(served)
                train = Train(self.fed.plan, start=start, keep=False, send=False, purpose="fine-tune")
                score = self._evaluate("trained")
                requests[client] = self.fed.request(*first, train, score, kind=EVALUATION, models=models)
        replies = self.fed.ask(requests)
        scores = {client: reply.answer(EvaluateReply) for client, reply in replies.items()}
        self.losses |= {client: score.loss for client, score in scores.items()}
        self.tuned = {client: self._score(score) for client, score in scores.items()}
        return _mean(self.tuned)

    def forget(self) -> None:
        """Measure everything again next time."""
        self.changing()
        for scores in (self.own, self.received, self.own_unadapted, self.received_unadapted, self.seen, self.best):
            scores.clear()

    def note_divergence(self) -> None:
        """Note at the end whose latest training diverged though its numbers are finite: no model came of it."""
        limit = OUTLIER * guessing(self.fed.spec)
        for client in sorted(client for client, loss in self.losses.items() if loss > limit):
            detail = f"what it has trained has a loss beyond {limit:.3g}, {OUTLIER:g} times that of guessing"
            self.fed.note(client, "diverged", detail)
            self.fed.diverged.add(client)

    def untested(self) -> list[ClientId]:
        """Return the clients without test samples, or with such as the metric says nothing of: no mean has them."""
        return sorted(client for client, (_, samples) in self.own.items() if samples == 0)

    def _global(
        self, models: Mapping[ClientId, ServedModel | None], names: Mapping[ClientId, str], as_received: bool
    ) -> float | None:
        """G, if there is one model for all: on the common test set, else on all clients' parts together.

        Scores of clients that use it `as_received` tell it, too.
        """
        model = next(iter(models.values()), None)
        if model is None or isinstance(model, CandidateModels | SharedLayers) or len(set(names.values())) != 1:
            return None
        if len(names) != len(models):
            return None
        if (test := self.fed.settings.test) is None and not as_received:
            return self._beside(model) if models.keys() == {*self.evaluated.now()} else None
        if test is None:
            return self._pooled()
        answer = test.evaluate(self.fed.trainer, self.fed.spec, model, metric=self.fed.settings.metric)
        return value_of(self._score(answer))

    def _beside(self, model: Params) -> float | None:
        """G of a model that no client receives: on the common test set, else clients are asked."""
        if (test := self.fed.settings.test) is not None:
            scores = [test.evaluate(self.fed.trainer, self.fed.spec, model, metric=self.fed.settings.metric)]
        else:
            asked = Evaluate(metric=self.fed.settings.metric, most=self.fed.settings.evaluation.test_samples)
            request = self.fed.request(asked, model=model, kind=EVALUATION)
            replies = self.fed.ask(dict.fromkeys(self.evaluated.now(), request))
            scores = [reply.answer(EvaluateReply) for reply in replies.values()]
        return pooled([self._score(score) for score in scores], self.fed.settings.aggregation.max_weight)

    def _pooled(self) -> float | None:
        if len(self.received) < len(self.evaluated.now()):
            return None
        return pooled([*self.received.values()], self.fed.settings.aggregation.max_weight)


def _adapts(start: tuple[str, ...], plan: Plan) -> Train:
    """Return how a client adapts a model."""
    return Train(plan, start=start, keep=False, send=False, purpose=ADAPTING)


def _note(client: ClientId, scores: list[Score], used: dict[ClientId, Score], unadapted: dict[ClientId, Score]) -> None:
    """Note a model's score; there are two where the client adapts it, before and after."""
    used[client] = scores[-1]
    if len(scores) > 1:
        unadapted[client] = scores[0]


def accuracies(scores: Mapping[ClientId, Score], clients: int) -> list[float | None]:
    """Return accuracies by client, None for those without a score or without test samples."""
    return [value_of(scores[client]) if client in scores else None for client in range(clients)]


def pooled(scores: Sequence[Score], max_weight: float | None) -> float | None:
    """Return Σ correct / Σ samples, where nobody counts for more than a multiple of the median number of samples.

    >>> liar = [(5, 10), (6, 10), (10**12, 10**12)]
    >>> round(pooled(liar, None), 3), round(pooled(liar, 1.0), 3)
    (1.0, 0.7)
    """
    counts = [samples for _, samples in scores if samples]
    if max_weight is None or not counts or max(counts) <= (limit := max_weight * float(np.median(counts))):
        return sum(correct for correct, _ in scores) / sum(counts) if counts else None
    tested = [score for score in scores if score[1]]
    weights = [min(samples, limit) for _, samples in tested]
    right = [weight * correct / samples for weight, (correct, samples) in zip(weights, tested, strict=True)]
    return sum(right) / sum(weights)


def _mean(scores: Mapping[ClientId, Score]) -> float | None:
    tested = known_values(scores)
    return float(np.mean(tested)) if tested else None


def _plain_mean(scores: Mapping[ClientId, float]) -> float | None:
    return float(np.mean([score for _, score in sorted(scores.items())])) if scores else None


def _used(name: str, own_share: float | None) -> str:
    """Name what a client uses: what it receives, by this name, with a share of its own model."""
    return f"{name} {own_share:g}" if own_share else name


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

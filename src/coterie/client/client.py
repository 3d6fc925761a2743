"""A client: the only place where its samples are touched."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from coterie.client import pruning
from coterie.client.data import Floats, Index, LocalData
from coterie.client.scoring import curriculum_order
from coterie.client.store import State, Store
from coterie.messages import (
    EVALUATION,
    Answer,
    Array,
    ClassCounts,
    ClassCountsReply,
    ClientId,
    Evaluate,
    EvaluateReply,
    Failure,
    Losses,
    LossesReply,
    Params,
    Prune,
    PruneReply,
    Reply,
    Request,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
    usable,
)
from coterie.models import initial
from coterie.similarity import MEASURES, Measure, signature, split_half_distance, vectors_per_label
from coterie.streams import stream
from coterie.training import TOO_LARGE, Diverged, Job, Trainer, evaluate, losses


class Client:
    """Answers requests from its own data and state."""

    def __init__(
        self,
        id: ClientId,
        data: LocalData,
        store: Store,
        trainer: Trainer,
        later: Mapping[int, LocalData] | None = None,
    ) -> None:
        """`later` holds what replaces the data from some rounds on (concept drift)."""
        self.id = id
        self._data = {0: data, **(later or {})}
        self._store, self._trainer = store, trainer

    def answer(self, request: Request) -> Reply | Failure:
        """Answer all verbs of a request, or none; only then is a new state kept."""
        data = self._data[max(start for start in self._data if start <= request.round)]
        turn = RequestHandler(self.id, data, self._trainer, request, self._remembered(request))
        try:
            answers = tuple(turn.do(verb) for verb in request.verbs)
        except Diverged as event:
            return Failure(self.id, request.round, "diverged", str(event))
        if turn.new_state is not None:
            self._store.save(self.id, request.round, turn.new_state)
        return Reply(self.id, request.round, answers)

    def _remembered(self, request: Request) -> State:
        """Return the state to start from: before this round, so that it can be asked again; to measure, the latest."""
        return self._store.load(self.id, before=request.round + (request.kind == EVALUATION))


class RequestHandler:
    """One request being answered."""

    def __init__(self, id: ClientId, data: LocalData, trainer: Trainer, request: Request, state: State) -> None:
        self.id, self.data, self.trainer, self.request, self.state = id, data, trainer, request, state
        self.new_state: State | None = None
        self.made: dict[str, Params] = {}

    def do(self, verb: Verb) -> Answer:
        """Answer one verb."""
        match verb:
            case Train():
                return self.train(verb)
            case Evaluate():
                return self.evaluate(verb)
            case Losses():
                return self.losses(verb)
            case Signature():
                return self.sign(verb)
            case ClassCounts():
                return ClassCountsReply(np.bincount(self.data.y[self.data.train], minlength=self.data.classes))
            case Prune():
                return self.prune(verb)

    def sign(self, verb: Signature) -> SignatureReply:
        """Describe the training data by singular vectors."""
        x, y = self.data.x[self.data.train], self.data.y[self.data.train]
        if verb.normalised:
            x = self.data.normalise(x)
        labels = y if verb.per_label else None
        parts = {-1: signature(x, verb.p)}
        if verb.per_label:
            parts = {
                c: signature(x[y == c], p) for c, p in vectors_per_label(y, verb.p, verb.share, verb.budget).items()
            }
        vectors = np.hstack([*parts.values(), np.zeros((math.prod(x.shape[1:]), 0))]).astype(np.float32)
        whose = np.repeat(np.array([*parts], np.int64), [part.shape[1] for part in parts.values()])
        if not verb.halves:
            return SignatureReply(vectors, whose)
        rng = stream(self.request.seed, "halves", self.id)
        apart = split_half_distance(x, verb.p, rng, splits=verb.halves, measure=_measure(verb.measure), labels=labels)
        return SignatureReply(vectors, whose, apart)

    def model(self, name: str) -> Params:
        """Find a model by the names that verbs use."""
        if name in self.made:
            return self.made[name]
        if name == "own" and "model" in self.state:
            return self.state["model"]
        if name in ("own", "initial"):
            return initial(self.request.spec, self.request.seed)
        return self.request.models[name]

    def overlaid(self, names: tuple[str, ...]) -> dict[str, Array]:
        """Lay models over each other, the last on top."""
        result: dict[str, Array] = {}
        for name in names:
            result |= self.model(name)
        return result

    def samples(self, on: str, share: float) -> tuple[Floats, Index]:
        """Return the samples of a part, normalised."""
        if on == "test":
            return self.data.load_test()
        if on == "train":
            return self.data.load(self.data.train)
        return self.data.load(self.data.training_part(share, self.request.seed, self.id)[1])

    def train(self, verb: Train) -> TrainReply:
        """Train by the plan."""
        plan, request, start = verb.plan, self.request, self.overlaid(verb.start)
        used, _ = self.data.training_part(plan.holdout, request.seed, self.id)
        x, y = self.data.load(used)
        rng = stream(request.seed, verb.purpose, self.id, request.round)
        order = None
        if plan.curriculum is not None:
            judges = {"G": start, "L": self.state.get("model", start), "E": request.models.get("expert", start)}
            order = curriculum_order(
                plan.curriculum,
                lambda params: self.trainer.logits(request.spec, params, x),
                y,
                judges,
                stream(request.seed, f"{verb.purpose} order", self.id, request.round),
            )
        job = Job(
            request.spec,
            plan,
            start,
            x,
            y,
            rng,
            anchors=tuple((self.model(anchor.model), anchor.strength) for anchor in plan.anchors),
            correction=self._correction(plan.correction),
            mask=self._mask(plan.mask),
            order=order,
        )
        outcome = self.trainer.train(job)
        noted = zip(sorted(plan.snapshots), outcome.snapshots, strict=False)
        best = {name: model for name, model in self.made.items() if name == "best"}
        self.made = {**best, "trained": outcome.params, **{f"epoch {epoch}": model for epoch, model in noted}}
        changed: dict[str, Params] = {"model": outcome.params}
        control: dict[str, Array] = {}
        if job.correction is not None and outcome.steps:
            # cᵢ⁺ − cᵢ = (θ_t − θ_i)/Σηₛ − c (SCAFFOLD, option II)
            path = sum(plan.lr.at(step) for step in range(outcome.steps))
            own_control = self.state.get("control", {})
            for name, server_control in request.models[str(plan.correction)].items():
                control[name] = (start[name] - outcome.params[name]) / np.float32(path) - server_control
            changed["control"] = {name: own_control.get(name, 0) + change for name, change in control.items()}
            if not usable(control):
                raise Diverged(outcome.steps, "the control", TOO_LARGE)
        if verb.keep:
            self.new_state = {**self.state, **changed}
            self.state = self.new_state
        return TrainReply(len(y), outcome.steps, outcome.loss, _selected(outcome.params, verb.send), control)

    def _correction(self, name: str | None) -> Params | None:
        if name is None:
            return None
        own = self.state.get("control", {})
        return {key: value - own[key] if key in own else value for key, value in self.request.models[name].items()}

    def _mask(self, name: str | None) -> Params | None:
        return self.state.get("mask") if name == "own" else None if name is None else self.request.models[name]

    def prune(self, verb: Prune) -> PruneReply:
        """Prune what the training led to, if that pays."""
        last = self.model("trained")
        mask = {**pruning.whole(last, verb.masked(last)), **self.state.get("mask", {})}

        def accuracy(model: Params) -> float | None:
            x, y = self.samples(verb.on, verb.share)
            if not len(y):
                return None
            outputs = self.trainer.logits(self.request.spec, model, x)
            return float(np.mean(outputs.argmax(axis=1) == y)) if np.isfinite(outputs).all() else math.nan

        mask, weights, channels = pruning.decide(verb, self.made.get("epoch 1", last), last, mask, accuracy)
        self.made["trained"] = model = pruning.under(last, mask)
        if self.new_state is not None:
            self.state = self.new_state = {**self.new_state, "model": model, "mask": mask}
        return PruneReply.of(model, mask, verb.sent(model), weights, channels)

    def evaluate(self, verb: Evaluate) -> EvaluateReply:
        """Count right answers."""
        names = (verb.model,) if isinstance(verb.model, str) else verb.model
        spec, params = self.request.spec, self.model(names[0]) if len(names) == 1 else self.overlaid(names)
        if verb.on != "test":
            return evaluate(self.trainer, spec, params, *self.samples(verb.on, verb.share))
        personal = self.made.keys() - {"best"} | ({"own"} if "model" in self.state else set())
        shared = len(names) == 1 and not personal & set(names)
        if self.data.common_test is not None and shared:
            return self.data.common_test.evaluate(self.trainer, spec, params, self.data.test)
        return evaluate(self.trainer, spec, params, *self.data.load_test())

    def losses(self, verb: Losses) -> LossesReply:
        """Compare models by their mean losses."""
        x, y = self.samples(verb.on, verb.share)
        outputs = [self.trainer.logits(self.request.spec, self.model(name), x) for name in verb.models]
        table = np.stack([losses(output, y) for output in outputs])
        means = table.mean(axis=1) if len(y) else np.zeros(len(table))
        wins = np.bincount(table.argmin(axis=0), minlength=len(table)) if len(y) else np.zeros(len(table), int)
        correct = tuple(int((output.argmax(axis=1) == y).sum()) for output in outputs)
        answer = LossesReply(len(y), tuple(means.tolist()), tuple(wins.tolist()), correct)
        self.made["best"] = self.model(verb.models[verb.winner(answer)])
        return answer


def _measure(name: str) -> Measure:
    if name not in MEASURES:
        raise ValueError(f"unknown measure '{name}'")
    return name


def _selected(params: dict[str, Array], send: bool | tuple[str, ...]) -> dict[str, Array]:
    if isinstance(send, bool):
        return params if send else {}
    return {name: value for name, value in params.items() if name.startswith(send)}

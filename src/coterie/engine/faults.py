"""Faults that a simulation plays: clients that are not reached, that are late, or that lie.

Nonsense is what a check of the reply finds. The other kinds of lies are well-formed:

    flip      θ − (θ_i − θ): the update turned round
    flip10    θ − 10 (θ_i − θ)
    replace   θ + N (X − θ), X a random model: the mean of N equal clients would be X
    huge      10¹¹ in place of each number
    samples   the update turned round, and 10⁹ samples declared and claimed
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from coterie.messages import (
    Agree,
    Array,
    ClientId,
    EvaluateReply,
    Failure,
    Keys,
    Losses,
    LossesReply,
    Params,
    Prune,
    PruneReply,
    Reply,
    Request,
    Shares,
    Train,
    TrainReply,
    Unmask,
    frozen,
)
from coterie.messages.plan import total_steps
from coterie.models import initial
from coterie.streams import stream

Lie = Literal["nonsense", "flip", "flip10", "replace", "huge", "samples"]
HUGE = 1e11
CLAIMED = 10**9
"""Samples that liars of the kind ``samples`` declare."""


@dataclass(frozen=True)
class SimulatedFaults:
    """The faults that an engine plays, as probabilities per client and round; requests that only measure are spared.

    So are the steps of a secure sum but for the training, in which the same clients fail as without it.
    """

    drop: float = 0.0
    """The request never reaches the client."""
    straggle: float = 0.0
    """The client does the work, but its reply comes too late."""
    hostile: float = 0.0
    """The client lies."""
    kind: Lie = "nonsense"
    """How it lies."""
    liars: int = 0
    """So many clients always lie, the same ones in all rounds."""
    clients: int = field(default=0, kw_only=True)
    """How many there are."""
    seed: int = field(default=0, kw_only=True)

    @cached_property
    def always(self) -> frozenset[ClientId]:
        """The clients that always lie, drawn by the seed."""
        return frozenset(stream(self.seed, "liars").permutation(self.clients)[: self.liars].tolist())

    def declared(self, samples: Mapping[ClientId, int]) -> dict[ClientId, int]:
        """Return how many samples clients declare, given how many they have."""
        lying = self.always if self.kind == "samples" else frozenset()
        return {client: CLAIMED if client in lying else count for client, count in samples.items()}

    def before(self, seed: int, client: ClientId, request: Request) -> Failure | None:
        """Say why a request does not reach its client, or None."""
        dropped = self._fate(seed, client, request) == "drop"
        return Failure(client, request.round, "dropped") if dropped else None

    def after(self, seed: int, client: ClientId, request: Request, answer: Reply | Failure) -> Reply | Failure:
        """Return what arrives of an answer."""
        fate = self._fate(seed, client, request)
        if fate == "straggle":
            return Failure(client, request.round, "late")
        if fate == "hostile" and isinstance(answer, Reply):
            rng = stream(seed, "hostile", client, request.round)
            return corrupted(answer, rng) if self.kind == "nonsense" else lied(answer, request, self, rng)
        return answer

    def _fate(self, seed: int, client: ClientId, request: Request) -> str:
        if not (self.liars or self.drop or self.straggle or self.hostile):
            return ""
        fates = ("drop", self.drop), ("straggle", self.straggle), ("hostile", self.hostile)
        steps = any(isinstance(verb, Keys | Shares | Agree | Unmask) for verb in request.verbs)
        if request.measures or (steps and not any(isinstance(verb, Train) for verb in request.verbs)):
            return ""
        luck = stream(seed, "faults", client, request.round).random(3)
        fate = next((fate for (fate, chance), x in zip(fates, luck, strict=True) if x < chance), "")
        return fate or ("hostile" if client in self.always else "")


def corrupted(reply: Reply, rng: np.random.Generator) -> Reply:
    """Return a reply as a broken or hostile client might send it: NaN, wrong shapes, impossible numbers."""
    way = int(rng.integers(3))

    def spoil(answer: Any) -> Any:
        if not isinstance(answer, TrainReply | PruneReply) or not answer.params or way == 2:
            return EvaluateReply(-1, 7, float("nan"))
        name, value = next(iter(answer.params.items()))
        corrupt = np.full_like(value, np.nan) if way == 0 else np.concatenate([value, value])
        return replace(answer, params={**answer.params, name: corrupt})

    return replace(reply, answers=tuple(spoil(answer) for answer in reply.answers))


def lied(reply: Reply, request: Request, faults: SimulatedFaults, rng: np.random.Generator) -> Reply:
    """Return a reply whose models are lies, with all else in it as it would be if they were true."""
    answers: list[Any] = []
    known: dict[str, Params] = {"initial": initial(request.spec, request.seed), **request.models}
    known.setdefault("own", known["initial"])  # what the client kept is not known here
    start: Params = known["initial"]
    for verb, answer in zip(request.verbs, reply.answers, strict=True):
        lie = answer
        if isinstance(verb, Losses) and isinstance(answer, LossesReply):
            known["best"] = known.get(verb.models[verb.winner(answer)], start)
        elif isinstance(verb, Train) and isinstance(answer, TrainReply):
            start = {**known["initial"], **{name: v for model in verb.start for name, v in known[model].items()}}
            lie = _train_lie(verb, answer, request, start, faults, rng)
            known["trained"] = {**start, **lie.params}
        elif isinstance(verb, Prune) and isinstance(answer, PruneReply):
            left = {name: start[name][answer.mask(name, start[name].shape)] for name in answer.bitmaps}
            lie = replace(answer, params=false_model(answer.params, {**start, **left}, faults, rng))
        answers.append(lie)
    return replace(reply, answers=tuple(answers))


def _train_lie(
    verb: Train, answer: TrainReply, request: Request, start: Params, faults: SimulatedFaults, rng: np.random.Generator
) -> TrainReply:
    samples, steps, plan, control = answer.samples, answer.steps, verb.plan, answer.control
    params = false_model(answer.params, start, faults, rng)
    if faults.kind == "samples":
        samples = CLAIMED - int(plan.holdout * CLAIMED)
        steps = total_steps(samples, plan)
    if control and plan.correction:  # as it would follow from the lie
        server, path = request.models[plan.correction], np.float32(plan.lr.path(steps))
        control = {name: (start[name] - params.get(name, start[name])) / path - server[name] for name in control}
    return replace(answer, samples=samples, steps=steps, params=params, control=control)


def false_model(trained: Params, start: Params, faults: SimulatedFaults, rng: np.random.Generator) -> dict[str, Array]:
    """Return a lie in place of what was trained; integers, and variances below 0, are not lied about."""
    if not trained:
        return {}

    def lie(name: str, value: Array) -> Array:
        if not np.issubdtype(value.dtype, np.floating):
            return value
        began = start[name].astype(np.float64)
        if faults.kind == "huge":
            false = np.full(value.shape, HUGE)
        elif faults.kind == "replace":
            false = began + faults.clients * (rng.normal(0.0, began.std() or 0.1, value.shape) - began)
        else:
            false = began - (10 if faults.kind == "flip10" else 1) * (value - began)
        return (np.maximum(false, 0) if name.endswith("running_var") else false).astype(value.dtype)

    return frozen({name: np.array(lie(name, value)) for name, value in trained.items()})

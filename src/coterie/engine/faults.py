"""Faults that a simulation plays: clients that are not reached, that are late, or that answer nonsense."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.messages import EVALUATION, ClientId, EvaluateReply, Failure, PruneReply, Reply, Request, TrainReply
from coterie.streams import stream


@dataclass(frozen=True)
class SimulatedFaults:
    """The faults that an engine plays, as probabilities per client and round; requests that only measure are spared."""

    drop: float = 0.0
    """The request never reaches the client."""
    straggle: float = 0.0
    """The client does the work, but its reply comes too late."""
    hostile: float = 0.0
    """The client answers nonsense."""

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
            return corrupted(answer, stream(seed, "hostile", client, request.round))
        return answer

    def _fate(self, seed: int, client: ClientId, request: Request) -> str:
        fates = ("drop", self.drop), ("straggle", self.straggle), ("hostile", self.hostile)
        if request.kind == EVALUATION or not any(chance for _, chance in fates):
            return ""
        luck = stream(seed, "faults", client, request.round).random(3)
        return next((fate for (fate, chance), x in zip(fates, luck, strict=True) if x < chance), "")


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

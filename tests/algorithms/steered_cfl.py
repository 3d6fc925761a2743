"""Small federations for CFL, whose clients answer with updates that a test decides, or whose training is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from coterie.algorithms.cfl import CFL
from coterie.federation import Federation
from coterie.messages import Params, Request, TrainReply
from coterie.testing import RecordingEngine, ScriptedEngine, small_federation

SPLITTING = {"eps1": 0.4, "eps2": 0.6, "min_round": 5}
"""For twenty clients of digits-rotated and the network `mlp`."""
DIGITS = {"clients": 20, "fraction": 1.0, "rounds": 12, "epochs": 5, "lr": 0.02, "model_options": {}, "eval_every": 0}
OPPOSED = {0: (2, 0), 1: (-2, 0), 2: (2, 0.1), 3: (-2, 0.1), 4: (0, 0.1), 5: (0.1, 0)}


@contextmanager
def federation(**settings: Any) -> Iterator[tuple[CFL, Federation]]:
    with small_federation("cfl", **settings) as (run, _):
        yield run.algorithm, run.fed  # type: ignore[misc]


def flat(params: Params) -> np.ndarray:
    return np.concatenate([value.ravel() for value in params.values()]).astype(np.float64)


def moved(model: Params, delta: Sequence[float]) -> dict[str, np.ndarray]:
    """Add to the first entries of a model."""
    name, value = next(iter(model.items()))
    changed = value.copy().ravel()
    changed[: len(delta)] += np.asarray(delta, np.float32)
    return {**model, name: changed.reshape(value.shape)}


def play(method: CFL, fed: Federation, cohorts: Sequence[Sequence[int]]) -> None:
    """Run rounds 1, 2, … with these cohorts."""
    method.begin(fed)
    for t, cohort in enumerate(cohorts, start=1):
        fed.start_round(t)
        method.round(fed, cohort)


def steered(fed: Federation, delta: Callable[[int, int], Any]) -> ScriptedEngine:
    """Let clients answer with the updates that a test decides; None is silence."""

    def script(client: int, request: Request) -> TrainReply | None:
        update = delta(client, request.round)
        return None if update is None else TrainReply(10, 1, 1.0, moved(request.models["model"], update))

    return fed.wrap_engine(lambda inner: ScriptedEngine(inner, script))


class Recorded(RecordingEngine):
    """What clients trained, before and after, by round and client; walks apart."""

    @property
    def trained(self) -> dict[int, dict[int, tuple[np.ndarray, np.ndarray]]]:
        pairs: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        for (t, client), answer in self.answers(TrainReply).items():
            before = flat(self.requests[t, client, "train"].models["model"])
            pairs.setdefault(t, {})[client] = before, flat(answer.params)
        return pairs

    @property
    def walked(self) -> list[int]:
        return [client for _, client, kind in self.replies if kind == "walk"]

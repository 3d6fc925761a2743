"""FedGroup on a small federation, whose clients may send something else than they trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedgroup import FedGroup
from coterie.client import MemoryStore
from coterie.data import FederatedData
from coterie.federation.loop import admit
from coterie.messages import Params, Reply, Request, Train, TrainReply
from coterie.models import initial
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine

Change = Callable[[int, Request, Params, Params], Mapping[str, np.ndarray]]
"""Of client, request, θ⁰ and what was trained; returns what is sent."""


@dataclass
class Run(Session):
    """A method that has begun, and the data behind it."""

    data: FederatedData
    requests: list[dict[int, Request]]

    @property
    def method(self) -> FedGroup:
        assert isinstance(self.algorithm, FedGroup)
        return self.algorithm

    def first_updates(self, t: int = 0) -> dict[int, np.ndarray]:
        """All clients' Δ_i in float64, asked for in another way than the method does."""
        plan = replace(self.fed.plan, steps=self.method.pretrain_steps)
        verb = Train(plan, start=("start",), keep=False, purpose="pre-train")
        now = self.fed.round
        self.fed.start_round(t)
        request = self.fed.request(verb, models={"start": self.fed.initial()})
        replies = self.fed.ask(dict.fromkeys(range(self.data.clients), request))
        self.fed.start_round(now)
        return {c: flat(reply.answer(TrainReply).params) - flat(self.fed.initial()) for c, reply in replies.items()}

    def play(self, *rounds: int) -> None:
        for t in rounds:
            self.fed.start_round(t)
            self.algorithm.round(self.fed, self.fed.cohort(t))
            admit(self.fed, self.algorithm)


def applied(change: Change | None) -> Callable[[Reply, Request], Reply]:
    """Let clients send something else than they trained."""

    def changed(reply: Reply, request: Request) -> Reply:
        trained = reply.answers[0]
        if change is None or not isinstance(trained, TrainReply):
            return reply
        sent = change(reply.client, request, initial(request.spec, request.seed), trained.params)
        return replace(reply, answers=(replace(trained, params=dict(sent)),))

    return changed


@contextmanager
def begun(method: str = "fedgroup", change: Change | None = None, **settings: Any) -> Iterator[Run]:
    options = {k: settings.pop(k) for k in list(settings) if k in ALGORITHMS.options(method)}
    wanted = {"algorithm": method, "algorithm_options": options, **SMALL, "groups": 2, **settings}
    config = settings_to_config(None, {key: value for key, value in wanted.items() if value is not None})
    data = load_data(config)
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Progress())) as made:
        engine = made.fed.wrap_engine(lambda inner: RecordingEngine(inner, applied(change)))
        made.algorithm.begin(made.fed)
        yield Run(made.config, made.fed, made.algorithm, made.evaluator, data, engine.exchanges)


def flat(params: Params) -> np.ndarray:
    return np.concatenate([np.asarray(v, np.float64).ravel() for v in params.values()])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def same(a: Params, b: Params) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def trained(requests: Mapping[int, Request]) -> Train:
    (verb,) = {request.verbs[0] for request in requests.values()}
    assert isinstance(verb, Train)
    return verb

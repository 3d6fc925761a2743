"""Small runs of Sub-FedAvg (Un) and (Hy) that prune eagerly, with a record of what was said in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coterie.client import MemoryStore
from coterie.federation.loop import rounds
from coterie.messages import PruneReply, Reply, Request
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine

EAGER = {"distance": 0.0, "accuracy": 0.0}
"""Prunes wherever there is something to prune."""
UN: dict[str, Any] = {"algorithm": "sub-fedavg-un", "epochs": 2, "algorithm_options": EAGER}
HY: dict[str, Any] = {
    "algorithm": "sub-fedavg-hy",
    "epochs": 2,
    "batch_size": 20,
    "model": "lenet5-bn",
    "model_options": {},
    "algorithm_options": {**EAGER, "channel_distance": 0.0},
}


class Heard(RecordingEngine):
    """What was said about training, by round and client."""

    @property
    def trained(self) -> list[Reply]:
        return [reply for (_, _, kind), reply in self.replies.items() if kind == "train"]

    @property
    def pruned(self) -> dict[tuple[int, int], PruneReply]:
        return self.answers(PruneReply)

    @property
    def asked_to_train(self) -> dict[tuple[int, int], Request]:
        return {
            (reply.round, reply.client): self.requests[reply.round, reply.client, "train"] for reply in self.trained
        }


@contextmanager
def federation(settings: dict[str, Any], trainer: Any = None) -> Iterator[tuple[Any, Session, MemoryStore, Heard]]:
    config = settings_to_config(None, {**SMALL, **settings})
    data = load_data(config)
    config = completed(config, data)
    trainer = trainer or make_trainer(config, make_spec(config, data), Progress())
    store = MemoryStore()
    with session(config, data, store, trainer) as run:
        heard = run.fed.wrap_engine(Heard)
        yield run.algorithm, run, store, heard


def play(run: Session, every: int = 0) -> None:
    for _ in rounds(run.fed, run.algorithm, run.evaluator, every=every):
        pass

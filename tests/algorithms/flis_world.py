"""FLIS on a small federation that plays some rounds, and ways to compare models and results."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.federation.loop import rounds
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL

UNEVEN = {"dataset": "digits", "partition": "dirichlet:alpha=0.5", "clients": 10, "epochs": 3}
BOTH = pytest.mark.parametrize("method", ["flis-dc", "flis-hc"])


@contextmanager
def opened(method: str, change=lambda data: data, **settings: Any) -> Iterator[Session]:
    """A federation before its first round, whose data may be changed."""
    config = settings_to_config(None, {"algorithm": method, **SMALL, **settings})
    data = change(load_data(config))
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Progress())) as run:
        run.data = data
        yield run


def play(run: Session, until: int) -> Any:
    """Play the rounds up to a number; return the method."""
    for t, _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
        if t == until:
            break
    return run.algorithm


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def agreement(run: Session, models) -> np.ndarray:
    """The share of the server's samples to which two models give the same label, counted one by one."""
    labels = [z.argmax(axis=1).tolist() for z in run.fed.logits(models, run.fed.settings.server_data.x)]
    return np.array([[sum(x == y for x, y in zip(a, b, strict=True)) / len(a) for b in labels] for a in labels])


def numbers(result: coterie.Result) -> list[dict]:
    return [{key: row[key] for key in ("round", "L", "C", "W", "loss", "discrepancy")} for row in result.history]

"""A client small enough to compute everything about it by hand: softmax regression on a few samples."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.client import Client, LocalData, MemoryStore, Store
from coterie.messages import EVALUATION, Evaluate, Failure, ModelSpec, Params, Plan, Reply, Request, Schedule, Verb
from coterie.training import CommonTest, Job, Outcome
from coterie.training.torch_trainer import TorchTrainer

FEATURES, CLASSES, TRAIN, TEST, SEED, ID = 6, 4, 30, 17, 5, 3
SPEC = ModelSpec("mclr", (FEATURES,), CLASSES)
PLAN = Plan(Schedule(0.3), epochs=2, batch_size=7, momentum=0.5)


def normalise(raw: np.ndarray) -> np.ndarray:
    """Unlike the raw samples in more than scale, so that the two are not taken for each other."""
    return (raw.astype(np.float32) - 100) / 50


def local_data(common: bool = False, train: int = TRAIN, test: int = TEST) -> LocalData:
    """The client's samples lie scattered in larger arrays; the last class does not occur in training."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (90, FEATURES), dtype=np.uint8)
    x[:, 0] = np.arange(90)  # tells samples apart
    y = rng.integers(CLASSES - 1, size=90)
    test_x, test_y = rng.integers(0, 256, (40, FEATURES), dtype=np.uint8), rng.integers(CLASSES, size=40)
    return LocalData(
        x,
        y,
        rng.permutation(90)[:train],
        test_x,
        test_y,
        np.sort(rng.permutation(40)[:test]),
        CLASSES,
        normalise,
        CommonTest(test_x, test_y, normalise) if common else None,
    )


class Recording(TorchTrainer):
    """Trains as ever, and notes what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Job] = []
        self.seen: list[np.ndarray] = []
        """Inputs of networks that were run."""

    def train(self, job: Job) -> Outcome:
        self.jobs.append(replace(job, start={name: value.copy() for name, value in job.start.items()}))
        return super().train(job)

    def logits(self, spec: ModelSpec, params: Params, x: np.ndarray) -> np.ndarray:
        self.seen.append(x.copy())
        return super().logits(spec, params, x)


class World:
    """One client and what it needs."""

    def __init__(self, data: LocalData | None = None, store: Store | None = None, id: int = ID) -> None:
        self.data, self.store, self.trainer = data or local_data(), store or MemoryStore(), Recording()
        self.client = Client(id, {0: self.data}, self.store, self.trainer)

    def ask(self, round: int, *verbs: Verb, **models: Params) -> Reply | Failure:
        kind = EVALUATION if all(isinstance(verb, Evaluate) for verb in verbs) else "train"
        return self.client.answer(Request(round, SEED, SPEC, verbs, models, kind))

    def reply(self, round: int, *verbs: Verb, **models: Params) -> Reply:
        reply = self.ask(round, *verbs, **models)
        assert isinstance(reply, Reply), reply
        assert (reply.client, reply.round, len(reply.answers)) == (self.client.id, round, len(verbs))
        return reply

    def state(self, after: int) -> Mapping[str, Params]:
        """What the client has kept, with rounds up to `after`."""
        return self.store.load(self.client.id, before=after + 1)


def model(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 1])
    return {
        "fc.weight": rng.normal(size=(CLASSES, FEATURES)).astype(np.float32),
        "fc.bias": rng.normal(size=CLASSES).astype(np.float32),
    }


def scores(params: Params, x: np.ndarray) -> np.ndarray:
    """Outputs of softmax regression, in float64."""
    return x.astype(np.float64) @ params["fc.weight"].astype(np.float64).T + params["fc.bias"].astype(np.float64)


def losses(params: Params, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cross-entropy of each sample."""
    z = scores(params, x)
    return np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)) + z.max(axis=1) - z[np.arange(len(y)), y]


def who(x: np.ndarray) -> list[int]:
    """Which samples of the client's arrays these normalised ones are."""
    return [round(float(value)) for value in x[:, 0] * 50 + 100]


def equal(a: Params, b: Params) -> bool:
    """Say whether two models are the same to the bit."""
    return set(a) == set(b) and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


def same(a: Any, b: Any) -> bool:
    """Say whether two replies, or parts of them, are the same to the bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and equal({"": a}, {"": b})
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return bool(a == b)

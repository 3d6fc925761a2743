"""What several tests of pruning share: percentiles by hand, a LeNet-5 with channels, and a client that is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from client_world import World, model

from coterie.messages import Channels, ModelSpec, Plan, Prune, PruneReply, Schedule, Train, TrainReply
from coterie.models import initial


def by_loop(weights: np.ndarray, alive: np.ndarray, rate: float) -> np.ndarray:
    """The r-th percentile with linear interpolation by hand; what is smaller goes, but a row keeps its largest."""
    values = sorted(abs(float(w)) for w, a in zip(weights.ravel(), alive.ravel(), strict=True) if a)
    place = (len(values) - 1) * rate
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    threshold = values[low] + (place - low) * (values[high] - values[low])
    kept = np.zeros_like(alive)
    for unit in range(len(weights)):
        places = [i for i in np.ndindex(weights.shape[1:]) if alive[unit][i]]
        large = [i for i in places if abs(float(weights[unit][i])) >= threshold]
        if places and not large:
            large = [max(places, key=lambda i: abs(float(weights[unit][i])))]
        for i in large:
            kept[unit][i] = True
    return kept


CIFAR = ModelSpec("lenet5-bn", (3, 32, 32), 10)
LAYERS = (Channels("conv1", "bn1", "conv2", 3), Channels("conv2", "bn2", "fc1", 8))
HYBRID = Prune(("fc1.weight", "fc2.weight", "fc3.weight"), distance=0.0, channels=LAYERS, channel_distance=0.0)


def lenet(seed: int, spec: ModelSpec = CIFAR) -> dict[str, np.ndarray]:
    """A LeNet-5 whose normalisations are not those of the start."""
    rng = np.random.default_rng(seed)
    params = {name: value.copy() for name, value in initial(spec, seed).items()}
    for name in params:
        if name.startswith("bn") and params[name].ndim:
            params[name] = rng.uniform(0.2, 1.5, params[name].shape).astype(np.float32)
        if name in ("bn1.weight", "bn2.weight", "bn1.bias", "bn2.bias"):
            params[name] *= rng.choice([-1, 1], params[name].shape).astype(np.float32)
    return params


PLAN = Plan(Schedule(0.3), epochs=3, batch_size=7, momentum=0.9, mask="own", snapshots=(1,), holdout=0.1)
ANY = Prune(("fc.weight",), rate=0.2, target=0.9, distance=0.0, accuracy=0.0)
"""Takes every proposal unless all is wrong afterwards."""
ALWAYS = replace(ANY, on="train", accuracy=-1.0)


def asked(world: World, round: int, prune: Prune = ALWAYS, **changes: Any) -> tuple[TrainReply, PruneReply]:
    train = Train(replace(PLAN, **changes), send=False)
    reply = world.reply(round, train, prune, model=model(round))
    return reply.answer(TrainReply), reply.answer(PruneReply)

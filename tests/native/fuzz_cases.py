"""The random networks, plans and data of the fuzzer, each from a seed and a number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from random_networks import NAME, like, with_statistics

from coterie.messages import Anchor, Curriculum, L1Penalty, MetaStep, ModelSpec, Optimiser, Params, Plan, Schedule
from coterie.messages.params import STATISTICS
from coterie.models import initial
from coterie.training import Job


@dataclass
class Case:
    """A job, samples to run the trained network on, and what is special about them."""

    job: Job
    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    features: list[str]


class Luck:
    """Draws from a seeded generator."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def small(self, high: int) -> int:
        """A number between 1 and high, small ones more often."""
        return round(float(high ** self.rng.random()))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def between(self, low: float, high: float) -> float:
        """A number between 10^low and 10^high, uniform in the exponent."""
        return float(10 ** self.rng.uniform(low, high))


def random_spec(luck: Luck) -> ModelSpec:
    layers: list[list[Any]] = []
    shape = luck.one([luck.small(60)], [luck.number(1, 5), luck.number(1, 6)], [luck.number(1, 4), 0, 0], [1, 0, 0])
    if len(shape) == 3:
        shape[1:] = sides = [luck.number(1, 12), luck.number(1, 12)]
        for _ in range(luck.one(0, 1, 1, 2, 2, 3)):
            kernel = luck.number(1, 7)
            padding = luck.number(0, kernel - 1)
            if min(sides) + 2 * padding < kernel:
                continue
            layers += [["conv", luck.small(36), kernel, padding], *random_norm(luck)]
            sides = [side + 2 * padding - kernel + 1 for side in sides]
            pool = luck.number(2, 4)
            for kind in luck.one([], ["relu"], ["pool"], ["relu", "pool"], ["pool", "relu"]):
                if kind == "relu":
                    layers.append(["relu"])
                elif min(sides) >= pool:
                    layers.append(["pool", pool])
                    sides = [side // pool for side in sides]
    for _ in range(luck.number(0, 2)):
        layers += [["linear", luck.small(70)], *random_norm(luck), *([["relu"]] if luck.chance(0.7) else [])]
    return ModelSpec(NAME, tuple(shape), luck.one(1, 2, luck.small(40), luck.number(2, 20)), {"layers": layers})


def random_norm(luck: Luck) -> list[list[Any]]:
    return [["norm", luck.one(1e-5, 0.01), luck.one(0.1, 0.1, 0.5)]] if luck.chance(0.25) else []


def random_plan(luck: Luck, rate: float) -> Plan:
    curriculum = Curriculum(
        pacing=luck.one("exponential", "step", "root", "linear", "quadratic"),
        a=luck.one(0.0, 0.3, 0.8, 1.0),
        b=luck.one(0.05, 0.3, 1.0),
    )
    return Plan(
        lr=Schedule(rate, luck.one(0.0, 0.0, 0.1, 2.0), luck.one(0.5, 0.75, 1.0)),
        epochs=luck.number(1, 2),
        steps=luck.number(0, 6) if luck.chance(0.3) else None,
        batch_size=luck.one(1, 2, 3, 5, 8, 13),
        momentum=luck.one(0.0, 0.5, 0.9),
        weight_decay=luck.one(0.0, 0.0, 0.01),
        anchors=tuple(Anchor("a", luck.one(0.0, 0.1, 1.0)) for _ in range(luck.one(0, 0, 1, 2, 3))),
        correction=luck.one(None, None, "c"),
        mask=luck.one(None, None, "m"),
        curriculum=curriculum if luck.chance(0.25) else None,
        meta_step=luck.one(None, None, None, MetaStep(0.05), MetaStep(0.05, shared_momentum=True)),
        snapshots=luck.one((), (), (1,), (2,), (1, 2), (1, 3)),
    )


def some(luck: Luck, params: Params) -> Params:
    """All parameters, or a part of them."""
    return params if luck.chance(0.7) else {name: value for name, value in params.items() if luck.chance(0.5)}


def random_names(luck: Luck, names: list[str]) -> tuple[str, ...] | None:
    """What learns: mostly everything, else some tensors, or whole layers."""
    if luck.chance(0.6):
        return None
    whole = luck.chance(0.5)
    chosen = [f"{name.partition('.')[0]}." if whole else name for name in names if luck.chance(0.5)]
    return tuple({*chosen, *(() if any(not name.endswith(STATISTICS) for name in chosen) else names[-1:])})


def with_newer_fields(plan: Plan, luck: Luck) -> Plan:
    """Draw the optimiser, clipping and smoothing; Adam has neither momentum nor correction."""
    clip, smoothing = luck.one(None, None, 0.1, 3.0), luck.one(None, None, 0.1, 0.5)
    plan = replace(plan, clip=clip, smoothing=smoothing)
    if luck.chance(0.6):
        return plan
    adam = Optimiser(luck.one("adam", "adamw"), luck.one(0.9, 0.5), luck.one(0.999, 0.9), eps=0.01)
    return replace(plan, optimiser=adam, momentum=0.0, correction=None)  # a small eps would make steps of rounding


def random_case(seed: int, number: int) -> Case:
    luck = Luck(seed, number)
    rng = luck.rng
    kind = luck.one(*["usual"] * 20, *["ties"] * 3, "zero start", "high rate", "overflow", "not finite", "no samples")
    spec = random_spec(luck)
    plan = random_plan(luck, luck.between(0, 3) if kind == "high rate" else luck.between(-3, -0.5))
    if kind == "overflow":
        plan = replace(plan, lr=Schedule(luck.between(8, 38)))
    samples = 0 if kind == "no samples" else luck.one(1, plan.batch_size, luck.number(1, 3 * plan.batch_size + 1))
    seen = luck.one(0, 1, 2, 9, 64, 65) if luck.chance(0.3) else luck.number(1, 20)
    x = rng.standard_normal((samples + seen, *spec.shape)).astype(np.float32)
    start = with_statistics(initial(spec, luck.number(0, 2**31)), np.random.default_rng([seed, number, 5]))
    if kind == "ties":  # numbers with few digits: sums are exact, and equal ones frequent
        x, start = np.round(x), {name: np.asarray(np.round(8 * v) / 8, v.dtype) for name, v in start.items()}
    elif kind == "zero start":
        start = {name: np.zeros_like(value) for name, value in start.items()}
    elif kind == "not finite":
        broken = rng.random(x.shape) < luck.one(0.01, 1 / max(1, x[0].size))
        x[broken] = luck.one(np.nan, np.inf, -np.inf)
    plan = replace(plan, train=random_names(Luck(seed, number, 3), list(start)))
    plan = with_newer_fields(plan, Luck(seed, number, 4))
    if Luck(seed, number, 6).chance(0.2):
        plan = replace(plan, l1=L1Penalty(0.01, tuple(name for name in start if not name.endswith(STATISTICS))[::2]))
    shapes = {name: value.shape for name, value in start.items()}
    mask = {name: (rng.random(shape) < 0.7).astype(np.float32) for name, shape in shapes.items()}
    y = rng.integers(0, spec.classes, samples + seen)
    job = Job(
        spec,
        plan,
        start,
        x[:samples],
        y[:samples],
        np.random.default_rng([seed, number, 1]),
        anchors=tuple((some(luck, like(spec, rng, 0.3)), anchor.strength) for anchor in plan.anchors),
        correction=some(luck, like(spec, rng, 0.01)) if plan.correction else None,
        mask=some(luck, mask) if plan.mask else None,
        order=rng.permutation(samples) if plan.curriculum else None,
    )
    return Case(job, x[samples:], y[samples:], [kind, *features(job)])


def features(job: Job) -> list[str]:
    """What a case exercises, to be counted."""
    plan, samples = job.plan, len(job.y)
    kinds = {layer[0] for layer in job.spec.options["layers"]}
    present = {
        "momentum": plan.momentum,
        "weight decay": plan.weight_decay,
        "falling rate": plan.lr.decay,
        "anchors": plan.anchors,
        "correction": plan.correction,
        "mask": plan.mask,
        "curriculum": plan.curriculum,
        "meta-step": plan.meta_step,
        "snapshots": plan.snapshots,
        "frozen layers": plan.train,
        "Adam": plan.optimiser,
        "clipping": plan.clip,
        "label smoothing": plan.smoothing,
        "steps given": plan.steps is not None,
        "partial batch": samples % plan.batch_size,
        "batch larger than data": plan.batch_size > samples,
        "one sample": samples == 1,
        "convolution": "conv" in kinds,
        "norm": "norm" in kinds,
        "L1": plan.l1,
        "pooling": "pool" in kinds,
        "ReLU": "relu" in kinds,
        "linear only": not kinds,
    }
    return [name for name, value in present.items() if value]

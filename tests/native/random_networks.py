"""Random sequences of the layers that the compiled trainer knows, and random plans for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from coterie.messages import Anchor, Curriculum, MetaStep, ModelSpec, Optimiser, Params, Plan, Schedule
from coterie.messages.params import STATISTICS
from coterie.models import initial
from coterie.native import Network, available, stages
from coterie.streams import stream
from coterie.training import Job, Outcome
from coterie.training.job import Floats

NAME = "random-network"


def build(shape: tuple[int, ...], classes: int, *, layers: list[list[Any]]) -> Any:
    """Build what a list like [["conv", 6, 5, 0], ["relu"], ["pool", 2], ["linear", 10]] says, then a last linear."""
    from torch import nn

    modules: list[nn.Module] = []
    size = list(shape)
    for kind, *numbers in layers:
        if kind == "conv":
            outputs, kernel, padding = numbers
            modules.append(nn.Conv2d(size[0], outputs, kernel, padding=padding))
            size = [outputs, *(side + 2 * padding - kernel + 1 for side in size[1:])]
        elif kind == "relu":
            modules.append(nn.ReLU())
        elif kind == "norm":
            modules.append((nn.BatchNorm2d if len(size) == 3 else nn.BatchNorm1d)(size[0], *numbers))
        elif kind == "pool":
            modules.append(nn.MaxPool2d(numbers[0]))
            size = [size[0], *(side // numbers[0] for side in size[1:])]
        else:
            if len(size) > 1:
                modules.append(nn.Flatten())
            modules.append(nn.Linear(int(np.prod(size)), numbers[0]))
            size = [numbers[0]]
    if len(size) > 1:
        modules.append(nn.Flatten())
    return nn.Sequential(*modules, nn.Linear(int(np.prod(size)), classes))


@st.composite
def specs(draw: st.DrawFn) -> ModelSpec:
    """Networks on images or vectors."""
    layers: list[list[Any]] = []
    shape: list[int] = [draw(st.integers(1, 40))]
    if draw(st.booleans()):
        shape = [draw(st.integers(1, 4)), draw(st.integers(5, 13)), draw(st.integers(5, 13))]
        sides = shape[1:]
        for _ in range(draw(st.integers(0, 3))):
            kernel = draw(st.integers(1, 7))
            padding = draw(st.integers(0, kernel - 1))
            if min(sides) + 2 * padding < kernel:
                break
            layers.append(["conv", draw(st.integers(1, 19)), kernel, padding])
            sides = [side + 2 * padding - kernel + 1 for side in sides]
            layers += [["norm"]] if draw(st.integers(0, 3)) == 3 else []
            tail = draw(
                st.sampled_from([[], [["relu"]], [["pool", 2]], [["relu"], ["pool", 2]], [["pool", 3], ["relu"]]])
            )
            for layer in tail:
                if layer[0] == "pool" and min(sides) < layer[1]:
                    break
                layers.append(layer)
                sides = [side // layer[1] for side in sides] if layer[0] == "pool" else sides
    for _ in range(draw(st.integers(0, 2))):
        layers.append(
            ["linear", draw(st.integers(1, 30))]
        )  # norms of few values blow up rounding: test_native_norms.py
        layers += [["relu"]] if draw(st.booleans()) else []
    return ModelSpec(NAME, tuple(shape), draw(st.integers(2, 18)), {"layers": layers})


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans with any of the fields."""
    curriculum = draw(st.none() | st.builds(Curriculum, a=st.sampled_from([0.0, 0.5]), b=st.sampled_from([0.2, 1.0])))
    adam = st.builds(Optimiser, st.sampled_from(["adam", "adamw"]), eps=st.just(0.01))
    optimiser = draw(st.none() | adam)  # a large eps: what is rounding, a small one would make steps of
    return Plan(
        lr=draw(st.builds(Schedule, st.sampled_from([0.01, 0.05]), st.sampled_from([0.0, 0.1]))),
        epochs=draw(st.integers(1, 2)),
        steps=draw(st.none() | st.integers(0, 5)),
        batch_size=draw(st.integers(1, 12)),
        momentum=0.0 if optimiser else draw(st.sampled_from([0.0, 0.5, 0.9])),
        weight_decay=draw(st.sampled_from([0.0, 0.01])),
        anchors=tuple(Anchor("x", mu) for mu in draw(st.lists(st.sampled_from([0.1, 1.0]), max_size=2))),
        correction=None if optimiser else draw(st.sampled_from([None, "c"])),
        mask=draw(st.sampled_from([None, "m"])),
        curriculum=curriculum,
        meta_step=draw(st.sampled_from([None, MetaStep(0.02), MetaStep(0.02, shared_momentum=True)])),
        snapshots=draw(st.sampled_from([(), (1,), (1, 2)])),
        label_offset=draw(st.sampled_from([None, "prior"])),
        optimiser=optimiser,
        clip=draw(st.sampled_from([None, 0.1, 3.0])),
        smoothing=draw(st.sampled_from([None, 0.2])),
    )


def like(spec: ModelSpec, rng: np.random.Generator, scale: float) -> Params:
    return {k: (scale * rng.standard_normal(v.shape)).astype(np.float32) for k, v in initial(spec, 0).items()}


def some_names(spec: ModelSpec, seed: int) -> tuple[str, ...] | None:
    """What learns: everything, or some of the tensors, among them a parameter."""
    rng, names = np.random.default_rng([seed, 1]), [*initial(spec, 0)]
    if rng.random() < 0.5:
        return None
    chosen = rng.permutation(names)[: rng.integers(1, len(names) + 1)].tolist()
    return (*chosen, names[0]) if all(name.endswith(STATISTICS) for name in chosen) else tuple(chosen)


def drowned(spec: ModelSpec) -> set[str]:
    """Biases before a norm, which takes off what all samples have in common: their gradients may be rounding only."""
    names = [*initial(spec, 0)]
    last = max((place for place, name in enumerate(names) if name.endswith("running_mean")), default=1)
    return {name for name in names[: last - 1] if name.endswith("bias")}


def with_statistics(start: Params, rng: np.random.Generator) -> Params:
    """A model whose norms have scales, shifts and counts of some training behind them."""
    counted = [name.rpartition(".")[0] for name in start if name.endswith("running_mean")]
    drawn: dict[str, Any] = {}
    for norm in counted:
        size = len(start[f"{norm}.weight"])
        drawn[f"{norm}.weight"], drawn[f"{norm}.bias"] = rng.uniform(0.5, 1.5, size), rng.normal(0, 0.5, size)
        drawn[f"{norm}.running_mean"], drawn[f"{norm}.running_var"] = rng.normal(size=size), rng.uniform(0.3, 2, size)
        drawn[f"{norm}.num_batches_tracked"] = rng.integers(100)
    return {name: np.asarray(drawn.get(name, value), value.dtype) for name, value in start.items()}


def make_job(spec: ModelSpec, plan: Plan, seed: int, samples: int = 23) -> Job:
    """Fill a plan in with random arrays."""
    rng = np.random.default_rng(seed)
    mask = {k: (rng.random(v.shape) < 0.7).astype(np.float32) for k, v in initial(spec, 0).items() if v.ndim > 1}
    return Job(
        spec,
        plan,
        with_statistics(initial(spec, seed), rng),
        rng.standard_normal((samples, *spec.shape)).astype(np.float32),
        rng.integers(0, spec.classes, samples),
        stream(seed, "job"),
        anchors=tuple((like(spec, rng, 0.3), anchor.strength) for anchor in plan.anchors),
        correction=like(spec, rng, 0.01) if plan.correction else None,
        mask=mask if plan.mask else None,
        order=rng.permutation(samples) if plan.curriculum else None,
        label_offset=rng.normal(0, 3, spec.classes).astype(np.float32) if plan.label_offset else None,
    )


def again(job: Job) -> Job:
    """The same job with its random stream from the start."""
    copy = np.random.default_rng()
    copy.bit_generator.state = job.rng.bit_generator.state
    return replace(job, rng=copy)


def lanes_here() -> list[int]:
    """The instruction sets of this machine."""
    from torch import nn

    found = []
    for lanes in (4, 8, 16) if available() else ():
        try:
            Network(stages(nn.Sequential(nn.Linear(2, 2)), (2,)) or [], lanes)
        except RuntimeError:
            continue
        found.append(lanes)
    return found


class Forbidden:
    """Stands where PyTorch would: the networks of these tests must not get there."""

    name = "forbidden"

    def train(self, job: Job) -> Outcome:
        raise AssertionError(f"{job.spec} was not compiled")

    def logits(self, spec: ModelSpec, params: Params, x: object) -> Floats:
        raise AssertionError(f"{spec} was not compiled")

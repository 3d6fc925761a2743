"""The training of a fuzzer's case in double precision, to hold both trainers against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fuzz_cases import Luck
from random_networks import again, build
from torch import nn

from coterie.messages import ModelSpec, Plan
from coterie.messages.plan import steps_per_epoch
from coterie.training import Job
from coterie.training.batches import steps

LAST_DIGIT = 2.0**-23
Numbers = npt.NDArray[Any]


@dataclass
class Double:
    """A plan executed in double precision, step by step as `coterie.messages.plan` defines it."""

    params: dict[str, Numbers]
    snapshots: list[dict[str, Numbers]]
    loss: float
    diverged: int | None
    """The first step whose loss is not a number."""
    peaks: list[float]
    """The largest number at each step."""


def in_double(job: Job, luck: Luck | None = None) -> Double:
    """Train in double precision; with `luck`, from a start and inputs that are changed in a float's last digit."""
    plan, module = job.plan, double_module(job.spec)
    w = {name: in_digits(value, luck) for name, value in job.start.items()}
    x, y = in_digits(job.x, luck), torch.from_numpy(job.y)
    v = {name: torch.zeros_like(value) for name, value in w.items()}
    squares = {name: torch.zeros_like(value) for name, value in w.items()}
    mask = {name: torch.from_numpy(np.asarray(value, np.float64)) for name, value in (job.mask or {}).items()}
    parameters = [name for name, _ in module.named_parameters()]
    free = [name for name in w if plan.train is None or name.startswith(plan.train)]
    learns = [name for name in free if name in parameters]
    for name, layer in module.named_modules():  # what a norm counts, it counts in place, if all of it may change
        layer.train(all(f"{name}.{counted}" in free for counted, _ in layer.named_buffers(recurse=False)))
    loss, peak, losses = 0.0, 0.0, []
    found = Double({}, [], 0.0, None, [])

    def watch(*tensors: torch.Tensor) -> None:
        nonlocal peak
        peak = max(peak, largest(tensors))

    for layer in module:
        layer.register_forward_hook(lambda layer, inputs, output: watch(output))

    def gradient(w: dict[str, torch.Tensor], batch: Numbers) -> tuple[float, dict[str, torch.Tensor]]:
        leaves = {name: w[name].requires_grad_() for name in parameters}
        z = torch.func.functional_call(module, w, (x[batch],))
        loss = nn.functional.cross_entropy(z, y[batch], label_smoothing=plan.smoothing or 0.0)
        grads = torch.autograd.grad(loss, list(leaves.values()))
        for value in leaves.values():
            value.requires_grad_(False)
        watch(*grads)
        return loss.item(), dict(zip(leaves, grads, strict=True))

    def masked(w: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: value * mask[name] if name in mask and name in learns else value for name, value in w.items()}

    def note(w: dict[str, torch.Tensor]) -> dict[str, Numbers]:
        return {name: value.numpy().copy() for name, value in w.items()}

    w = masked(w)
    moments = {epoch * steps_per_epoch(len(y), plan) for epoch in plan.snapshots} if len(y) else set()
    for step, batches in enumerate(steps(len(y), plan, again(job).rng, job.order)):
        peak = 0.0
        loss, g = gradient(w, batches[0])
        if plan.meta_step is not None:
            if plan.meta_step.shared_momentum and plan.momentum:
                g = v = {name: plan.momentum * v[name] + g[name] for name in g}
            inner = masked(g)
            ahead = w | {name: w[name] - plan.meta_step.rate * inner[name] for name in learns}
            loss, g = gradient(ahead, batches[1])
        if not np.isfinite(loss):
            found.diverged = step
            break
        for name in learns:
            for anchor, strength in job.anchors:
                if name in anchor:
                    g[name] = g[name] + strength * (w[name] - torch.from_numpy(anchor[name].astype(np.float64)))
        if plan.clip is not None:
            seen = masked(g)
            norm = float(sum((seen[name] ** 2).sum() for name in learns)) ** 0.5
            g = {name: value * min(1.0, plan.clip / (norm + 1e-6)) for name, value in g.items()}
        for name in plan.l1.tensors if plan.l1 is not None else ():
            g[name] = g[name] + plan.l1.strength * w[name].sign()
        for name in learns:
            if plan.optimiser is None:
                v[name] = plan.momentum * v[name] + g[name] + plan.weight_decay * w[name]
                w[name] = w[name] - plan.lr.at(step) * v[name]
            else:
                adam(plan, step, w, g, v, squares, name)
            if job.correction and name in job.correction:
                w[name] = w[name] - plan.lr.at(step) * torch.from_numpy(job.correction[name].astype(np.float64))
        w = masked(w)
        losses.append(loss)
        watch(*w.values(), *v.values(), *squares.values())
        found.peaks.append(peak)
        if step + 1 in moments:
            found.snapshots.append(note(w))
    found.params, found.loss = note(w), float(np.mean(losses)) if losses else 0.0
    return found


def adam(
    plan: Plan,
    step: int,
    w: dict[str, torch.Tensor],
    g: dict[str, torch.Tensor],
    first: dict[str, torch.Tensor],
    second: dict[str, torch.Tensor],
    name: str,
) -> None:
    """A step of Adam, or AdamW, for one tensor (Kingma & Ba, Algorithm 1; Loshchilov & Hutter, Algorithm 2)."""
    options, rate = plan.optimiser, plan.lr.at(step)
    assert options is not None
    if options.name == "adamw":
        w[name] = w[name] * (1 - rate * plan.weight_decay)
        gradient = g[name]
    else:
        gradient = g[name] + plan.weight_decay * w[name]
    first[name] = options.beta1 * first[name] + (1 - options.beta1) * gradient
    second[name] = options.beta2 * second[name] + (1 - options.beta2) * gradient**2
    mean, square = first[name] / (1 - options.beta1 ** (step + 1)), second[name] / (1 - options.beta2 ** (step + 1))
    w[name] = w[name] - rate * mean / (square.sqrt() + options.eps)


def in_digits(value: Numbers, luck: Luck | None) -> torch.Tensor:
    """A value in double precision; with `luck`, changed in a float's last digit."""
    change = 0.0 if luck is None else LAST_DIGIT * luck.rng.uniform(-1, 1, value.shape)
    return torch.from_numpy(np.asarray(value.astype(np.float64) * (1 + change)))


def double_module(spec: ModelSpec) -> nn.Sequential:
    return build(spec.shape, spec.classes, **spec.options).double()


def largest(tensors: Sequence[torch.Tensor]) -> float:
    return max(float(t.detach().abs().max().nan_to_num(nan=float("inf"))) for t in tensors)

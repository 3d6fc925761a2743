"""Trainings that leave a client another model than the one that it sends: APFL's mixture, and pFedMe's inner loop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coterie.messages import Array, Params, ProximalSteps, usable
from coterie.messages.params import STATISTICS
from coterie.training.job import TOO_LARGE, Diverged, Job
from coterie.training.torch_device import StepLosses, read

if TYPE_CHECKING:
    import torch

    from coterie.training.torch_trainer import TorchNetwork


class OwnPart:
    """The part v of a client's own, trained on the batches of w so that α v + (1 − α) w fits them (APFL)."""

    def __init__(self, network: TorchNetwork, job: Job, offset: torch.Tensor | None) -> None:
        """`network` is another one than that in which w is trained."""
        if job.plan.mixture is None or job.own_part is None:
            raise TypeError("a job whose plan has no mixture has no part of the client's own")
        part, self.alpha = job.own_part
        self._network, self._plan, self._offset, self._steps = network, job.plan, offset, 0
        self._losses = StepLosses()
        self._adaptive = job.plan.mixture.adaptive
        network.load(part)
        self._v = network.vector.clone()
        self._velocity = self._v.clone().zero_() if job.plan.momentum else None
        network.load({**job.start, **mixed_statistics(part, job.start, self.alpha)})
        network.begin_training()

    def step(self, w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        """V ← v − η α ∇f(α v + (1 − α) w; b), with the plan's momentum and weight decay; `w` is as before its step.

        Where α adapts, the first batch moves it: α ← α − η ⟨∇f, v − w⟩, within [0, 1].
        """
        plan, place, alpha = self._plan, self._network.vector, self.alpha
        place.copy_(self._mixed(w))
        loss, gradient = self._network.gradient(x, y, self._offset, plan.smoothing or 0.0)
        self._losses.add(loss)
        if self._adaptive and self._steps == 0:
            slope = float(gradient.dot(self._v - w))
            self.alpha = min(max(alpha - rate * slope, 0.0), 1.0) if math.isfinite(slope) else alpha
        if plan.weight_decay:
            gradient.add_(place, alpha=plan.weight_decay)
        gradient.mul_(alpha)
        if self._velocity is not None:
            gradient = self._velocity.mul_(plan.momentum).add_(gradient)
        self._v.sub_(gradient, alpha=rate)
        self._steps += 1

    def kept(self, w: torch.Tensor) -> dict[str, Params]:
        """Return what the client keeps: the mixture, which it uses, and what the next training goes on with."""
        self._losses.read()
        model, part = (network_at(self._network, vector, self._steps) for vector in (self._mixed(w), self._v))
        return {"model": model, "part": part, "mixture": {"alpha": np.array(self.alpha, np.float64)}}

    def _mixed(self, w: torch.Tensor) -> torch.Tensor:
        return self._v * self.alpha + w * (1.0 - self.alpha)


def mixed_statistics(own: Params, received: Params, alpha: float) -> dict[str, Array]:
    """Return BatchNorm's statistics with which the mixture begins; those that are the same stay so to the last bit."""
    different = [
        name for name in received if name.endswith(STATISTICS) and not np.array_equal(own[name], received[name])
    ]
    return {name: np.asarray(alpha * own[name] + (1 - alpha) * received[name], np.float32) for name in different}


def approached(
    network: TorchNetwork,
    inner: ProximalSteps,
    x: torch.Tensor,
    y: torch.Tensor,
    offset: torch.Tensor | None,
    smoothing: float,
    gradient: torch.Tensor,
) -> torch.Tensor:
    """Return θ after K steps from w down f(θ; b) + λ/2 ‖θ − w‖² (pFedMe); `gradient` is that of f at w, which stays."""
    place = network.vector
    w = place.clone()
    for step in range(inner.steps):
        if step:
            gradient = network.gradient(x, y, offset, smoothing)[1].add_(place - w, alpha=inner.strength)
        place.sub_(gradient, alpha=inner.rate)
    theta = place.clone()
    place.copy_(w)
    return theta


def network_at(network: TorchNetwork, vector: torch.Tensor, steps: int) -> dict[str, Array]:
    """Return the model of a network whose parameters that learn are these; raise Diverged where they are not fit."""
    network.vector.copy_(vector)
    return checked(read(network.state), steps)


def checked(params: dict[str, Array], steps: int) -> dict[str, Array]:
    """Return a model that is fit to be kept; raise Diverged for another."""
    if not usable(params):
        raise Diverged(steps, "a parameter", TOO_LARGE)
    return params

"""The step of a plan (`coterie.messages.plan`) on flat vectors of PyTorch: what is done once the gradient is there.

Everything works on one vector, or on several stacked, (clients, parameters), each for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from coterie.messages import Optimiser, Plan

TINY = 1e-6
"""Added to norms, as by `torch.nn.utils.clip_grad_norm_`."""


class StepRule:
    """The arrays and the state of one local training: momentum or moments, which start from zero."""

    def __init__(
        self,
        plan: Plan,
        w: torch.Tensor,
        anchors: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
        correction: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        l1: torch.Tensor | None = None,
    ) -> None:
        """Anchors are models with their strengths, `l1` a strength, for each parameter of `w`."""
        self._plan, self._anchors, self._correction, self._mask, self._l1 = plan, anchors, correction, mask, l1
        self._velocity = torch.zeros_like(w) if plan.momentum else None
        self._adam = None if plan.optimiser is None else AdamMoments(plan.optimiser, w)
        self._decoupled = plan.optimiser is not None and plan.optimiser.name == "adamw"
        if mask is not None:
            w.mul_(mask)

    def inner(self, w: torch.Tensor, gradient: torch.Tensor) -> None:
        """Make the inner half-step of a meta-step."""
        if (inner := self._plan.meta_step) is None:
            raise ValueError("the plan has no meta-step")
        if inner.shared_momentum and self._velocity is not None:
            gradient = self._velocity.mul_(self._plan.momentum).add_(gradient)
        w.sub_(gradient if self._mask is None else gradient * self._mask, alpha=inner.rate)

    def step(self, w: torch.Tensor, gradient: torch.Tensor, step: int) -> None:
        """Make a step, counted from 0; both vectors change."""
        plan, rate = self._plan, self._plan.lr.at(step)
        for anchor, strength in self._anchors:
            gradient.addcmul_(w - anchor, strength)
        if plan.clip is not None:
            clip(gradient, plan.clip, self._mask)
        if plan.weight_decay and not self._decoupled:
            gradient.add_(w, alpha=plan.weight_decay)
        if self._l1 is not None:
            gradient.addcmul_(w.sign(), self._l1)
        if self._velocity is not None:
            gradient = self._velocity.mul_(plan.momentum).add_(gradient)
        elif self._adam is not None:
            gradient = self._adam.direction(gradient, step)
        if self._decoupled:
            w.mul_(1 - rate * plan.weight_decay)
        w.sub_(gradient, alpha=rate)
        if self._correction is not None:
            w.sub_(self._correction, alpha=rate)
        if self._mask is not None:
            w.mul_(self._mask)


class AdamMoments:
    """Running means of the gradient and of its square."""

    def __init__(self, options: Optimiser, like: torch.Tensor) -> None:
        self._options = options
        self._first, self._second = torch.zeros_like(like), torch.zeros_like(like)

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        """Return what is subtracted, at rate 1, at a step counted from 0."""
        beta1, beta2 = self._options.beta1, self._options.beta2
        self._first.mul_(beta1).add_(gradient, alpha=1 - beta1)
        self._second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = self._second.sqrt().div_((1 - beta2 ** (step + 1)) ** 0.5).add_(self._options.eps)
        return self._first.div(scale).div_(1 - beta1 ** (step + 1))


def clip(gradient: torch.Tensor, largest: float, mask: torch.Tensor | None = None) -> None:
    """Shorten a gradient to this norm, in place; what a mask hides counts nothing."""
    visible = gradient if mask is None else gradient * mask
    norm = torch.linalg.vector_norm(visible, dim=-1, keepdim=True)
    gradient.mul_((largest / (norm + TINY)).clamp_(max=1.0))

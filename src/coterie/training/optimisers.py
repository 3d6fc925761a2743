"""The step of a plan (`coterie.messages.plan`) on flat vectors of PyTorch: what is done once the gradient is there.

Everything works on one vector, or on several stacked, (clients, parameters), each for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from coterie.messages import Plan


class StepRule:
    """The arrays and the state of one local training: momentum, which starts from zero."""

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
        """Make step 0, 1, …; both vectors change."""
        plan, rate = self._plan, self._plan.lr.at(step)
        for anchor, strength in self._anchors:
            gradient.addcmul_(w - anchor, strength)
        if plan.weight_decay:
            gradient.add_(w, alpha=plan.weight_decay)
        if self._l1 is not None:
            gradient.addcmul_(w.sign(), self._l1)
        if self._velocity is not None:
            gradient = self._velocity.mul_(plan.momentum).add_(gradient)
        w.sub_(gradient, alpha=rate)
        if self._correction is not None:
            w.sub_(self._correction, alpha=rate)
        if self._mask is not None:
            w.mul_(self._mask)

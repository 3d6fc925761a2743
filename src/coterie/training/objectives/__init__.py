"""Losses by name: what local training makes smaller, ours and a user's own after ``@coterie.loss("name")``.

A loss is a function ``(outputs, labels) -> losses`` of PyTorch's tensors: of (samples, classes) and (samples,) it makes
(samples,), none of them negative. Training goes by their mean; clients that choose among models, curricula and reports
go by the same loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

USUAL = "cross-entropy"
"""The one that needs no name: that of the softmax of outputs, which label offsets and smoothing are for."""

LOSSES: Registry[Callable[..., Tensor]] = Registry("loss", "coterie.training.objectives", "coterie.losses")
loss = LOSSES.register


def sample_losses(name: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of each sample."""
    values = LOSSES[name](outputs, y)
    if values.shape != y.shape:
        raise CoterieError(
            f"loss '{name}' returned a tensor of shape {tuple(values.shape)} for {len(y)} samples: return one number "
            "for each"
        )
    return values

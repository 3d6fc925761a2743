"""Losses by name: what local training makes smaller, ours and a user's own after ``@coterie.loss("name")``.

A loss is a function ``(outputs, labels) -> losses`` of PyTorch's tensors: of (samples, classes) and (samples,) it makes
(samples,), none of them negative. Where numbers are predicted outputs are (samples, 1), and what should come out are
floats, both in deviations from the mean. Training goes by the mean of the losses; clients that choose among models,
curricula and reports go by the same loss.
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

OF_LABELS = (USUAL, "binary")
"""Those of ours that are of labels only, and not of numbers to predict."""

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

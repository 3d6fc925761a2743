"""Losses of outputs, one for each label; and the squared error, which is of numbers too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.training.objectives import loss

if TYPE_CHECKING:
    from torch import Tensor


@loss("cross-entropy")
def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Minus the logarithm of the right label's softmax."""
    from torch.nn import functional

    return functional.cross_entropy(outputs, y, reduction="none")


@loss("binary")
def binary(outputs: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of a yes or no for each label, mean over labels."""
    from torch.nn import functional

    wanted = functional.one_hot(y, outputs.shape[1]).to(outputs.dtype)
    return functional.binary_cross_entropy_with_logits(outputs, wanted, reduction="none").mean(dim=1)


@loss("mse")
def squares(outputs: Tensor, y: Tensor) -> Tensor:
    """Squared error of a number; of outputs that should be 1 for the right label and 0 for others, mean over labels."""
    from torch.nn import functional

    if y.is_floating_point():
        return (outputs[:, 0] - y).square()
    wanted = functional.one_hot(y, outputs.shape[1]).to(outputs.dtype)
    return (outputs - wanted).square().mean(dim=1)

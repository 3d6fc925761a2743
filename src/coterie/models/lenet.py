"""LeNet-5 as the papers of the field use it, plain and with batch normalisation."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from coterie.models import image_shape, model
from coterie.models.cnn import stages

if TYPE_CHECKING:
    from torch import nn

SMALLEST = 16
"""Side of the smallest image that two 5×5 convolutions with pooling leave something of."""


@model("lenet5")
def lenet5(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions and three linear layers, for images; those below 16×16 are enlarged first."""
    return _lenet(shape, classes, batch_norm=False)


@model("lenet5-bn")
def lenet5_bn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """LeNet-5 with batch normalisation after each convolution."""
    return _lenet(shape, classes, batch_norm=True)


def _lenet(shape: tuple[int, ...], classes: int, batch_norm: bool) -> nn.Module:
    from torch import nn

    channels, height, width = image_shape(shape, "lenet5")
    enlarge = -(-SMALLEST // min(height, width))
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if enlarge > 1:
        layers["enlarge"] = nn.Upsample(scale_factor=enlarge)
    layers |= stages((channels, 6, 16), batch_norm)
    rest = [((side * enlarge - 4) // 2 - 4) // 2 for side in (height, width)]
    layers |= OrderedDict(
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * rest[0] * rest[1], 120), relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84), relu4=nn.ReLU(),
        fc3=nn.Linear(84, classes),
    )  # fmt: skip
    return nn.Sequential(layers)

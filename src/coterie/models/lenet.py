"""LeNet-5 as the papers of the field use it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.models import model

if TYPE_CHECKING:
    from torch import nn

SMALLEST = 16
"""Side of the smallest image that two 5×5 convolutions with pooling leave something of."""


@model("lenet5")
def lenet5(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions and three linear layers, for images; those below 16×16 are enlarged first."""
    from torch import nn

    if len(shape) != 3:
        raise CoterieError(f"model 'lenet5' needs images, got inputs of shape {shape}: use 'mlp' or 'mclr'")
    channels, height, width = shape
    enlarge = -(-SMALLEST // min(height, width))
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if enlarge > 1:
        layers["enlarge"] = nn.Upsample(scale_factor=enlarge)
    rest = [((side * enlarge - 4) // 2 - 4) // 2 for side in (height, width)]
    layers |= OrderedDict(
        conv1=nn.Conv2d(channels, 6, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * rest[0] * rest[1], 120), relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84), relu4=nn.ReLU(),
        fc3=nn.Linear(84, classes),
    )  # fmt: skip
    return nn.Sequential(layers)

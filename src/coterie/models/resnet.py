"""ResNet-9 with group normalisation, for the larger image sets."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError
from coterie.models import image_shape, model

if TYPE_CHECKING:
    from torch import nn


@model("resnet9")
def resnet9(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Eight 3×3 convolutions with group normalisation, two residual blocks, for images from 32×32."""
    from torch import nn

    channels, height, width = image_shape(shape, "resnet9")
    if min(height, width) < 32:
        raise CoterieError(f"model 'resnet9' needs images of at least 32×32, got {height}×{width}: use 'lenet5'")

    class Residual(nn.Module):
        """Adds what two blocks make of an input to that input."""

        def __init__(self, channels: int) -> None:
            super().__init__()
            self.blocks = nn.Sequential(block(channels, channels), block(channels, channels))

        def forward(self, x: Any) -> Any:
            return x + self.blocks(x)

    def block(inputs: int, outputs: int, pool: bool = False) -> nn.Module:
        layers = OrderedDict(
            conv=nn.Conv2d(inputs, outputs, 3, padding=1), norm=nn.GroupNorm(32, outputs), relu=nn.ReLU()
        )
        return nn.Sequential(layers | (OrderedDict(pool=nn.MaxPool2d(2)) if pool else OrderedDict()))

    rest = (height // 32) * (width // 32)
    return nn.Sequential(
        OrderedDict(
            block1=block(channels, 64),
            block2=block(64, 128, pool=True),
            residual1=Residual(128),
            block3=block(128, 256, pool=True),
            block4=block(256, 512, pool=True),
            residual2=Residual(512),
            pool=nn.MaxPool2d(4),
            flatten=nn.Flatten(),
            fc=nn.Linear(512 * rest, classes),
        )
    )

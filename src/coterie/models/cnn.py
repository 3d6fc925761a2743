"""Convolutional networks: LeNet-5 and Sub-FedAvg's for MNIST, plain and with batch normalisation; ResNet-9."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError
from coterie.models import image_shape, model

if TYPE_CHECKING:
    from torch import nn

SMALLEST = 16
"""Side of the smallest image that two 5×5 convolutions with pooling leave something of."""


@model("cnn")
def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions of 10 and 20 channels and two linear layers, for images from 16×16."""
    return _cnn(shape, classes, batch_norm=False)


@model("cnn-bn")
def cnn_bn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The same with batch normalisation after each convolution."""
    return _cnn(shape, classes, batch_norm=True)


def stages(channels: tuple[int, ...], batch_norm: bool) -> OrderedDict[str, nn.Module]:
    """Return 5×5 convolutions from each number of channels to the next, with ReLU and 2×2 pooling."""
    from torch import nn

    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (inputs, outputs) in enumerate(pairwise(channels), start=1):
        layers[f"conv{number}"] = nn.Conv2d(inputs, outputs, 5)
        if batch_norm:
            layers[f"bn{number}"] = nn.BatchNorm2d(outputs)
        layers[f"relu{number}"] = nn.ReLU()
        layers[f"pool{number}"] = nn.MaxPool2d(2)
    return layers


def _cnn(shape: tuple[int, ...], classes: int, batch_norm: bool) -> nn.Module:
    from torch import nn

    channels, height, width = image_shape(shape, "cnn")
    rest = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    if min(rest) < 1:
        raise CoterieError(f"model 'cnn' needs images of at least 16×16, got {height}×{width}: use 'lenet5' or 'mlp'")
    return nn.Sequential(
        stages((channels, 10, 20), batch_norm)
        | OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(20 * rest[0] * rest[1], 50), relu3=nn.ReLU(),
            fc2=nn.Linear(50, classes),
        )
    )  # fmt: skip


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

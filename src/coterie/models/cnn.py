"""The small convolutional network of Sub-FedAvg's MNIST experiments."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.models import image_shape, model

if TYPE_CHECKING:
    from torch import nn


@model("cnn")
def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions of 10 and 20 channels and two linear layers, for images from 16×16."""
    from torch import nn

    channels, height, width = image_shape(shape, "cnn")
    rest = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    if min(rest) < 1:
        raise CoterieError(f"model 'cnn' needs images of at least 16×16, got {height}×{width}: use 'lenet5' or 'mlp'")
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 10, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(10, 20, 5), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(20 * rest[0] * rest[1], 50), relu3=nn.ReLU(),
            fc2=nn.Linear(50, classes),
        )
    )  # fmt: skip

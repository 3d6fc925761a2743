"""Networks that the compiled trainer runs: a sequence of stages, read off a PyTorch module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

LARGEST_KERNEL = 7
LARGEST_POOL = 15


@dataclass
class Stage:
    """A convolution or a linear layer, then perhaps ReLU, then perhaps max-pooling; as in ``network.h``."""

    conv: bool
    channels: int
    height: int
    width: int
    outputs: int
    kernel: int = 1
    padding: int = 0
    relu: bool = False
    pool: int = 1
    flat_channels: int = 1
    flat_positions: int = 1

    @property
    def positions(self) -> int:
        """Places that the kernel visits, before pooling."""
        around = 2 * self.padding - self.kernel + 1
        return (self.height + around) * (self.width + around)


def stages(module: nn.Module, shape: tuple[int, ...]) -> list[Stage] | None:
    """Return a network as stages, or None if it is not such a sequence."""
    from torch import nn

    if type(module) is not nn.Sequential:
        return None
    walk = _Walk(shape)
    if not all(walk.takes(layer) for layer in module):
        return None
    last = walk.stages[-1] if walk.stages else None
    return None if last is None or last.conv or last.relu else walk.stages


class _Walk:
    """A walk through the layers: the stages so far, and the shape of what enters the next layer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.stages: list[Stage] = []
        self.flat = len(shape) != 3
        self.channels, self.height, self.width = (int(np.prod(shape)), 1, 1) if self.flat else shape

    def takes(self, layer: nn.Module) -> bool:
        """Go through one layer; say whether the compiled trainer has it."""
        from torch import nn

        if type(layer) is nn.Conv2d:
            return not self.flat and self._convolution(layer)
        if type(layer) is nn.Linear:
            return self.flat and self._linear(layer)
        if type(layer) is nn.MaxPool2d:
            return not self.flat and self._pool(layer)
        if type(layer) is nn.ReLU and self.stages:
            self.stages[-1].relu = True  # before or behind max-pooling is the same
            return True
        if type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
            self.flat = True
            return True
        return False

    def _convolution(self, layer: nn.Conv2d) -> bool:
        kernel, padding = layer.kernel_size[0], layer.padding
        plain = (layer.stride, layer.dilation, layer.groups, layer.padding_mode) == ((1, 1), (1, 1), 1, "zeros")
        if not plain or layer.bias is None or layer.kernel_size != (kernel, kernel):
            return False
        if isinstance(padding, str) or len({*padding}) != 1 or kernel > LARGEST_KERNEL or padding[0] >= kernel:
            return False
        around = 2 * int(padding[0]) - kernel + 1
        if min(self.height, self.width) + around < 1:
            return False
        outputs = layer.out_channels
        self.stages.append(Stage(True, self.channels, self.height, self.width, outputs, kernel, int(padding[0])))
        self.channels, self.height, self.width = outputs, self.height + around, self.width + around
        return True

    def _linear(self, layer: nn.Linear) -> bool:
        positions = self.height * self.width
        inputs = self.channels * positions
        if layer.bias is None or layer.in_features != inputs:  # applied along the last of several dimensions
            return False
        outputs = layer.out_features
        self.stages.append(Stage(False, inputs, 1, 1, outputs, flat_channels=self.channels, flat_positions=positions))
        self.channels, self.height, self.width = outputs, 1, 1
        return True

    def _pool(self, layer: nn.MaxPool2d) -> bool:
        if not self.stages or not self.stages[-1].conv or self.stages[-1].pool != 1:
            return False
        size = layer.kernel_size
        plain = (layer.stride, layer.padding, layer.dilation, layer.ceil_mode) == (size, 0, 1, False)
        if not plain or not isinstance(size, int) or not 1 <= size <= min(LARGEST_POOL, self.height, self.width):
            return False
        self.stages[-1].pool, self.height, self.width = size, self.height // size, self.width // size
        return True

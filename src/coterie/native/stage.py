"""Networks that the compiled trainer runs: a sequence of stages, read off a PyTorch module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

LARGEST_KERNEL = 7
LARGEST_POOL = 15
LARGEST = 2**28
"""Numbers that a network may have, and a stage for one sample: what the library counts in 32 bits stays far below."""
WIDEST = 16
"""Lanes to which the library may pad outputs."""


@dataclass
class Stage:
    """A convolution or a linear layer, then perhaps batch normalisation, ReLU, max-pooling; as in ``network.h``."""

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
    norm: bool = False
    momentum: float = 0.1
    """Of the running statistics of a norm."""
    eps: float = 1e-5

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if isinstance(number, np.integer | np.bool_ | np.floating):  # whose products would overflow
                setattr(self, name, number.item())
        if not self.conv and self.flat_channels == self.flat_positions == 1:
            self.flat_channels = self.channels  # inputs that were never an image

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the output, before pooling."""
        around = 2 * self.padding - self.kernel + 1
        return self.height + around, self.width + around

    @property
    def positions(self) -> int:
        """Places that the kernel visits, before pooling."""
        height, width = self.sides
        return height * width

    @property
    def parameters(self) -> int:
        """Weights and biases; of a norm scales, shifts, running means and variances."""
        return self.rows * self.outputs

    @property
    def rows(self) -> int:
        """Numbers for each output."""
        return self.channels * self.kernel**2 + 1 + (4 if self.norm else 0)

    @property
    def flags(self) -> int:
        """Of what can learn: weights, biases; of a norm scales, shifts, and what it counts of batches."""
        return 5 if self.norm else 2


def stages(module: nn.Module, shape: tuple[int, ...]) -> list[Stage] | None:
    """Return a network as stages, or None if it is not such a sequence."""
    from torch import nn

    if type(module) is not nn.Sequential:
        return None
    if len([*module.parameters()]) < len([*module.named_parameters(remove_duplicate=False)]):  # some are shared
        return None
    walk = _Walk(shape)
    if not all(walk.takes(layer) for layer in module):
        return None
    return None if error_in(walk.stages) else walk.stages


def error_in(plan: Sequence[Stage]) -> str | None:
    """Say why stages are no network that the library runs; what passes here is trusted there.

    >>> error_in([Stage(True, 1, 8, 8, 4, 3), Stage(False, 144, 1, 1, 10, flat_channels=4, flat_positions=36)])
    >>> error_in([Stage(False, 6, 1, 1, 4), Stage(False, 5, 1, 1, 3)])
    'stage 1 takes 5 inputs, the one before it gives 4'
    """
    for number, stage in enumerate(plan):
        if error := _error_in_stage(stage):
            return f"stage {number}: {error}"
    for number, (before, stage) in enumerate(pairwise(plan), 1):
        if error := _error_between(before, stage):
            return f"stage {number} {error}"
    if not plan or plan[-1].conv or plan[-1].relu or plan[-1].norm:
        return "a network ends in a linear layer without ReLU and norm"
    if sum(_padded(stage) * stage.rows for stage in plan) > LARGEST:
        return f"it has more than {LARGEST} parameters"
    return None


def _error_in_stage(stage: Stage) -> str | None:
    *whole, momentum, eps = astuple(stage)
    if not all(isinstance(number, int) for number in whole) or not {stage.conv, stage.relu, stage.norm} <= {0, 1}:
        return "its sizes must be whole numbers, conv, relu and norm True or False"
    if not all(isinstance(number, int | float) and abs(number) <= LARGEST for number in (momentum, eps)) or eps < 0:
        return f"the momentum and eps of a norm are numbers up to {LARGEST}, eps not negative"
    sizes = (stage.channels, stage.height, stage.width, stage.outputs, stage.kernel, stage.pool)
    if min(*sizes, stage.flat_channels, stage.flat_positions) < 1 or stage.padding < 0:
        return "its sizes must be 1 or more"
    if stage.conv:
        if stage.flat_channels * stage.flat_positions != 1:
            return "a convolution takes no flat channels"
        if stage.kernel > LARGEST_KERNEL or stage.padding >= stage.kernel:
            return f"a kernel has up to {LARGEST_KERNEL} places, its padding fewer than it"
        if min(stage.sides) < 1 or stage.pool > min(LARGEST_POOL, *stage.sides):
            return f"kernel and pooling must fit into the image, pooling up to {LARGEST_POOL}"
    elif (stage.height, stage.width, stage.kernel, stage.padding, stage.pool) != (1, 1, 1, 0, 1):
        return "a linear layer has no height, width, kernel, padding or pooling"
    elif stage.flat_channels * stage.flat_positions != stage.channels:
        return f"{stage.flat_channels} channels of {stage.flat_positions} places are not {stage.channels} inputs"
    border = 2 * stage.padding
    given = stage.channels * (stage.height + border) * (stage.width + border)
    if max(given, stage.positions * _padded(stage), stage.channels * stage.kernel**2 * _padded(stage)) > LARGEST:
        return f"it is larger than {LARGEST} numbers"
    return None


def _error_between(before: Stage, stage: Stage) -> str | None:
    """Say why a stage can't follow another."""
    height, width = (side // before.pool for side in before.sides)
    if stage.conv:
        fits = before.conv and (stage.channels, stage.height, stage.width) == (before.outputs, height, width)
        return None if fits else "is a convolution of another image than the one before it gives"
    given = before.outputs * height * width
    if stage.channels != given:
        return f"takes {stage.channels} inputs, the one before it gives {given}"
    flat = stage.flat_channels == before.outputs or not before.conv
    return None if flat else f"takes {stage.flat_channels} channels, the one before it gives {before.outputs}"


def _padded(stage: Stage) -> int:
    return -(-stage.outputs // WIDEST) * WIDEST


class _Walk:
    """A walk through the layers: the stages so far, and the shape of what enters the next layer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.stages: list[Stage] = []
        self.flat = len(shape) != 3
        self.bare = False
        """Whether a convolution or a linear layer was just gone through."""
        self.channels, self.height, self.width = (int(np.prod(shape)), 1, 1) if self.flat else shape

    def takes(self, layer: nn.Module) -> bool:
        """Go through one layer; say whether the compiled trainer has it."""
        from torch import nn

        bare, self.bare = self.bare, type(layer) in (nn.Conv2d, nn.Linear)
        if type(layer) is nn.Conv2d:
            return not self.flat and self._convolution(layer)
        if type(layer) is nn.Linear:
            return self.flat and self._linear(layer)
        if type(layer) is (nn.BatchNorm1d if self.flat else nn.BatchNorm2d):
            return bare and self._norm(layer)
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

    def _norm(self, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> bool:
        stage, momentum = self.stages[-1], layer.momentum
        if not layer.affine or not layer.track_running_stats or momentum is None or layer.num_features != stage.outputs:
            return False
        stage.norm, stage.momentum, stage.eps = True, float(momentum), float(layer.eps)
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

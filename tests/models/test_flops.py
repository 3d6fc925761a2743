"""What networks cost: against closed forms, and the reductions that Sub-FedAvg names."""

from __future__ import annotations

from functools import partial
from unittest import mock

import numpy as np
import pytest
from torch import nn

from coterie.messages import ModelSpec
from coterie.models import MODELS, initial, parameters
from coterie.models.flops import Size, size

LENET, LENET_BN = (ModelSpec(name, (3, 32, 32), 10) for name in ("lenet5", "lenet5-bn"))


def test_lenet_has_592_800_multiply_adds() -> None:
    """6·3·25 weights at 28·28 places, 16·6·25 at 10·10 (ALGORITHMS 7.2)."""
    assert size(LENET) == Size(62_006 - 6 - 16 - 120 - 84 - 10, 62_006, 6 * 3 * 25 * 28**2 + 16 * 6 * 25 * 10**2)
    assert size(LENET).multiply_adds == size(LENET_BN).multiply_adds == 592_800


@pytest.mark.parametrize(
    ("name", "shape", "multiply_adds"),
    [
        ("lenet5", (1, 28, 28), 6 * 25 * 24**2 + 16 * 6 * 25 * 8**2),
        ("cnn", (1, 28, 28), 10 * 25 * 24**2 + 20 * 10 * 25 * 8**2),
        ("lenet5", (1, 8, 8), 6 * 25 * 12**2 + 16 * 6 * 25 * 2**2),  # enlarged to 16×16
        ("mlp", (1, 8, 8), 0),
        ("lstm", (25, 300), 0),
    ],
)
def test_others(name: str, shape: tuple[int, ...], multiply_adds: int) -> None:
    spec = ModelSpec(name, shape, 10)
    found = size(spec)
    assert (found.parameters, found.multiply_adds) == (parameters(spec), multiply_adds)
    assert found.weights == sum(value.size for value in initial(spec, 0).values() if value.ndim > 1)


def test_a_name_that_comes_to_stand_for_another_network_is_measured_anew() -> None:
    spec = ModelSpec("grows", (4,), 3)
    for width, parameters_ in ((2, 5 * 2 + 3 * 3), (8, 5 * 8 + 9 * 3)):
        with mock.patch.dict(MODELS._items, grows=partial(_two_layers, width)):
            assert size(spec).parameters == parameters_


def _two_layers(width: int, shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(*shape, width), nn.Linear(width, classes))


def test_resnet() -> None:
    """Eight 3×3 convolutions, on 32×32 places at first, which poolings halve three times."""
    channels = [(3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512)]
    places = [32, 32, 16, 16, 16, 8, 4, 4]
    expected = sum(9 * a * b * side**2 for side, (a, b) in zip(places, channels, strict=True))
    assert size(ModelSpec("resnet9", (3, 32, 32), 100)).multiply_adds == expected


def channels_left(first: int, second: int) -> dict[str, np.ndarray]:
    """The mask of a LeNet-5 of which so many channels are left."""
    a, b = np.arange(6) < first, np.arange(16) < second
    conv1, conv2 = np.ones((6, 3, 5, 5), bool), np.ones((16, 6, 5, 5), bool)
    conv1 &= a[:, None, None, None]
    conv2 &= b[:, None, None, None] & a[:, None, None]
    fc1 = np.broadcast_to(np.repeat(b, 25), (120, 400))
    norms = {f"bn{k}.{part}": kept for k, kept in ((1, a), (2, b)) for part in ("weight", "bias", "running_mean")}
    return {"conv1.weight": conv1, "conv1.bias": a, "conv2.weight": conv2, "conv2.bias": b, "fc1.weight": fc1, **norms}


@pytest.mark.parametrize(("first", "second", "reduction"), [(3, 8, 2.51), (3, 9, 2.43), (6, 16, 1.0)])
def test_reductions_by_channels(first: int, second: int, reduction: float) -> None:
    left = size(LENET_BN, channels_left(first, second))
    assert round(592_800 / left.multiply_adds, 2) == reduction
    assert left.multiply_adds == first * 3 * 25 * 784 + second * first * 25 * 100


def test_what_is_left_of_the_parameters() -> None:
    """As many as the smaller network has; statistics are no parameters."""
    left = size(LENET_BN, channels_left(3, 8))
    small = (3 * 75 + 3) + (8 * 75 + 8) + 2 * (3 + 8) + (200 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
    assert left.parameters == small
    assert left.weights == 3 * 75 + 8 * 75 + 200 * 120 + 120 * 84 + 84 * 10


def test_kernels_with_holes_cost_as_whole_ones() -> None:
    mask = np.zeros((16, 6, 5, 5), bool)
    mask[:, :, 2, 2] = True
    mask[3, 4] = False
    left = size(LENET, {"conv2.weight": mask})
    assert left.multiply_adds == 592_800 - 25 * 100
    assert left.parameters == 62_006 - 2400 + 95

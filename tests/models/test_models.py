"""Networks: sizes, seeds, shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.models import build, default_model, initial, parameters


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "count"),
    [
        ("lenet5", (3, 32, 32), 10, {}, 62_006),  # ALGORITHMS 0.3
        ("lenet5", (1, 28, 28), 10, {}, 44_426),
        ("lenet5", (3, 32, 32), 40, {}, 64_556),
        ("lenet5", (3, 32, 32), 100, {}, 69_656),
        ("lenet5-bn", (3, 32, 32), 10, {}, 62_006 + 2 * (6 + 16)),
        ("cnn-bn", (1, 28, 28), 10, {}, 21_840 + 2 * (10 + 20)),
        ("resnet9", (3, 32, 32), 100, {}, 6_621_540),
        ("cnn", (1, 28, 28), 10, {}, 21_840),
        ("lstm", (25, 300), 2, {}, 243_861),
        ("mclr", (1, 28, 28), 10, {}, 7_850),
        ("mclr", (1, 28, 28), 26, {}, 20_410),
        ("mclr", (60,), 10, {}, 610),
        ("mlp", (1, 28, 28), 10, {}, 101_770),
        ("mlp", (1, 28, 28), 26, {"hidden": 512}, 415_258),
    ],
)
def test_parameter_counts(name: str, shape: tuple[int, ...], classes: int, options: dict, count: int) -> None:
    assert parameters(ModelSpec(name, shape, classes, options)) == count


@pytest.mark.parametrize("side", [(8, 8), (3, 5), (15, 40), (16, 16), (17, 16), (28, 28), (32, 20), (96, 96)])
def test_lenet_takes_images_of_any_size(side: tuple[int, int]) -> None:
    network = build(ModelSpec("lenet5", (1, *side), 7))
    assert network(torch.zeros(2, 1, *side)).shape == (2, 7)


def test_lenet_wants_images() -> None:
    with pytest.raises(CoterieError, match="needs images"):
        build(ModelSpec("lenet5", (60,), 10))


def test_the_start_depends_on_the_seed_only() -> None:
    spec = ModelSpec("lenet5", (1, 28, 28), 10)
    torch.manual_seed(5)
    first = initial(spec, 3)
    torch.manual_seed(6)
    state = torch.random.get_rng_state()
    again = initial(ModelSpec("lenet5", (1, 28, 28), 10), 3)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(np.array_equal(first[name], again[name]) for name in first)
    for other in (initial(spec, 4), initial(spec, 3, which=1)):
        assert not np.array_equal(first["fc1.weight"], other["fc1.weight"])
    with pytest.raises(ValueError, match="read-only"):
        first["fc1.weight"][0] = 1


def test_the_default_follows_the_data() -> None:
    assert default_model((1, 28, 28)) == "lenet5"
    assert default_model((1, 8, 8)) == default_model((60,)) == "mlp"

"""Networks made smaller: fewer parameters, the same outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.models import build
from coterie.models.compact import architecture, compact, from_architecture, sizes

SHAPES = {"lenet5": (3, 32, 32), "lenet5-bn": (3, 32, 32), "cnn": (1, 28, 28), "cnn-bn": (1, 28, 28), "mlp": (1, 8, 8)}


def pruned(name: str, share: float, seed: int = 0) -> tuple[nn.Sequential, torch.Tensor]:
    """A network with whole units set to 0, at random, but for its last layer; and inputs."""
    network = build(ModelSpec(name, SHAPES[name], 10), seed).eval()
    assert isinstance(network, nn.Sequential)
    torch.manual_seed(seed)
    weighted = [layer for layer in network if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for layer in network:
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
                layer.bias.normal_()
        for layer in weighted[:-1]:
            layer.weight[torch.rand(len(layer.weight)) < share] = 0
    return network, torch.randn(7, *SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_the_same_outputs(name: str, share: float) -> None:
    network, x = pruned(name, share)
    smaller = compact(network)
    with torch.inference_mode():
        assert smaller(x).numpy() == pytest.approx(network(x).numpy(), abs=1e-5)
    before, after = (sum(p.numel() for p in n.parameters()) for n in (network, smaller))
    assert after == before if share == 0 else after < before


def test_units_that_lead_nowhere_are_taken_out() -> None:
    network, x = pruned("mlp", 0.0)
    with torch.no_grad():
        network.fc2.weight[:, 5:] = 0
    smaller = compact(network)
    assert sizes(smaller) == "5 10"
    with torch.inference_mode():
        assert smaller(x).numpy() == pytest.approx(network(x).numpy(), abs=1e-6)


def test_a_dead_channel_takes_its_columns_of_the_next_linear_layer_along() -> None:
    """25 columns of a channel on 3×32×32."""
    network, _ = pruned("lenet5", 0.0)
    with torch.no_grad():
        network.conv2.weight[[1, 4]] = 0
    smaller = compact(network)
    assert sizes(smaller) == "6 14 120 84 10"
    assert smaller.fc1.weight.shape == (120, 14 * 25)


def test_a_channel_whose_scale_is_zero_is_dead() -> None:
    network, x = pruned("lenet5-bn", 0.0)
    with torch.no_grad():
        network.bn1.weight[[0, 2, 3]] = 0
        network.bn2.weight[:9] = 0
    smaller = compact(network)
    assert sizes(smaller) == "3 7 120 84 10"
    with torch.inference_mode():
        assert smaller(x).numpy() == pytest.approx(network(x).numpy(), abs=1e-5)


def test_a_layer_keeps_a_unit_even_if_all_are_dead() -> None:
    network, x = pruned("mlp", 1.0)
    smaller = compact(network)
    assert sizes(smaller) == "1 10"
    with torch.inference_mode():
        assert smaller(x).numpy() == pytest.approx(network(x).numpy(), abs=1e-6)


def test_a_constant_is_none_at_a_padded_border() -> None:
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1), nn.Flatten()).eval()
    with torch.no_grad():
        network[0].weight[:2] = 0
        network[0].bias[:2] = torch.tensor([1.0, -1.0])
    x = torch.randn(3, 1, 8, 8)
    smaller = compact(network)
    assert sizes(smaller) == "3 2", "the channel that says 1 stays, the one that says 0 goes"
    with torch.inference_mode():
        assert smaller(x).numpy() == pytest.approx(network(x).numpy(), abs=1e-6)


def test_other_networks_are_refused() -> None:
    with pytest.raises(CoterieError, match="leave out --compact"):
        compact(build(ModelSpec("resnet9", (3, 32, 32), 10)))


@pytest.mark.parametrize("name", SHAPES)
def test_an_architecture_makes_the_network_again(name: str) -> None:
    network, x = pruned(name, 0.6)
    smaller = compact(network)
    again = from_architecture(architecture(smaller)).eval()
    again.load_state_dict(smaller.state_dict())
    with torch.inference_mode():
        assert np.array_equal(again(x).numpy(), smaller(x).numpy())


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm2d(6, eps=0.1),
        nn.BatchNorm2d(6, affine=False),
        nn.BatchNorm2d(6, track_running_stats=False),
        nn.Conv2d(6, 6, 3, dilation=2),
        nn.Conv2d(6, 6, 3, groups=2),
        nn.Conv2d(6, 6, 3, padding="same"),
        nn.Conv2d(6, 6, 3, bias=False),
        nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect"),
        nn.MaxPool2d(3, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(scale_factor=1.5),
        nn.Flatten(2),
    ],
    ids=str,
)
def test_a_layer_that_could_not_be_made_again_is_refused(layer: nn.Module) -> None:
    network = nn.Sequential(nn.Conv2d(3, 6, 3), layer, nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
    with pytest.raises(CoterieError, match=r"settings that a smaller network would lose.*leave out --compact"):
        compact(network)


def test_working_in_place_is_no_such_setting() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 2))
    x = torch.randn(5, 4)
    assert torch.allclose(compact(network)(x), network(x), atol=1e-6)

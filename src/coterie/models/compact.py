"""A truly smaller network with the same outputs: units that are dead are taken out.

It is for sequences of convolutions, linear layers, batch normalisation, ReLU, max-pooling and flattening, such as
`lenet5`, `cnn` (both also with batch normalisation) and `mlp`, after pruning has set many weights to 0.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError

if TYPE_CHECKING:
    import torch
    from torch import nn


SETTINGS = {
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding"),
    "Linear": ("in_features", "out_features"),
    "BatchNorm2d": ("num_features",),
    "MaxPool2d": ("kernel_size", "stride"),
    "Upsample": ("scale_factor",),
    "ReLU": (),
    "Flatten": (),
}
"""The layers that can be made smaller, and what describes each."""
PAIRS = ("kernel_size", "stride", "padding")
"""Settings of two numbers, vertical and horizontal."""


def compact(network: nn.Module) -> nn.Sequential:
    """Return a copy without the channels and units that never change what comes out.

    A unit is dead if nothing leads from it; or if nothing leads to it, so that it always says the same: what that adds
    to the next layer goes into the biases there.
    """
    import copy

    from torch import nn

    supported = tuple(getattr(nn, kind) for kind in SETTINGS)
    if not isinstance(network, nn.Sequential) or not all(isinstance(layer, supported) for layer in network):
        raise CoterieError(
            "only sequences of convolutions, linear layers, batch normalisation, ReLU and max-pooling can be made "
            "smaller (lenet5, lenet5-bn, cnn, cnn-bn, mlp): leave out --compact"
        )
    if layer := _unusual(network):
        raise CoterieError(f"a layer has settings that a smaller network would lose ({layer}): leave out --compact")
    smaller: Any = copy.deepcopy(network).eval().double()  # what is folded into biases is exact to float32
    while _shrunk(smaller):
        pass
    return smaller.float()  # type: ignore[no-any-return]


def sizes(network: nn.Sequential) -> str:
    """Write the widths of a network's layers: channels of convolutions, units of linear layers."""
    from torch import nn

    return " ".join(str(layer.weight.shape[0]) for layer in network if isinstance(layer, nn.Conv2d | nn.Linear))


def architecture(network: nn.Sequential) -> list[list[Any]]:
    """Describe a sequence by names, kinds and sizes, so that `from_architecture` can make it again."""
    described: list[list[Any]] = []
    for name, layer in network.named_children():
        described.append([name, type(layer).__name__])
        for setting in SETTINGS.get(type(layer).__name__, ()):
            value = getattr(layer, setting)
            described[-1] += map(int, _sides(value) if setting in PAIRS else [value])
    return described


def from_architecture(described: list[list[Any]]) -> nn.Sequential:
    """Make a sequence again, with other parameters."""
    from torch import nn

    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, kind, *sizes in described:
        if kind not in SETTINGS:
            raise CoterieError(f"a layer of the kind '{kind}' is not known")
        left = iter(sizes)
        settings = {key: (next(left), next(left)) if key in PAIRS else next(left) for key in SETTINGS[kind]}
        layers[name] = getattr(nn, kind)(**settings)
    return nn.Sequential(layers)


def _unusual(network: nn.Sequential) -> str | None:
    """Return the first layer that its description does not make again as it is, or None."""
    from torch import nn

    for layer in network:
        try:
            again = from_architecture(architecture(nn.Sequential(layer)))[0]
        except (TypeError, ValueError):  # padding="same"
            return str(layer)
        if _settings(again) != _settings(layer):
            return str(layer)
    return None


def _settings(layer: Any) -> dict[str, Any]:
    """Return what a layer was made with, as far as it matters for what comes out."""
    settings = {name: getattr(layer, name) for name in layer.__constants__ if name not in ("inplace", "momentum")}
    shown = {
        name: value[0] if isinstance(value, tuple) and len({*value}) == 1 else value for name, value in settings.items()
    }
    return {**shown, "bias": getattr(layer, "bias", None) is not None}


def _sides(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _shrunk(network: nn.Sequential) -> bool:
    """Take out the dead units between two layers with weights; say whether there were any."""
    import torch
    from torch import nn

    layers: list[Any] = list(network)
    weighted = [i for i, layer in enumerate(layers) if isinstance(layer, nn.Conv2d | nn.Linear)]
    for at, after in pairwise(weighted):
        layer, follower, between = layers[at], layers[after], layers[at + 1 : after]
        units = layer.weight.shape[0]
        # What leads from each unit, (units, outputs, …): a channel may have many columns.
        into = follower.weight.reshape(follower.weight.shape[0], units, -1).transpose(0, 1)
        silent = (layer.weight == 0).flatten(1).all(dim=1)
        says = layer.bias if layer.bias is not None else layer.weight.new_zeros(units)
        for step in between:
            if isinstance(step, nn.BatchNorm2d) and step.running_var is not None and step.running_mean is not None:
                scale = step.weight / torch.sqrt(step.running_var + step.eps)
                silent |= step.weight == 0
                says = torch.where(step.weight == 0, step.bias, (says - step.running_mean) * scale + step.bias)
            elif isinstance(step, nn.ReLU):
                says = says.clamp(min=0)
        padded = isinstance(follower, nn.Conv2d) and any(_sides(follower.padding))
        if padded:  # a constant is not one at the border
            silent &= says == 0
        dead = silent | (into == 0).flatten(1).all(dim=1)
        if dead.all():
            dead[0] = False  # a layer needs a unit
        if dead.any():
            with torch.no_grad():
                constant = (into * torch.where(silent & dead, says, 0).reshape(-1, *[1] * (into.ndim - 1))).sum(dim=0)
                follower.bias += constant.reshape(len(follower.bias), -1).sum(dim=1)
            for step in (layer, *between):
                _keep_units(step, ~dead)
            _keep_inputs(follower, ~dead)
            return True
    return False


def _keep_units(layer: Any, kept: torch.Tensor) -> None:
    """Keep some outputs of a layer, or some channels of a normalisation."""
    from torch import nn

    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(parameter[kept]))
    for name, statistic in list(layer.named_buffers()):
        if statistic.ndim:
            setattr(layer, name, statistic[kept])
    for width in ("out_channels", "out_features", "num_features"):
        if hasattr(layer, width):
            setattr(layer, width, int(kept.sum()))


def _keep_inputs(layer: Any, kept: torch.Tensor) -> None:
    from torch import nn

    weight = layer.weight.reshape(layer.weight.shape[0], len(kept), -1)[:, kept]
    if isinstance(layer, nn.Conv2d):
        layer.weight = nn.Parameter(weight.reshape(len(weight), -1, *layer.kernel_size))
        layer.in_channels = int(kept.sum())
    else:
        layer.weight = nn.Parameter(weight.flatten(1))
        layer.in_features = layer.weight.shape[1]

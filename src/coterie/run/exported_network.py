"""What is put around a network that is exported: normalisation before it, a label offset or a unit behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.run.trained_models import TrainedModel

if TYPE_CHECKING:
    import torch
    from torch import nn


def with_label_offset(network: nn.Module, model: TrainedModel, format: str) -> nn.Module:
    """Add a label offset to the last bias; to the outputs in ONNX, if there is no such bias."""
    import torch
    from torch import nn

    spec, offset = model.run.spec, torch.from_numpy(np.array(model.label_offset))
    linear = [m for m in network.modules() if isinstance(m, nn.Linear) and m.out_features == spec.classes]
    x = torch.randn((4, *spec.shape), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = network(x) + offset
        if linear and (bias := linear[-1].bias) is not None:
            before = bias.clone()
            bias.add_(offset)
            if torch.allclose(network(x), wanted, rtol=1e-4, atol=1e-4):  # it was the last layer
                return network
            bias.copy_(before)
    if format != "onnx":
        raise CoterieError(
            f"{model.whose} can't be written as safetensors: the network '{spec.name}' does not end in a linear layer "
            "with a bias, to which the offset could be added: use --format onnx, or export the model of a --group"
        )

    class OffsetNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.offset = network, nn.Buffer(offset)

        def forward(self, x: torch.Tensor) -> Any:
            return self.network(x) + self.offset

    return OffsetNetwork().eval()


def _in_units(network: nn.Module, spec: ModelSpec) -> nn.Module:
    """Let numbers that are predicted come out in their unit, (samples,)."""
    if spec.target is None:
        return network
    from torch import nn

    mean, deviation = spec.target

    class NumberNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: torch.Tensor) -> Any:
            return mean + deviation * self.network(x)[:, 0]

    return NumberNetwork().eval()


def with_normalisation(network: nn.Module, model: TrainedModel) -> nn.Module:
    """Put the normalisation before a network, where it is a formula, and the unit of numbers behind it."""
    import torch
    from torch import nn

    network, normalisation = _in_units(network, model.run.spec), model.run.normalisation
    if normalisation is None:
        return network
    scale, side = normalisation.scale, (1, -1) + (1,) * (len(model.run.spec.shape) - 1)
    mean, std = (
        torch.tensor(values, dtype=torch.float32).reshape(side) for values in (normalisation.mean, normalisation.std)
    )

    class NormalisedNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.mean, self.std = nn.Buffer(mean), nn.Buffer(std)

        def forward(self, x: torch.Tensor) -> Any:
            return self.network((x / scale - self.mean) / self.std)

    return NormalisedNetwork().eval()

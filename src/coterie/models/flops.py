"""What a network costs: its parameters, and the multiply-adds of its convolutions, whole or under a mask."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from coterie.messages import ModelSpec, Params
from coterie.models import MODELS, build


@dataclass(frozen=True)
class Size:
    """Of a network, or of what a mask leaves of it."""

    weights: int
    """Entries of matrices and kernels: what can be pruned."""
    parameters: int
    multiply_adds: int
    """Of the convolutions, for one sample (Sub-FedAvg counts these only)."""


def size(spec: ModelSpec, mask: Params | None = None) -> Size:
    """Count what a network costs; with a mask, what is left of it.

    A kernel from one channel to another costs as long as one of its weights is left: only what is gone as a whole
    is saved.

    >>> size(ModelSpec("lenet5", (3, 32, 32), 10))
    Size(weights=61770, parameters=62006, multiply_adds=592800)
    """
    (shapes, positions), mask = _layout(spec, MODELS[spec.name]), mask or {}
    left = {
        name: int(np.count_nonzero(mask[name])) if name in mask else int(np.prod(shape))
        for name, shape in shapes.items()
    }
    multiply_adds = 0
    for name, places in positions.items():
        outputs, inputs, *kernel = shapes[name]
        kernels = outputs * inputs
        if name in mask:
            kernels = int(mask[name].reshape(outputs, inputs, -1).any(axis=2).sum())
        multiply_adds += places * kernels * int(np.prod(kernel))
    weights = sum(count for name, count in left.items() if len(shapes[name]) > 1)
    return Size(weights, sum(left.values()), multiply_adds)


@cache
def _layout(spec: ModelSpec, builder: Any) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the shapes of the parameters, and how many places each kernel visits, which takes one run.

    They are remembered for the `builder` too: a name may come to stand for another network.
    """
    import torch
    from torch import nn

    network, positions = build(spec).eval(), dict[str, int]()
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):

            def note(_module: nn.Module, _inputs: Any, output: torch.Tensor, name: str = name) -> None:
                positions[f"{name}.weight"] = positions.get(f"{name}.weight", 0) + output[0, 0].numel()

            module.register_forward_hook(note)
    with torch.inference_mode():
        network(torch.zeros(1, *spec.shape))
    return {name: tuple(p.shape) for name, p in network.named_parameters()}, positions

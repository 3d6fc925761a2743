"""Networks by name: ours, and a user's own after ``@coterie.model("name")``.

A model is a function ``(shape, classes, *, options) -> torch.nn.Module``. PyTorch is imported inside these
functions, so that listing models costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError
from coterie.messages import Array, ModelSpec, Params, frozen
from coterie.models.given import GivenNetwork
from coterie.registry import Registry
from coterie.streams import derived_seed

if TYPE_CHECKING:
    from torch import nn

MODELS: Registry[Callable[..., nn.Module]] = Registry("model", "coterie.models")
model = MODELS.register

STARTS: dict[str, Params] = {}
"""Parameters that networks start with instead of those that they make, by their digests; each process has its own."""

GLOBAL_GENERATOR = threading.Lock()
"""PyTorch initialises networks, and drops out, from one global generator: one thread at a time."""


def build(spec: ModelSpec, seed: int = 0) -> nn.Module:
    """Build a network; its parameters depend on the seed only."""
    import torch

    builder = MODELS[spec.name]
    with GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would keep a note for a GPU at each call
        try:
            return builder(tuple(spec.shape), spec.classes, **spec.options)
        except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
            said = str(error).lower()
            if isinstance(error, RuntimeError | TypeError) and "alloc" not in said and "overflow" not in said:
                raise
            raise CoterieError(
                f"model '{spec.name}' for inputs of shape {tuple(spec.shape)} and {spec.classes} classes is larger "
                f"than memory: choose a smaller one ({str(error).partition(chr(10))[0][:100]})"
            ) from None


def initial(spec: ModelSpec, seed: int, which: int = 0) -> dict[str, Array]:
    """Return the common start θ⁰ of a run; `which` > 0 gives others, for methods that start several models."""
    builder = MODELS[spec.name]
    if spec.start is not None:
        return _given_start(spec, which)
    if which and isinstance(builder, GivenNetwork) and builder.has_one_start:
        raise CoterieError(
            f"this method starts several models, but the network '{spec.name}' was given with its parameters, and has "
            "one start: give its class, or a function that builds it"
        )
    return dict(_initial(spec, seed, which, builder))


def parameters(spec: ModelSpec) -> int:
    """Count the trainable parameters of a network."""
    return sum(p.numel() for p in build(spec).parameters())


def image_shape(shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
    """Return channels, height and width; refuse what is not an image."""
    if len(shape) != 3:
        raise CoterieError(f"model '{name}' needs images, got inputs of shape {shape}: use 'mlp' or 'mclr'")
    return shape[0], shape[1], shape[2]


def default_model(shape: tuple[int, ...]) -> str:
    """Choose a network by the inputs: LeNet-5 for images that it can take as they are, else an MLP."""
    if len(shape) == 3 and min(shape[1:]) >= 16:
        return "lenet5"
    return "lstm" if len(shape) == 2 else "mlp"


def _given_start(spec: ModelSpec, which: int) -> dict[str, Array]:
    if which:
        raise CoterieError(
            f"this method starts several models, but the network '{spec.name}' starts with given parameters, which are "
            "one start: leave out --initial"
        )
    if spec.start not in STARTS:
        raise CoterieError(f"the parameters that the network '{spec.name}' starts with are not here")
    return dict(STARTS[spec.start])


@lru_cache(maxsize=32)
def _initial(spec: ModelSpec, seed: int, which: int, builder: Callable[..., nn.Module]) -> dict[str, Array]:
    """Make a start; the builder is looked at because a notebook may register another one by the same name."""
    state: dict[str, Any] = build(spec, derived_seed(seed, "init", which)).state_dict()
    return frozen({name: tensor.cpu().numpy().copy() for name, tensor in state.items()})

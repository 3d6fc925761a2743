"""What of a network learns, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import CoterieError
from coterie.messages import Array, ModelSpec, Params
from coterie.models import MODELS, build, initial

if TYPE_CHECKING:
    from torch import nn

LISTED = 30
"""So many names a sentence lists."""


def learning(spec: ModelSpec, train: tuple[str, ...] | None = None) -> frozenset[str]:
    """Name the parameters and buffers that training may change; all others stay as they are, to the last bit.

    What the network freezes by ``requires_grad_(False)`` never changes. Of the rest, what begins as `train` says may;
    None: everything. A parameter that several layers share learns if it does so under one of its names.
    """
    return _learning(spec, train, MODELS[spec.name])


def frozen_part(spec: ModelSpec, seed: int) -> dict[str, Array]:
    """Return what the network itself freezes, as it was at the start: both sides have it, so that it is not sent."""
    learns = learning(spec)
    return {name: value for name, value in initial(spec, seed).items() if name not in learns}


def without_frozen(model: Params, frozen: Params) -> Params:
    """Return what of a model is sent: what learns, and what somebody has changed at the server nonetheless."""
    if not frozen:
        return model
    return {name: value for name, value in model.items() if name not in frozen or not _same(value, frozen[name])}


def with_frozen(model: Params, frozen: Params) -> Params:
    """Return a model that was sent together with what the network freezes.

    Clients of one process that received the same get the same, by which its scores are found again.
    """
    global _LATEST
    if not frozen:
        return model
    received, whole = _LATEST
    if received is not model:
        whole = {**frozen, **model}
        _LATEST = model, whole
    return whole


_LATEST: tuple[Params, Params] = ({}, {})


def _same(value: Array, other: Array) -> bool:
    return value is other or bool(np.array_equal(value, other))


@lru_cache(maxsize=64)
def _learning(spec: ModelSpec, train: tuple[str, ...] | None, builder: Callable[..., Any]) -> frozenset[str]:
    """As `learning`; by what builds the network too, as a notebook may register another one by the same name."""
    module = build(spec)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    free = [name for name in module.state_dict() if _is_free(name, parameters)]
    if train is None:
        chosen = set(free)
    else:
        for prefix in train:
            if not any(name.startswith(prefix) for name in free):
                raise CoterieError(_unknown(spec, prefix, free, [name for name in parameters if name not in free]))
        chosen = {name for name in free if name.startswith(tuple(train))}
        shared = {id(parameters[name]) for name in chosen if name in parameters}
        chosen |= {name for name in free if name in parameters and id(parameters[name]) in shared}
    if not chosen & parameters.keys():
        raise CoterieError(
            f"nothing of the network '{spec.name}' learns: leave requires_grad_(False) out for some of its parameters, "
            "and name some in the plan's train, if it is given"
        )
    return frozenset(chosen)


def _is_free(name: str, parameters: dict[str, nn.Parameter]) -> bool:
    """Say whether a network leaves something free to change.

    What a layer counts (BatchNorm's statistics) belongs to its parameters, and stands still where all of them do; where
    the layer has none, to those of the smallest module around it that has some.
    """
    if name in parameters:
        return parameters[name].requires_grad
    around = name
    while around:
        around = around.rpartition(".")[0]
        near = [p for other, p in parameters.items() if not around or other.startswith(f"{around}.")]
        if near:
            return any(parameter.requires_grad for parameter in near)
    return True


def _unknown(spec: ModelSpec, prefix: str, free: list[str], frozen: list[str]) -> str:
    more = f" and {len(free) - LISTED} more" if len(free) > LISTED else ""
    fixed = f"; the network itself freezes {', '.join(frozen[:LISTED])}" if frozen else ""
    return (
        f"train: nothing that learns in the network '{spec.name}' has a name that begins with '{prefix}': there are "
        f"{', '.join(free[:LISTED])}{more}{fixed}"
    )

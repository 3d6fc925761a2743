"""Updates of models, cut to a length and hidden by noise: what one client may tell of all that it has learnt."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.privacy.randomness import Floats, Randomness

Tensors = Mapping[str, npt.NDArray[Any]]


def change(params: Tensors, start: Tensors) -> dict[str, Floats]:
    """Return what was learnt since the start."""
    return {name: np.subtract(value, start[name], dtype=np.float64) for name, value in params.items()}


def length(update: Mapping[str, Floats]) -> float:
    """Return the Euclidean length of an update, over all its tensors."""
    return math.sqrt(sum(float(np.square(part).sum()) for part in update.values()))


def cut(update: Mapping[str, Floats], clip: float) -> dict[str, Floats]:
    """Return an update, shortened to a length where it is longer.

    >>> cut({"w": np.array([3.0, 4.0])}, 1.0)
    {'w': array([0.6, 0.8])}
    """
    long = length(update)
    share = min(1.0, clip / long) if long else 1.0
    return {name: share * part for name, part in update.items()}


def hidden(
    params: Tensors, start: Tensors, clip: float, noise: float, randomness: Randomness
) -> dict[str, npt.NDArray[Any]]:
    """Return a model whose update is cut to `clip` and has noise of `noise` times twice that, in each number.

    Two updates of any clients, once cut, are at most twice the clip apart: `noise` is z of one Gaussian release.
    """
    update, sigma = cut(change(params, start), clip), 2 * clip * noise
    result: dict[str, npt.NDArray[Any]] = {}
    for name in sorted(start):
        drawn = sigma * randomness.standard_normal(start[name].size).reshape(start[name].shape)
        result[name] = np.asarray(start[name] + update[name] + drawn, start[name].dtype)
    return {name: result[name] for name in start}

"""Mean and deviation of inputs: what clients measure, and what is made of it for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.messages.params import LARGEST, Array

Numbers = npt.NDArray[np.float64]
SMALLEST = 1 / LARGEST
"""No deviation is smaller: what is divided by it must stay finite."""
FARTHEST = 1e6
"""Deviations from the mean to 0, at most: beyond, single precision would leave of inputs which side they are on."""


@dataclass(frozen=True)
class Standardisation:
    """From inputs to what networks see, ``(x - mean) / std``: one number for all, or one per channel or feature."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return inputs, (n, channels, ...) or (n, features), standardised."""
        side = (1, -1) + (1,) * (x.ndim - 2)
        mean, std = (np.asarray(values, np.float64).reshape(side) for values in (self.mean, self.std))
        return np.asarray((np.asarray(x, np.float64) - mean) / std, np.float32)  # so that a large mean rounds nothing

    def error_for(self, channels: int) -> str | None:
        """Say why it can't be used on inputs with so many channels or features, or None.

        >>> Standardisation((0.5,), (0.0,)).error_for(3)
        'std from 0 to 0, expected 1e-12 to 1e+12'
        """
        for name, values, least in (("mean", self.mean, -LARGEST), ("std", self.std, SMALLEST)):
            if len(values) not in (1, channels):
                return f"{name} has {len(values)} numbers, expected 1 or {channels}"
            if not all(least <= value <= LARGEST for value in values):  # NaN: neither
                return f"{name} from {min(values):g} to {max(values):g}, expected {least:g} to {LARGEST:g}"
        far = float(np.max(np.abs(self.mean) / np.asarray(self.std)))
        if far > FARTHEST * (1 + 1e-9):
            return f"mean is up to {far:g} times std from 0, expected at most {FARTHEST:g}"
        return None


def pooled(weights: Sequence[float], means: Sequence[Array], variances: Sequence[Array]) -> tuple[Numbers, Numbers]:
    """Return mean and variance of samples that were measured in parts, as if they had been measured together.

    >>> parts = [np.array([[1.0], [3.0]]), np.array([[5.0], [5.0], [11.0]])]
    >>> pooled([2, 3], [part.mean(axis=0) for part in parts], [part.var(axis=0) for part in parts])
    (array([5.]), array([11.2]))
    >>> np.var([1, 3, 5, 5, 11])
    np.float64(11.2)
    """
    shares = np.asarray(weights, np.float64)[:, None] / np.sum(weights, dtype=np.float64)
    each, within = np.asarray(means, np.float64), np.asarray(variances, np.float64)
    mean = (shares * each).sum(axis=0)
    return mean, (shares * (within + (each - mean) ** 2)).sum(axis=0)


def standardisation(mean: Numbers, variance: Numbers) -> Standardisation:
    """Return the standardisation of inputs with this mean and variance; what does not vary at all is only shifted."""
    std = np.sqrt(variance)
    least = np.abs(mean) / FARTHEST
    std = np.where(std > np.maximum(least, SMALLEST), std, np.maximum(1.0, least))
    return Standardisation(tuple(mean.tolist()), tuple(std.tolist()))

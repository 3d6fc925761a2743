"""Metrics by name: how good a model is on some samples, ours and a user's own after ``@coterie.metric("name")``.

A metric is a function ``(scores, labels) -> number`` of NumPy's arrays: scores of (samples, classes), of which a higher
one means a likelier label, and (samples,) labels. The number is a share from 0 to 1, of which more is better; None
where the samples do not tell it. It is computed where the samples are, so that a client sends one number.

A metric whose name `is_error` is of numbers to predict: ``(outputs, targets) -> number`` of (samples,) and (samples,),
in the unit of the targets, of which less is better.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError
from coterie.messages import Array
from coterie.messages.numbers import ENDING, LARGEST_ERROR, is_error
from coterie.registry import Registry
from coterie.training.job import Index

USUAL = "accuracy"
"""The one that needs no name."""

METRICS: Registry[Callable[..., float | None]] = Registry("metric", "coterie.training.metrics", "coterie.metrics")
metric = METRICS.register


def measured(name: str, scores: npt.NDArray[np.floating], y: Index) -> float | None:
    """Return what a metric says of scores; None where there are no samples, or they do not tell it."""
    if not len(y):
        return None
    if is_error(name):
        return _error(name, scores, np.asarray(y, np.float64))
    value = METRICS[name](np.nan_to_num(scores, nan=-np.inf, posinf=None, neginf=None), y)
    if value is None:
        return None
    if not 0 <= value <= 1:
        raise CoterieError(
            f"metric '{name}' returned {value}: return a share from 0 to 1, of which more is better; one of numbers to "
            f"predict has a name that ends in {ENDING}"
        )
    return float(value)


def _error(name: str, outputs: npt.NDArray[np.floating], targets: Array) -> float | None:
    """Return an error; the largest of all where outputs are no numbers."""
    if not np.isfinite(outputs).all():
        return LARGEST_ERROR
    value = METRICS[name](outputs, targets)
    if value is not None and not value >= 0:
        raise CoterieError(f"metric '{name}' returned {value}: return an error of at least 0, of which less is better")
    return None if value is None else min(float(value), LARGEST_ERROR)

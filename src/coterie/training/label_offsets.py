"""Label offsets: how often a client has each label, told to the softmax instead of being learnt by the network.

With n_y of a client's n training samples of label y, the offset o(y) is added to the logit of y:

    prior      o(y) = s log(n_y / n)      for labels that the client has
    lacking    o(y) = 0                   for labels that the client has
    both       o(y) = −s log(n + 1)       for labels that it lacks (rule of succession: not seen in n samples)

Counts drawn evenly from K labels differ by chance. What chance explains is taken off by the factor

    s = max(0, 1 − (K − 1)/X²),   X² = Σ_y (n_y − n/K)² / (n/K)

since X² of even draws is K − 1 on average (Pearson): then s is about 0. Of a client with few of the labels X² is of the
order of n, and s about 1. The formula needs nothing but the client's own counts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.messages.plan import LabelOffset
from coterie.training.job import Floats

Counts = npt.NDArray[Any]
"""Samples of each label, (K,)."""


def shrinkage(counts: Counts) -> float:
    """Return s, the share of the offsets that chance does not explain, 0 to 1.

    >>> shrinkage(np.array([100, 100, 100])), round(shrinkage(np.array([300, 0, 0])), 4)
    (0.0, 0.9967)
    """
    n, labels = float(np.sum(counts)), len(counts)
    expected = n / labels if labels else 0.0
    squares = float(np.sum((np.asarray(counts, np.float64) - expected) ** 2))
    return max(0.0, 1.0 - (labels - 1) * expected / squares) if squares else 0.0


def label_offset(counts: Counts, kind: LabelOffset) -> Floats:
    """Return o, (K,); zeros for a client without samples.

    >>> print(label_offset(np.array([600, 200, 0, 0]), "prior").round(3))
    [-0.287 -1.383 -6.669 -6.669]
    >>> print(label_offset(np.array([600, 200, 0, 0]), "lacking").round(3))
    [ 0.     0.    -6.669 -6.669]
    """
    n = float(np.sum(counts))
    if not n:
        return np.zeros(len(counts), np.float32)
    has = np.asarray(counts) > 0
    frequent = np.log(np.where(has, counts, n) / n) if kind == "prior" else np.zeros(len(counts))
    return np.asarray(shrinkage(counts) * np.where(has, frequent, -np.log1p(n)), np.float32)

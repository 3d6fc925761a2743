"""What chance does to a signature: the distance between two halves of one client's samples (ours)."""

import numpy as np
import numpy.typing as npt

from coterie.similarity.measures import MEASURES
from coterie.similarity.signatures import signature

FEWEST = 4
"""The fewest samples to halve: with fewer, a half is a single sample, which says nothing about the others."""


def split_half_distance(
    x: npt.ArrayLike,
    p: int,
    rng: np.random.Generator,
    *,
    splits: int = 6,
    measure: str = "theta1",
    labels: npt.ArrayLike | None = None,
) -> float | None:
    """Split samples randomly in half, several times; return the mean distance between the halves' signatures.

    In the unit of the measure; None for fewer than four samples. With `labels`, signatures are per label.
    """
    samples = np.asarray(x)
    count = len(samples)
    if count < FEWEST:
        return None
    rows = samples.reshape(count, -1).astype(np.float64)
    if count < rows.shape[1]:  # coordinates of the space that they span, which do not change angles
        values, vectors = np.linalg.eigh(rows @ rows.T)
        rows = vectors * np.sqrt(np.maximum(values, 0))
    y = None if labels is None else np.asarray(labels)
    distances = []
    for _ in range(splits):
        order = rng.permutation(count)
        halves = [
            signature(rows[half], p, None if y is None else y[half])
            for half in (order[: count // 2], order[count // 2 :])
        ]
        distances.append(MEASURES[measure]([halves[0]], [halves[1]]).item())
    return float(np.mean(distances))

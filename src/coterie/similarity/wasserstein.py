"""Earth mover's distances: how far samples would have to move."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.similarity.samples import (
    COMPONENTS,
    Floats,
    as_rows,
    check_features,
    checked,
    each_pair,
    reduced,
)
from coterie.streams import stream

PROJECTIONS = 64
"""Directions of the sliced Wasserstein distance."""


def sliced_wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    projections: int = PROJECTIONS,
    *,
    components: int | None = COMPONENTS,
    seed: int = 0,
) -> float:
    """Return the mean of the earth mover's distances between two samples projected to random directions.

    Before, samples of more features are reduced to the first principal `components` of both together; None leaves
    them. Directions are uniform on the sphere and depend on the seed and the number of features only. With one
    feature this is the earth mover's distance itself. It has the unit of the samples.
    """
    return float(sliced_wasserstein_of_pairs(reduced([x, y], components), projections=projections, seed=seed)[0, 1])


def emd_pixel(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the earth mover's distance between the distributions of the pixel values of two mean images."""
    return float(emd_pixel_of_pairs([x, y])[0, 1])


def sliced_wasserstein_of_pairs(
    samples: Sequence[npt.ArrayLike], *, projections: int = PROJECTIONS, seed: int = 0
) -> Floats:
    """Return the sliced Wasserstein distance of all pairs of clients, (clients, clients), without reducing samples."""
    rows = checked(samples)
    if projections < 1:
        raise ValueError(f"projections = {projections} should be at least 1")
    directions = stream(seed, "projections").normal(size=(rows[0].shape[1], projections))
    directions /= np.linalg.norm(directions, axis=0)
    return each_pair(_earth_movers, [np.sort(x @ directions, axis=0) for x in rows])


def emd_pixel_of_pairs(samples: Sequence[npt.ArrayLike]) -> Floats:
    """Return `emd_pixel` of all pairs of clients, (clients, clients)."""
    check_features([np.asarray(x) for x in samples])
    means = [as_rows(x, f"samples[{i}]").mean(axis=0) for i, x in enumerate(samples)]
    return each_pair(_earth_movers, [np.sort(mean)[:, None] for mean in means])


def _earth_movers(x: Floats, y: Floats) -> float:
    """Return the mean over columns, each sorted, of the area between two quantile functions."""
    if len(x) == len(y):
        return float(np.abs(x - y).mean())
    steps = np.union1d(np.arange(1, len(x) + 1) * len(y), np.arange(1, len(y) + 1) * len(x))  # of 1 / (n m)
    widths = np.diff(steps, prepend=0) / (len(x) * len(y))
    apart = np.abs(x[(steps - 1) // len(y)] - y[(steps - 1) // len(x)])
    return float((widths @ apart).mean())

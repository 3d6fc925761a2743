"""Measures between what clients send: how many samples of each label, what these look like, and their signatures."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.similarity.angles import Angles, principal_angles
from coterie.similarity.measures import measure
from coterie.similarity.moments import VARIANCES, ClassMoments, class_distances
from coterie.similarity.samples import Floats


@measure("labels", needs="label counts", title="total variation of labels", unit="share")
def labels(counts: npt.ArrayLike) -> Floats:
    """What share of the labels would have to change for two clients to have the same mixture."""
    return label_total_variation(counts)


def label_total_variation(counts: npt.ArrayLike) -> Floats:
    """Return the total variation between clients' label distributions, from 0 to 1, (clients, clients).

    `counts` says how many samples of each class each client has, (clients, classes). A client without samples is at
    1 from those that have some, and at 0 from others without.

    >>> label_total_variation([[5, 5, 0], [2, 2, 4], [0, 0, 9]])
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0.5],
           [1. , 0.5, 0. ]])
    """
    table = np.asarray(counts, np.float64)
    if table.ndim != 2:
        raise ValueError(f"counts should have the shape (clients, classes), but have {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("counts should be finite and not negative")
    total = table.sum(axis=1, keepdims=True)
    shares = np.hstack([table / np.where(total > 0, total, 1.0), total == 0])  # nothing is a class of its own
    return np.array([np.abs(shares - row).sum(axis=1) / 2 for row in shares]).reshape(len(table), len(table))


@measure(
    "class_moments",
    needs="moments",
    title="distance of class means beyond chance",
    unit=VARIANCES,
    partial=True,
)
def class_moments(a: Sequence[ClassMoments], b: Sequence[ClassMoments] | None = None) -> Floats:
    """Does the same label look different to two clients; 0 is what chance alone gives, NaN if they share none."""
    return np.asarray(class_distances(a, b)["distance"])


Signatures = Sequence[npt.ArrayLike]


@measure("theta1", needs="vectors", title="smallest principal angle", unit="degrees")
def theta1(a: Signatures, b: Signatures | None = None) -> Angles:
    """Do the samples of two clients span a common direction (Eq. 5.1, theta1 of whole clients)."""
    return principal_angles(a, b, "theta1")


@measure("sum_angles", needs="vectors", title="sum of the principal angles", unit="degrees")
def sum_angles(a: Signatures, b: Signatures | None = None) -> Angles:
    """Do they span the same space (of whole clients; in any order of vectors, unlike Eq. 5.2, which is trace)."""
    return principal_angles(a, b, "sum_angles")


@measure("min_abs", needs="vectors per label", title="smallest angle between vectors of labels", unit="degrees")
def min_abs(a: Signatures, b: Signatures | None = None) -> Angles:
    """Is there a pair of labels, one of each client, that look alike."""
    return principal_angles(a, b, "min_abs")


@measure(
    "min_entry", needs="vectors per label", title="smallest signed angle between vectors of labels", unit="degrees"
)
def min_entry(a: Signatures, b: Signatures | None = None) -> Angles:
    """The same with signs, as the released PACFL has it."""
    return principal_angles(a, b, "min_entry")


@measure("trace", needs="vectors per label", title="sum of angles of corresponding vectors", unit="degrees")
def trace(a: Signatures, b: Signatures | None = None) -> Angles:
    """Do the vectors of labels agree in their order (Eq. 3 of PACFL, 5.2 of the dissertation)."""
    return principal_angles(a, b, "trace")

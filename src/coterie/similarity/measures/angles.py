"""Angles between signatures as measures."""

from collections.abc import Sequence

import numpy.typing as npt

from coterie.similarity.angles import Angles, principal_angles
from coterie.similarity.measures import measure

Signatures = Sequence[npt.ArrayLike]


@measure("theta1", needs="vectors", title="smallest principal angle", unit="degrees")
def theta1(a: Signatures, b: Signatures | None = None) -> Angles:
    """Do the samples of two clients span a common direction (Eq. 5.1, theta1 of whole clients)."""
    return principal_angles(a, b, "theta1")


@measure("sum_angles", needs="vectors", title="sum of the principal angles", unit="degrees")
def sum_angles(a: Signatures, b: Signatures | None = None) -> Angles:
    """Do they span the same space (Eq. 5.2, of whole clients)."""
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
    """Do the vectors of labels agree in their order (Eq. 3 of PACFL)."""
    return principal_angles(a, b, "trace")

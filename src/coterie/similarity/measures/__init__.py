"""Measures between clients, by name: what each needs, its unit, and what it says.

Users register their own in the same way, with ``@coterie.measure("name", needs=...)``; it is then available in
``coterie measures``, ``coterie inspect --measures`` and, if it compares signatures, ``pacfl:measure=name``.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError
from coterie.registry import Registry, home
from coterie.similarity.samples import COMPONENTS, reduced

Floats = npt.NDArray[np.float64]
Needs = Literal["vectors", "vectors per label", "label counts", "moments", "samples"]
SIGNATURES = ("vectors", "vectors per label")
STRIP = 64
"""Rows that are compared with columns at a time."""
ROUNDING = 1e-3
"""Share of the largest entry up to which an asymmetry is float32 rounding of signatures."""


@dataclass(eq=False)
class Measure:
    """A function that says how far apart clients are, with its description.

    What the function is given depends on what it needs:

    - ``vectors``, ``vectors per label``: ``(a, b=None)``, two lists of signatures, of all samples or of each label's,
      (features, vectors) each; without `b`, those of `a` are compared with each other;
    - ``label counts``: ``(counts)``, samples by client and class, (clients, classes);
    - ``moments``: ``(a, b=None)``, two lists of `coterie.similarity.ClassMoments`, or one;
    - ``samples``: ``(samples)``, each client's, (samples, ...) each, which only a simulation can see.

    It returns (len a, len b) or (clients, clients) finite numbers; if it is declared `partial`, NaN for clients that it
    can't compare. Keyword-only parameters are options; one called
    `seed` is given the seed of the run.
    """

    name: str
    function: Callable[..., npt.ArrayLike]
    needs: Needs
    title: str
    unit: str
    similarity: bool
    """True: larger is more alike, 1 is the same. Else 0 is the same, and larger is farther apart."""
    symmetric: bool
    components: bool
    partial: bool = False

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)  # its module, name, docstring and parameters

    def __call__(self, clients: Any, others: Any = None, **options: Any) -> Floats:
        """Compare all clients with each other, or with others."""
        given = (clients,) if others is None else (clients, others)
        matrix = np.require(self.function(*given, **options), np.float64, "W")
        shape = (len(clients), len(given[-1]))
        if matrix.shape != shape:
            raise CoterieError(f"measure '{self.name}' of {home(self)} returned the shape {matrix.shape}, not {shape}")
        if np.isinf(matrix).any() or (np.isnan(matrix).any() and not self.partial):
            raise CoterieError(f"measure '{self.name}' of {home(self)} returned NaN or infinity")
        return matrix if others is not None else self._without_rounding(matrix)

    def _without_rounding(self, matrix: Floats) -> Floats:
        """Make a matrix of clients with themselves exactly symmetric, with a diagonal of 0, or of 1."""
        np.fill_diagonal(matrix, 1.0 if self.similarity else 0.0)
        if not self.symmetric or _is_symmetric(matrix):
            return matrix
        apart = np.abs(matrix - matrix.T)
        if np.isnan(apart).sum() > np.isnan(matrix).sum() or np.nanmax(apart) > ROUNDING * np.nanmax(np.abs(matrix)):
            raise CoterieError(f"measure '{self.name}' of {home(self)} is not symmetric: declare symmetric=False")
        return np.asarray((matrix + matrix.T) / 2)

    @property
    def groups_signatures(self) -> bool:
        """Whether it is a distance between what clients send to be grouped."""
        return self.needs in SIGNATURES and self.symmetric and not self.similarity

    @property
    def says(self) -> str:
        """What it says of two clients: the first line of its docstring, without capital and full stop."""
        summary = (inspect.getdoc(self) or "").partition("\n")[0]
        return summary[:1].lower() + summary[1:].rstrip(".")

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return {
            "title": self.title,
            "unit": self.unit,
            "similarity": self.similarity,
            "needs": self.needs,
            "real_federation": self.needs != "samples",
            "says": self.says,
        }


def _is_symmetric(matrix: Floats) -> bool:
    """Say whether a matrix is symmetric, NaN included; strip by strip, since a column of a large one is far apart."""
    known = not np.isnan(matrix).any()
    return all(
        np.array_equal(matrix[i : i + STRIP, i:], matrix[i:, i : i + STRIP].T, equal_nan=not known)
        for i in range(0, len(matrix), STRIP)
    )


def _error_in_measure(item: Any) -> str | None:
    """Say why something is not a measure, or None."""
    if not isinstance(item, Measure):
        return "a measure is a function, registered by coterie.measure"
    kinds = get_args(Needs)
    return None if item.needs in kinds else f"needs = {item.needs!r} is not one of {', '.join(kinds)}"


MEASURES: Registry[Measure] = Registry(
    "measure", "coterie.similarity.measures", "coterie.measures", error_in=_error_in_measure
)


def measure(
    name: str,
    *,
    needs: Needs,
    title: str | None = None,
    unit: str = "",
    similarity: bool = False,
    symmetric: bool = True,
    components: bool = False,
    partial: bool = False,
) -> Callable[[Callable[..., npt.ArrayLike]], Measure]:
    """Register a function as a measure; see `Measure` for what it is given and returns.

    `title` defaults to the name; `similarity` says that larger is more alike, `components` that samples are to be
    reduced to the first 32 principal components of all clients, `partial` that it can't compare some clients, for which
    it returns NaN. The docstring's first line is what the measure says.
    """

    def enter(function: Callable[..., npt.ArrayLike]) -> Measure:
        entry = Measure(name, function, needs, title or name, unit, similarity, symmetric, components, partial)
        return MEASURES.register(name)(entry)

    return enter


def pairwise(
    measure: str, samples: Sequence[npt.ArrayLike], *, components: int | None = COMPONENTS, **options: Any
) -> Floats:
    """Return a measure between all pairs of clients' samples, (clients, clients).

    Measures that ask for it get samples reduced to the first 32 principal `components` of all clients together; for
    several measures, call `reduced` once. ``coterie measures NAME`` shows the options of one.

    >>> near, same, far = (np.random.default_rng(i).normal(mean, 1, (200, 1)) for i, mean in enumerate((0, 0, 5)))
    >>> pairwise("emd", [near, same, far]).round(1)
    array([[0. , 0.1, 5. ],
           [0.1, 0. , 5.1],
           [5. , 5.1, 0. ]])
    """
    usable = [name for name in MEASURES if MEASURES[name].needs == "samples"]
    if measure not in usable:
        raise ValueError(f"measure = {measure!r} is not one of {', '.join(usable)}")
    if len(samples) == 0:
        return np.zeros((0, 0))
    entry = MEASURES[measure]
    return entry(reduced(samples, components) if entry.components else samples, **options)


def error_in_signature_measure(name: str | None) -> str | None:
    """Say why signatures can't be compared by a measure, or None."""
    if name is None:
        return None
    try:
        entry = MEASURES[name]
    except CoterieError as error:
        return str(error)
    if entry.groups_signatures:
        return None
    return f"measure '{name}' is not a distance between signatures: use {' or '.join(signature_measures())}"


def signature_measures() -> list[str]:
    """Return the measures by which signatures can be compared."""
    return [name for name in MEASURES if MEASURES[name].groups_signatures]

"""Sketches of many clients at a time: what each gets does not depend on who else is there.

For a client with twenty samples, calling LAPACK takes longer than what it does. Those with equally many samples, and
few, are put into one array; others, and those whose samples span fewer directions than are asked for, go alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.similarity.halved_sketches import angles_of_halves
from coterie.similarity.signatures import POOR, signature
from coterie.similarity.sketches import Floats, Index, sketch, sketched_halves

Bools = npt.NDArray[np.bool_]

FEW = 32
"""Samples of those who go together, at most: of more, `signature` finds eigenvectors in another way."""


@dataclass(frozen=True, eq=False)
class Sketching:
    """What a client's sketch is to be made of."""

    x: npt.NDArray[Any]
    """Its samples, in rows."""
    p: int
    directions: Floats
    """R, which all clients share, (features, k)."""
    orders: Index
    """Of the samples, whose first halves are compared with the second, (splits, samples); none: not asked for."""
    measure: str
    """By which they are."""

    def alone(self) -> "Sketched":
        """Return the sketch."""
        vectors, halves = sketch(signature(self.x, self.p), self.directions), None
        if len(self.orders):
            halves = sketched_halves(self.x, self.p, self.orders, self.directions, measure=self.measure)
        return Sketched(vectors, halves)

    @property
    def kind(self) -> tuple[int, ...] | None:
        """What those have in common who go together; None: goes alone."""
        n, features = len(self.x), len(self.directions)
        together = 2 * self.p <= n <= min(FEW, features) and len(self.orders) and self.measure == "theta1"
        return (n, self.p, len(self.orders), id(self.directions)) if together else None


class Sketched(NamedTuple):
    """A client's sketch."""

    vectors: Floats
    """(k, ≤ p)."""
    halves: float | None
    """Mean distance of halves in the unit of the measure; None if not asked for."""


def sketch_together(asked: Sequence[Sketching]) -> list[Sketched]:
    """Return the sketch of each: the numbers that it gets alone."""
    kinds: dict[tuple[int, ...] | None, list[int]] = {}
    for k, one in enumerate(asked):
        kinds.setdefault(one.kind, []).append(k)
    made: dict[int, Sketched | None] = {}
    for kind, members in kinds.items():
        if kind is not None:
            made.update(zip(members, _of_one_kind([asked[k] for k in members]), strict=True))
    return [made.get(k) or one.alone() for k, one in enumerate(asked)]


def _of_one_kind(asked: Sequence[Sketching]) -> list[Sketched | None]:
    """Return the sketches of clients with equally many samples; None for those who go alone."""
    p, directions = asked[0].p, asked[0].directions
    x, orders = np.stack([one.x for one in asked]), np.stack([one.orders for one in asked])
    rows = x.reshape(*x.shape[:2], -1).astype(np.float64)
    usual = np.isfinite(rows).all(axis=(1, 2))
    rows[~usual] = 0.0
    gram = rows @ rows.swapaxes(1, 2)
    halves = angles_of_halves(gram, rows @ directions, orders, p)
    vectors, clear = _signatures(rows, gram, p)
    usual &= clear & halves.usual
    sketches = np.linalg.qr(directions.T @ vectors)[0]
    apart = halves.apart.tolist()
    return [Sketched(sketches[k], apart[k]) if usual[k] else None for k in range(len(asked))]


def _signatures(rows: Floats, gram: Floats, p: int) -> tuple[Floats, Bools]:
    """Return p singular vectors of each, (clients, features, p), and for whom they are orthogonal as they are."""
    values, mixtures = np.linalg.eigh(gram)
    vectors = rows.swapaxes(1, 2) @ np.ascontiguousarray(mixtures[:, :, : -p - 1 : -1])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1.0)
    largest = np.abs(vectors).argmax(axis=1, keepdims=True)
    clear = (values[:, -1] > 0) & (values[:, -p] >= POOR * values[:, -1])
    return vectors * np.sign(np.take_along_axis(vectors, largest, axis=1)), clear

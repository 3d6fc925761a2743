"""Sketches of many clients at a time: what each gets does not depend on who else is there.

For a client with twenty samples, calling LAPACK takes longer than what it does. Those with equally many samples, and
few, are put into one array; others, and those whose samples span fewer directions than are asked for, go alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.similarity.angles import smallest_angles
from coterie.similarity.signatures import NEGLIGIBLE, POOR, signature
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
    each, gram, image = x.shape[1] // 2, rows @ rows.swapaxes(1, 2), rows @ directions
    left, right = (_of_halves(gram, image, some, p) for some in (orders[..., :each], orders[..., each:]))
    vectors, clear = _signatures(rows, gram, p)
    usual &= clear & left.usual & right.usual
    sketches = np.linalg.qr(directions.T @ vectors)[0]
    angles = smallest_angles(*(np.linalg.qr(side.images)[0] for side in (left, right)))
    halves = angles.reshape(len(asked), -1).mean(axis=1).tolist()
    return [Sketched(sketches[k], halves[k]) if usual[k] else None for k in range(len(asked))]


def _signatures(rows: Floats, gram: Floats, p: int) -> tuple[Floats, Bools]:
    """Return p singular vectors of each, (clients, features, p), and for whom they are orthogonal as they are."""
    values, mixtures = np.linalg.eigh(gram)
    vectors = rows.swapaxes(1, 2) @ np.ascontiguousarray(mixtures[:, :, : -p - 1 : -1])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1.0)
    largest = np.abs(vectors).argmax(axis=1, keepdims=True)
    clear = (values[:, -1] > 0) & (values[:, -p] >= POOR * values[:, -1])
    return vectors * np.sign(np.take_along_axis(vectors, largest, axis=1)), clear


class _Halves(NamedTuple):
    images: Floats
    """Rᵀ Xᵀ V Λ^−½ of each half, (clients · splits, k, p)."""
    usual: Bools
    """Whose halves all span p directions, (clients,)."""


def _of_halves(gram: Floats, image: Floats, halves: Index, p: int) -> _Halves:
    """Return the images of halves' singular vectors; `halves` is (clients, splits, samples of a half)."""
    client = np.arange(len(gram))[:, None, None]
    values, mixtures = np.linalg.eigh(gram[client[..., None], halves[..., :, None], halves[..., None, :]])
    values, mixtures = values[..., : -p - 1 : -1], mixtures[..., : -p - 1 : -1]
    kept = (values > NEGLIGIBLE * values[..., :1]) & (values > 0)
    images = image[client, halves].swapaxes(2, 3) @ (mixtures / np.sqrt(np.where(kept, values, 1.0))[..., None, :])
    return _Halves(images.reshape(-1, *images.shape[2:]), np.asarray(kept.all(axis=(1, 2))))

"""Sketches: signatures in a few random directions that all clients share, for federations of many clients.

S = orth(RᵀU), where R (features x k) is drawn from the seed: 384 bytes for p = 3 and k = 32, whatever the features.
Distances between sketches are those of signatures with some noise, which halves of a client's samples show as well.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.similarity.halved_sketches import angles_of_halves
from coterie.similarity.measures import MEASURES
from coterie.similarity.signatures import NEGLIGIBLE, signature
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
Points = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]

AT_ONCE = 1024
"""Sketches that become points at a time."""


@lru_cache(maxsize=4)
def projection(features: int, k: int, seed: int) -> Floats:
    """Return R, (features, k): the same for all clients of a run.

    Its columns are orthonormal where there are no more of them than features, so that no direction counts for more than
    another: of normal numbers, with half as many directions as features, some count for six times as much.
    """
    drawn = stream(seed, "sketch").normal(size=(features, k))
    if k <= features:
        drawn = np.linalg.qr(drawn)[0]
    drawn.setflags(write=False)
    return drawn


def sketch(vectors: npt.ArrayLike, directions: Floats) -> Floats:
    """Return orth(RᵀU) of orthonormal vectors in columns, (k, as many); `directions` is R.

    >>> np.abs(sketch([[1.0], [0.0]], np.array([[3.0, 4.0], [1.0, 1.0]]))).round(6)
    array([[0.6],
           [0.8]])
    """
    image = directions.T @ np.asarray(vectors, np.float64)
    if image.shape[1] > len(image):
        raise ValueError(f"a sketch of {image.shape[1]} vectors needs at least as many directions, got {len(image)}")
    return _orthonormal(image)


def sketched_halves(x: npt.ArrayLike, p: int, orders: Index, directions: Floats, *, measure: str) -> float:
    """Split samples in half, several times; return the mean distance between the halves' sketches.

    In the unit of the measure. There are four samples or more; `orders` are random ones of them, whose first halves are
    compared with the second, (splits, samples).
    """
    samples = np.asarray(x)
    rows = samples.reshape(len(samples), -1).astype(np.float64)
    each = len(rows) // 2
    if measure == "theta1" and len(rows) <= rows.shape[1]:
        found = angles_of_halves((rows @ rows.T)[None], (rows @ directions)[None], orders[None], p)
        if found.usual.all():
            return float(found.apart[0])
    if len(rows) > rows.shape[1]:
        left = [sketch(signature(rows[o[:each]], p), directions) for o in orders]
        right = [sketch(signature(rows[o[each:]], p), directions) for o in orders]
    else:
        gram, image = rows @ rows.T, rows @ directions
        left, right = _of_rows(gram, image, orders[:, :each], p), _of_rows(gram, image, orders[:, each:], p)
    return float(MEASURES[measure](left, right).diagonal().mean())


def points(sketches: list[npt.NDArray[Any]]) -> Points:
    """Return svec(SSᵀ) of each sketch, (sketches, k (k + 1) / 2): as points, ‖a − b‖² = p + p′ − 2‖SᵀS′‖²_F.

    >>> points([np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])]).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    k = len(sketches[0])
    row, column = np.triu_indices(k)
    at, twice = row * k + column, np.where(row == column, 1.0, np.sqrt(2.0)).astype(np.float32)
    result = np.empty((len(sketches), len(row)), np.float32)
    widths = np.array([s.shape[1] for s in sketches])
    for width in np.unique(widths):
        members = np.flatnonzero(widths == width)
        for some in (members[i : i + AT_ONCE] for i in range(0, len(members), AT_ONCE)):
            s = np.stack([sketches[i] for i in some])
            result[some] = (s @ s.swapaxes(1, 2)).reshape(len(some), k * k).take(at, axis=1) * twice
    return result


def _of_rows(gram: Floats, image: Floats, halves: Index, p: int) -> list[Floats]:
    """Return the sketches of some rows each: Rᵀ Xᵀ V Λ^−½, of the eigenvectors V of their Gram matrix."""
    values, mixtures = np.linalg.eigh(gram[halves[:, :, None], halves[:, None, :]])
    values, mixtures = values[:, ::-1][:, :p], mixtures[:, :, ::-1][:, :, :p]
    kept = (values > NEGLIGIBLE * values[:, :1]) & (values > 0)
    images = image[halves].swapaxes(1, 2) @ (mixtures / np.sqrt(np.where(kept, values, 1.0))[:, None])
    if kept.all():
        return list(_orthonormal(images))
    return [_orthonormal(one[None, :, some])[0] for one, some in zip(images, kept, strict=True)]


def _orthonormal(images: Floats) -> Floats:
    return np.asarray(np.linalg.qr(images)[0])

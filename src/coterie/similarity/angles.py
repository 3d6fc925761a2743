"""Principal angles between clients' data subspaces (PACFL, Eqs. 2 and 3), for all pairs at once.

The vectors of many clients form one matrix, whose Gram matrix holds the products of all pairs; it is computed tile by
tile, to bound memory, and each tile is reduced to one angle per pair. Large problems are computed in
float32, and again in float64 where an angle comes out small, since the arc cosine magnifies rounding near 1.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from coterie.similarity.eigenvalues import gram, largest_eigenvalues

Floats = npt.NDArray[np.floating[Any]]
Angles = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

AngleMeasure = Literal["min_entry", "min_abs", "theta1", "trace", "sum_angles"]
ANGLE_MEASURES: tuple[AngleMeasure, ...] = get_args(AngleMeasure)

BLOCK = 2048
"""Vectors on each side of a tile: tiles of 2048 x 2048 products take 100 MB with all intermediate results."""
AT_ONCE = 8192
"""Pairs of clients whose largest eigenvalues are computed at once: what that takes stays in a core's cache."""
SMALL = 2**22
"""A Gram matrix with fewer entries than this is computed in float64 right away: it takes no time."""
NEAR = 2.0
"""Degrees below which (and above 180 minus which) float32 is not trusted; elsewhere it is accurate to 0.001°."""
ZERO = 1e-4
"""Degrees below which an angle is rounding: duplicates are exactly 0."""
NEGLIGIBLE = 1e-12
"""Share of the largest squared singular value below which a direction is only rounding error."""


def principal_angles(
    a: Sequence[npt.ArrayLike],
    b: Sequence[npt.ArrayLike] | None = None,
    measure: AngleMeasure = "theta1",
    *,
    block: int = BLOCK,
) -> Angles:
    """Return the angles in degrees between every signature of `a` and every one of `b`, (len a, len b).

    A signature has its vectors in columns, (features, width); widths may differ. Vectors count by their direction
    only. Without `b` the angles are those within `a`: symmetric, with a diagonal of 0. With u and v vectors of the
    two signatures, and Θ₁ ≤ Θ₂ ≤ … the principal angles between the spaces that they span, the measures are

    - `min_entry`: the smallest angle between a u and a v, up to 180° (as in the released PACFL code);
    - `min_abs`: the smallest angle between their lines, up to 90°;
    - `theta1`: Θ₁, the smallest angle between the spaces (Eq. 2);
    - `trace`: the sum of the angles between the lines of the first u and the first v, the second ones, and so on, while
      both have one (Eq. 3, and 5.2 of the dissertation, but for the sign of a vector, which no SVD fixes);
    - `sum_angles`: Θ₁ + Θ₂ + …, as many as the smaller space has dimensions (in neither text).

    A signature without any vector (its client's samples are all black) has no direction in common with others: it is
    at 90° from them (in the two sums, 90° for each of their vectors or dimensions), and at 0 from other empty ones.

    Angles are accurate to 0.001°, to 1e-6° where they are few or small; those below 1e-4° are exactly 0. `block` is the
    number of vectors on each side of a tile: it bounds the memory besides the float64 vectors and the result.

    >>> import numpy as np
    >>> x, y, z = np.eye(3)[:, [0]], np.eye(3)[:, [1]], np.eye(3)[:, [2]]
    >>> principal_angles([x, (x + y), np.hstack([y, z])])
    array([[ 0., 45., 90.],
           [45.,  0., 45.],
           [90., 45.,  0.]])
    """
    if measure not in ANGLE_MEASURES:
        raise ValueError(f"measure = {measure!r} is not one of {', '.join(ANGLE_MEASURES)}")
    if block < 1:
        raise ValueError(f"block = {block} should be at least 1")
    left = _checked(a, "a")
    right = left if b is None else _checked(b, "b")
    if left and right and len(left[0]) != len(right[0]):
        raise ValueError(f"b[0] has {len(right[0])} features, but a[0] has {len(left[0])}")
    angles = np.zeros((len(left), len(right)))
    rows = list(_blocks(left, measure, block))
    cols = rows if b is None else list(_blocks(right, measure, block))
    small = sum(x.size for x in rows) * sum(y.size for y in cols) <= SMALL
    with ThreadPoolExecutor(_cores()) as pool:
        for i, x in enumerate(rows):
            for y in cols[i:] if b is None else cols:
                tile = _tile(x, y, measure, pool, small)
                angles[np.ix_(x.clients, y.clients)] = tile
                if b is None:
                    angles[np.ix_(y.clients, x.clients)] = tile.T
    return angles


class _Block(NamedTuple):
    """Clients with the same number of unit vectors each."""

    clients: Index
    vectors: Floats
    """(clients, width, features)."""

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def size(self) -> int:
        return len(self.clients) * self.width


def _checked(signatures: Sequence[npt.ArrayLike], name: str) -> list[npt.NDArray[Any]]:
    arrays = [np.asarray(signature) for signature in signatures]
    if len({u.shape for u in arrays}) == 1 and arrays[0].ndim == 2 and _all_finite(arrays):
        return arrays
    for i, u in enumerate(arrays):
        if u.ndim != 2:
            raise ValueError(f"{name}[{i}] should have the shape (features, vectors), but has {u.shape}")
        if len(u) != len(arrays[0]):
            raise ValueError(f"{name}[{i}] has {len(u)} features, but {name}[0] has {len(arrays[0])}")
        if not np.isfinite(u).all():
            raise ValueError(f"{name}[{i}] holds NaN or infinity")
    return arrays


def _all_finite(arrays: list[npt.NDArray[Any]]) -> bool:
    """Say whether all numbers of arrays of one shape are finite, looking at many small arrays at a time."""
    at_once = max(1, AT_ONCE // max(1, arrays[0].size))
    return all(np.isfinite(arrays[i : i + at_once]).all() for i in range(0, len(arrays), at_once))


def _blocks(signatures: list[npt.NDArray[Any]], measure: AngleMeasure, block: int) -> Iterator[_Block]:
    """Batch clients with equally many vectors, and make these orthonormal if the measure needs it."""
    widths = np.array([u.shape[1] for u in signatures])
    for width in np.unique(widths):
        clients = np.flatnonzero(widths == width)
        at_once = max(1, block // max(1, width))
        for some in (clients[i : i + at_once] for i in range(0, len(clients), at_once)):
            vectors = _unit(np.stack([signatures[i].T for i in some], dtype=np.float64))
            if measure in ("theta1", "sum_angles") and width > 0:
                yield from _orthonormal(some, vectors)
            else:
                yield _Block(some, vectors)


def _unit(vectors: Angles) -> Angles:
    """Divide vectors by their lengths, in place."""
    lengths = np.sqrt(np.einsum("cwf,cwf->cw", vectors, vectors))
    vectors /= np.where(lengths > 0, lengths, 1)[:, :, None]
    return vectors


def _orthonormal(clients: Index, vectors: Angles) -> Iterator[_Block]:
    """Return orthonormal bases of what the vectors span, by eigenvectors of their Gram matrices.

    A second pass makes the bases orthonormal to the last digit, however dependent the vectors were.
    """
    values, mixtures = np.linalg.eigh(vectors @ vectors.swapaxes(1, 2))
    ranks = (values > NEGLIGIBLE * values[:, -1:]).sum(axis=1)
    for rank in np.unique(ranks):
        some = ranks == rank
        scaled = mixtures[some, :, -rank:] / np.sqrt(values[some, None, -rank:]) if rank else mixtures[some, :, :0]
        basis = scaled.swapaxes(1, 2) @ (vectors if some.all() else vectors[some])
        again, turned = np.linalg.eigh(basis @ basis.swapaxes(1, 2))
        yield _Block(clients[some], (turned / np.sqrt(again[:, None])).swapaxes(1, 2) @ basis)


def _tile(x: _Block, y: _Block, measure: AngleMeasure, pool: ThreadPoolExecutor, small: bool) -> Angles:
    """Return the angles between the clients of two blocks; a block with itself is symmetric, with a diagonal of 0."""
    if x.width == 0 or y.width == 0:
        width = max(x.width, y.width)
        right_angles = width if measure in ("trace", "sum_angles") else min(width, 1)
        return np.full((len(x.clients), len(y.clients)), 90.0 * right_angles)
    if small:
        angles = _degrees(_cosines(x.vectors, y.vectors, measure, pool))
    else:
        u = x.vectors.astype(np.float32)
        cosines = _cosines(u, u if x is y else y.vectors.astype(np.float32), measure, pool)
        angles = _degrees(cosines)
        largest = cosines[:, :, 0] if cosines.shape[2] == 1 else cosines.max(axis=2)  # of min_entry, also below 0
        near = np.abs(largest) > np.cos(np.radians(NEAR))
        if x is y:
            np.fill_diagonal(near, False)
        for rows, cols in _patches(near):
            angles[np.ix_(rows, cols)] = _degrees(_cosines(x.vectors[rows], y.vectors[cols], measure, pool))
    if x is y:
        angles = np.triu(angles, 1)
        angles += angles.T
    return angles


def _cosines(u: Floats, v: Floats, measure: AngleMeasure, pool: ThreadPoolExecutor) -> Floats:
    """Return the cosines of the angles that make up the measure, (clients, other clients, number of angles)."""
    (m, p, _), (n, q, _) = u.shape, v.shape
    if measure == "trace":
        return np.abs(np.stack([u[:, i] @ v[:, i].T for i in range(min(p, q))], axis=2))
    x = u.reshape(m * p, -1)
    y = x if u is v else v.reshape(n * q, -1)  # NumPy takes half the time where it sees that both are the same
    products = x @ y.T
    if measure == "min_abs":
        np.abs(products, out=products)
    if measure in ("min_entry", "min_abs"):
        largest: Floats = products.reshape(m, p, n * q).max(axis=1).reshape(m, n, q).max(axis=2)
        return largest[:, :, None]

    cosines = np.zeros((m, n, 1 if measure == "theta1" else min(p, q)))
    fast = measure == "theta1" and products.dtype == np.float32  # what is small, or near, is left to LAPACK
    step = max(1, AT_ONCE // n) if fast else max(1, -(-m // (4 * _cores())))

    def singular_values(i: int) -> None:
        """Fill in those of some clients; for a block with itself, only what its upper triangle needs."""
        j = i if u is v else 0
        some = products[i * p : (i + step) * p, j * q :]
        c = some.reshape(-1, p, n - j, q)
        if fast:
            cosines[i : i + step, j:, 0] = _largest_singular_values(c)
            return
        c = c.swapaxes(1, 2).astype(np.float64)
        values = np.linalg.eigvalsh(c @ c.swapaxes(2, 3) if p <= q else c.swapaxes(2, 3) @ c)
        cosines[i : i + step, j:] = np.sqrt(np.maximum(values[:, :, -cosines.shape[2] :], 0))

    run = map if m * n <= AT_ONCE else pool.map  # a thread takes longer to begin than few pairs take
    list(run(singular_values, range(0, m, step)))
    return cosines


def _largest_singular_values(c: Floats) -> Angles:
    """Return those of the matrices c[i, :, j], (clients, other clients)."""
    entries = np.ascontiguousarray(c.transpose(1, 3, 0, 2), np.float64)  # each in an array of its own
    narrow = entries if len(entries) <= entries.shape[1] else entries.swapaxes(0, 1)
    return np.asarray(np.sqrt(np.maximum(largest_eigenvalues(gram([list(row) for row in narrow])), 0)))


def _degrees(cosines: Floats) -> Angles:
    """Return the sums of the angles; those that are only rounding count as 0."""
    angles = np.degrees(np.arccos(np.clip(cosines, -1, 1), dtype=np.float64))
    angles[angles < ZERO] = 0.0
    total: Angles = angles.sum(axis=2)
    return total


def _patches(near: npt.NDArray[np.bool_]) -> Iterator[tuple[Index, Index]]:
    """Return rows and columns of patches that cover all near pairs: the connected components, as groups are."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    i, j = near.nonzero()
    if not len(i):
        return
    graph = coo_array((np.ones(len(i)), (i, len(near) + j)), shape=(sum(near.shape),) * 2)
    part = connected_components(graph, directed=False)[1]
    for number in np.unique(part[i]):
        yield np.flatnonzero(part[: len(near)] == number), np.flatnonzero(part[len(near) :] == number)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

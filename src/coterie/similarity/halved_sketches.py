"""How far apart the sketches of halves of samples are, for many clients and ways to halve at once."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.native.eigenvectors import leading_eigenvectors
from coterie.similarity.angles import ZERO
from coterie.similarity.eigenvalues import Entries, gram, largest_eigenvalues
from coterie.similarity.signatures import NEGLIGIBLE

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

WIDEST = 6
"""Vectors of a signature up to which each entry of a product of two is an array of its own."""
POOR = 1e-9
"""Share of a vector's squared length that is not along those before it, below which they are not told apart."""


class Halves(NamedTuple):
    """What is known of clients whose samples were halved."""

    apart: Floats
    """Mean of the smallest angles between sketches of two halves, in degrees, (clients,)."""
    usual: Bools
    """Whose it is: halves all span p directions, and so do their images, (clients,)."""


def angles_of_halves(products: Floats, images: Floats, orders: Index, p: int) -> Halves:
    """Compare first halves of samples with second ones, by p singular vectors each in the directions of sketches.

    `products` are those of each two samples of a client, (clients, n, n), `images` the samples in the directions of
    sketches, (clients, n, k), and `orders` whose first halves are compared with the second, (clients, splits, n). What
    a client gets does not depend on who else is there, to the last bit.
    """
    clients, splits, n = orders.shape
    if p > min(WIDEST, n // 2):
        return Halves(np.zeros(clients), np.zeros(clients, bool))
    weights, usual = np.zeros((clients, splits, 2, p, n)), np.ones(clients, bool)
    for which, half in enumerate((orders[..., : n // 2], orders[..., n // 2 :])):
        mixtures, clear = _mixtures(products, half, p)
        np.put_along_axis(weights[:, :, which], half[:, :, None], mixtures.swapaxes(2, 3), axis=3)
        usual &= clear
    sketched = weights.reshape(clients, -1, n) @ images
    every = np.arange(splits)
    both = (sketched @ sketched.swapaxes(1, 2)).reshape(clients, splits, 2, p, splits, 2, p)[:, every, :, :, every]
    entries = np.ascontiguousarray(both.transpose(2, 3, 4, 5, 1, 0))  # (2, p, 2, p, clients, splits)
    cosines, sound = _largest_cosines(entries)
    angles = np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0)))
    angles[angles < ZERO] = 0.0
    return Halves(angles.mean(axis=1), usual & sound.all(axis=1))


def _mixtures(products: Floats, half: Index, p: int) -> tuple[Floats, Bools]:
    """Return V Λ^−½ of each half, (clients, splits, samples of a half, p), and whose halves all span p directions."""
    client = np.arange(len(products))[:, None, None, None]
    values, mixtures = leading_eigenvectors(products[client, half[..., :, None], half[..., None, :]], p)
    kept = (values > NEGLIGIBLE * values[..., :1]) & (values > 0)
    return mixtures / np.sqrt(np.where(kept, values, 1.0))[..., None, :], np.asarray(kept.all(axis=(1, 2)))


def _largest_cosines(entries: Floats) -> tuple[Floats, Bools]:
    """Return cos Θ₁ between the spans of two bases, given their products, and whether both are bases.

    `entries` is (2, p, 2, p, …). With AᵀA = LLᵀ and BᵀB = MMᵀ it is the largest singular value of L⁻¹ AᵀB M⁻ᵀ.
    """
    p = entries.shape[1]
    (left, sound), (right, also) = (_cholesky([list(row) for row in entries[k, :, k]]) for k in (0, 1))
    between = [list(row) for row in entries[0, :, 1]]
    columns = [_solved(left, [between[i][j] for i in range(p)]) for j in range(p)]
    rows = [_solved(right, [columns[j][i] for j in range(p)]) for i in range(p)]
    return np.sqrt(np.maximum(largest_eigenvalues(gram(rows)), 0.0)), sound & also


def _cholesky(a: Entries) -> tuple[Entries, Bools]:
    """Return L with LLᵀ = A, each entry an array over all matrices, and where A is clearly positive definite."""
    lower: Entries = []
    sound = np.ones(a[0][0].shape, bool)
    for i, row in enumerate(a):
        made: list[Floats] = []
        for j in range(i):
            rest = sum((made[k] * lower[j][k] for k in range(j)), start=np.zeros_like(row[j]))
            made.append((row[j] - rest) / lower[j][j])
        left = row[i] - sum((entry * entry for entry in made), start=np.zeros_like(row[i]))
        clear = left > POOR * row[i]
        sound &= clear
        lower.append([*made, np.sqrt(np.where(clear, left, 1.0))])
    return lower, sound


def _solved(lower: Entries, right: list[Floats]) -> list[Floats]:
    """Return x with Lx = b, each entry an array over all matrices."""
    found: list[Floats] = []
    for i, value in enumerate(right):
        rest = sum((lower[i][k] * found[k] for k in range(i)), start=np.zeros_like(value))
        found.append((value - rest) / lower[i][i])
    return found

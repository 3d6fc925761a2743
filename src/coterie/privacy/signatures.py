"""Private second moments and label counts: what a client may tell of its samples. The unit is one sample.

A signature is made in three steps, of which only the second looks at the samples of others than one:

    z = φ(x) / max(1, ‖φ(x)‖)           φ is public: it depends on shapes and a seed, not on data
    C = Σ z zᵀ + noise                  adding or removing a sample changes Σ z zᵀ by ‖z zᵀ‖ = ‖z‖² ≤ 1
    eigenvectors of C                   post-processing

The noise is N(0, σ²) on each number of svec(C), which keeps lengths: the diagonal, and √2 times what is above it. Off
the diagonal C so has N(0, σ²/2). (Dwork et al., 2014, have σ² there too.) Samples are put into two halves by a coin
each, so that adding one moves no other; it is in one half, and of one label, so that all these matrices together cost
what one does.
"""

import math

import numpy as np
import numpy.typing as npt

from coterie.privacy.randomness import Floats, Randomness
from coterie.streams import stream

MOST_FEATURES = 64
"""k: noise has a spectral norm of about σ√(2k), above which the samples' directions must stand."""
JUST_BELOW = 1 - 2.0**-40
"""By which rows are shortened beyond 1, lest rounding leaves one longer."""
FINE = 2.0**-20
"""The grid on which noised numbers lie, as a share of σ."""


def mapped_shape(shape: tuple[int, ...], most: int = MOST_FEATURES) -> tuple[int, ...]:
    """Return the shape to which `public_map` brings samples of a shape: of up to `most` numbers.

    Images become cells: as many along a side as divide it, if there is such a number above half of what there is room
    for. What has few features stays as it is, and what has many becomes `most` of them.

    >>> mapped_shape((1, 28, 28)), mapped_shape((3, 32, 32)), mapped_shape((784,)), mapped_shape((12,))
    ((1, 7, 7), (3, 4, 4), (64,), (12,))
    """
    channels = math.prod(shape[:-2])
    if not 2 <= len(shape) <= 3 or channels > most:
        return (min(math.prod(shape), most),)
    room = math.isqrt(most // channels)

    def cells(side: int) -> int:
        dividing = (c for c in range(min(room, side), room // 2, -1) if side % c == 0)
        return max(dividing, default=min(room, side))

    return (*shape[:-2], cells(shape[-2]), cells(shape[-1]))


def public_map(x: npt.ArrayLike, to: tuple[int, ...], seed: int = 0) -> Floats:
    """Return samples in few features, (samples, k), each for itself and in the same way: `to` is of `mapped_shape`.

    Images, (samples, height, width) or (samples, channels, height, width), by the means of cells; others by a
    projection that the seed alone decides; what has as many numbers as wanted stays as it is.
    """
    samples = np.asarray(x)
    count, shape = len(samples), samples.shape[1:]
    if len(to) == 1:
        flat = samples.reshape(count, math.prod(shape)).astype(np.float64)
        if flat.shape[1] == to[0]:
            return flat
        directions = stream(seed, "public map").normal(size=(flat.shape[1], to[0])) / math.sqrt(to[0])
        return np.asarray(flat @ directions)
    if len(to) != len(shape) or to[:-2] != shape[:-2] or not all(1 <= c <= n for c, n in zip(to, shape, strict=True)):
        raise ValueError(f"samples of shape {shape} can't be brought to {to}")
    pooled = samples.astype(np.float64)
    for axis in (-2, -1):
        side, cells = samples.shape[axis], to[axis]
        starts = np.arange(cells) * side // cells
        lengths = np.diff(np.append(starts, side)).reshape(-1, *[1] * (-1 - axis))
        pooled = np.add.reduceat(pooled, starts, axis=axis) / lengths
    return pooled.reshape(count, -1)


def bounded_rows(features: npt.ArrayLike, exactly: bool = False) -> Floats:
    """Shorten rows to a norm of at most 1; with `exactly`, scale all of them to 1. A row that is not finite becomes 0.

    >>> bounded_rows([[3.0, 4.0], [0.3, 0.4], [np.inf, 0.0]]).round(9)
    array([[0.6, 0.8],
           [0.3, 0.4],
           [0. , 0. ]])
    """
    rows = np.array(features, np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows[~np.isfinite(largest[:, 0])] = 0.0
    largest = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    unit = rows / largest  # whose squares neither overflow nor vanish
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = np.divide(unit, length, out=np.zeros_like(unit), where=length > 0) * JUST_BELOW
    return unit if exactly else np.where(length * largest > JUST_BELOW, unit, rows)


def svec(matrix: npt.ArrayLike) -> Floats:
    """Return a symmetric matrix as a vector of the same length: the diagonal, then √2 times what is above it.

    >>> svec([[1.0, 2.0], [2.0, 3.0]])
    array([1.        , 3.        , 2.82842712])
    """
    square = np.asarray(matrix, np.float64)
    above = np.triu_indices(len(square), 1)
    return np.concatenate([np.diag(square), math.sqrt(2) * square[above]])


def smat(vector: npt.ArrayLike) -> Floats:
    """Return the symmetric matrix of a vector by `svec`."""
    numbers = np.asarray(vector, np.float64)
    size = (math.isqrt(8 * len(numbers) + 1) - 1) // 2
    if size * (size + 1) // 2 != len(numbers):
        raise ValueError(f"no symmetric matrix has {len(numbers)} numbers")
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = numbers[size:] / math.sqrt(2)
    return matrix + matrix.T + np.diag(numbers[:size])


def noised(values: npt.ArrayLike, sigma: float, randomness: Randomness) -> Floats:
    """Add N(0, σ²) to each number, and round to a grid of about 10⁻⁶ σ.

    Without it the last digits of a sum of floats would tell what was added to what (Mironov, 2012).
    """
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma = {sigma} should be greater than 0, and finite")
    exact = np.asarray(values, np.float64)
    grid = 2.0 ** math.floor(math.log2(sigma * FINE))
    noise = randomness.standard_normal(exact.size).reshape(exact.shape)
    return np.asarray(np.round((exact + sigma * noise) / grid) * grid)


def private_second_moments(
    rows: Floats,
    sigma: float,
    randomness: Randomness,
    labels: npt.NDArray[np.int64] | None = None,
    classes: int = 1,
) -> Floats:
    """Return noised Σ z zᵀ of the samples of each label and half, (classes, 2, k, k); without labels they are of one.

    All of it is one release of sensitivity 1, if a sample is added or removed (√2 if one is replaced). Labels without
    samples have noise like the others: which ones a client has is not told.
    """
    if len(rows) and np.linalg.norm(rows, axis=1).max() > 1:
        raise ValueError("rows should have a norm of at most 1: shorten them by bounded_rows")
    label = np.zeros(len(rows), np.int64) if labels is None else np.asarray(labels)
    if len(label) != len(rows) or not np.isin(label, np.arange(classes)).all():
        raise ValueError(f"each of the {len(rows)} rows should have a label of 0 to {classes - 1}")
    half = np.asarray(randomness.random(len(rows)) < 0.5, np.int64)
    parts = [rows[(label == c) & (half == h)] for c in range(classes) for h in (0, 1)]
    exact = np.stack([svec(part.T @ part) for part in parts])
    matrices = np.stack([smat(vector) for vector in noised(exact, sigma, randomness)])
    return matrices.reshape(classes, 2, *matrices.shape[1:])


def private_label_counts(labels: npt.NDArray[np.int64], classes: int, sigma: float, randomness: Randomness) -> Floats:
    """Return the noised number of samples of each label, of which some may be negative; sensitivity 1."""
    return noised(np.bincount(labels, minlength=classes), sigma, randomness)


def leading_vectors(matrix: Floats, p: int) -> Floats:
    """Return the eigenvectors of the `p` largest eigenvalues, (k, p), with signs as `coterie.similarity.signature`."""
    vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :p]
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))

"""How far two clients' samples are from each other, by measures of the literature (ALGORITHMS 9).

These see samples, or moments of them that tell a lot about them: they are for simulations, not for a federation.
Samples stand in rows; what has more axes is flattened, and bytes are brought to [0, 1]. For two samples there is a
function each; for all pairs of many clients `pairwise` works out each client's statistics once:

>>> import numpy as np
>>> near, same, far = (np.random.default_rng(i).normal(mean, 1, (200, 1)) for i, mean in enumerate((0, 0, 5)))
>>> pairwise("emd", [near, same, far]).round(1)
array([[0. , 0.1, 5. ],
       [0.1, 0. , 5.1],
       [5. , 5.1, 0. ]])
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from coterie.similarity.signatures import signature
from coterie.streams import stream

Floats = npt.NDArray[np.float64]

SampleMeasure = Literal["bhattacharyya", "kl", "kl_symmetric", "mmd", "emd", "emd_pixel", "cka"]
SAMPLE_MEASURES: tuple[SampleMeasure, ...] = get_args(SampleMeasure)
"""What `pairwise` knows; all are distances but `cka`, a similarity of 1 between equals."""

COMPONENTS = 32
"""Principal components to which `pairwise` and the sliced Wasserstein distance reduce samples of more features."""
PROJECTIONS = 64
"""Directions of the sliced Wasserstein distance."""
RIDGE = 1e-6
"""Share of its mean variance that is added to each variance of a covariance."""
FITTED = 2048
"""Principal components, and the bandwidth of MMD, are those of about so many samples, evenly taken from all clients."""
MOMENTS = 128
"""Directions in which second moments of more than twice as many features are compared."""
ROUNDING = 1e-24
"""A variance below this share of the squared mean is the rounding of equal samples."""
AT_ONCE = 2**22
"""Entries of the kernel that are computed at a time."""
LARGE = 2**26
"""Where more pairs of samples than this are compared, the kernel is computed in float32."""


def bhattacharyya(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the Bhattacharyya distance between the Gaussians that two samples suggest.

    1/8 Δμᵀ Σ̄⁻¹ Δμ + 1/2 ln(det Σ̄ / √(det Σx det Σy)) with Σ̄ = (Σx + Σy) / 2, covariances as of maximum likelihood.

    To each covariance Σ of F features 1e-6 tr(Σ)/F is added on the diagonal, so that a singular one (fewer samples
    than features, constant features) has an inverse: distances are then large, but finite. A sample without any
    spread (one row, or equal rows) gets this of both samples together; two such samples that are equal are at 0.
    """
    return _bhattacharyya(*map(_moments, _checked([x, y])))


def kl_divergence(x: npt.ArrayLike, y: npt.ArrayLike, symmetric: bool = False) -> float:
    """Return the Kullback-Leibler divergence KL(x ‖ y) of the Gaussians that two samples suggest.

    1/2 [tr(Σy⁻¹ Σx) + Δμᵀ Σy⁻¹ Δμ − F + ln(det Σy / det Σx)]; `symmetric`: the mean of KL(x ‖ y) and KL(y ‖ x).
    Covariances are made regular as in `bhattacharyya`.
    """
    a, b = map(_moments, _checked([x, y]))
    return (_kl(a, b) + _kl(b, a)) / 2 if symmetric else _kl(a, b)


def mmd(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    bandwidth: float | None = None,
    unbiased: bool = False,
    squared: bool = False,
) -> float:
    """Return the maximum mean discrepancy of two samples with the kernel exp(−d² / 2σ²).

    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y), and MMD its root; `squared` asks for MMD². `unbiased` leaves
    the pairs of a row with itself out of the first two means (of one row they are 1), so that MMD² may come out below
    0; MMD is then 0. σ is `bandwidth`, or the median distance between two rows of both samples together (of about
    2,048 of them, evenly taken); where over half of these are 0, the mean of the others; 1 where all rows are equal.
    """
    rows = _checked([x, y])
    distance = _mmd(rows, _bandwidth(rows, bandwidth), unbiased)[0, 1]
    return float(distance if squared else np.sqrt(max(distance, 0.0)))


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
    rows = _checked(reduced([x, y], components))
    return float(_sliced(rows, projections, seed)[0, 1])


def emd_pixel(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the earth mover's distance between the distributions of the pixel values of two mean images."""
    return float(_emd_pixel([x, y])[0, 1])


def label_total_variation(counts: npt.ArrayLike) -> Floats:
    """Return the total variation between clients' label distributions, from 0 to 1, (clients, clients).

    `counts` says how many samples of each class each client has, (clients, classes). A client without any sample is
    at 1 from those who have some, and at 0 from others without.

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


def linear_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the linear centred kernel alignment of two sets of features of the same inputs, in rows; 1 is the same.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, columns centred: what two networks' layers make of the same images.
    It does not change if either is turned or scaled. Features that are constant have an alignment of 0 with others,
    and of 1 with constant ones.
    """
    a, b = (_rows(z, name) for z, name in ((x, "x"), (y, "y")))
    if len(a) != len(b):
        raise ValueError(f"x has {len(a)} rows and y {len(b)}, which should be of the same inputs")
    a, b = (z - z[:1] for z in (a, b))
    return _alignment(*(z - z.mean(axis=0) for z in (a, b)))


def moment_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the alignment of the second moments of two samples, from 0 to 1; 1 is the same up to scale.

    ⟨Sx, Sy⟩ / (‖Sx‖ ‖Sy‖) with Sx = XᵀX, not centred: linear CKA between features, for clients whose samples are
    different ones. Samples that are all 0 have an alignment of 0 with others, and of 1 with each other. Of more than
    256 features only what lies in the first 128 singular directions of all samples is compared (of about 2,048 of
    them, evenly taken): for photographs that is good to 0.001.
    """
    return float(_moment_cka([x, y])[0, 1])


def pairwise(
    measure: SampleMeasure,
    samples: Sequence[npt.ArrayLike],
    *,
    components: int | None = COMPONENTS,
    projections: int = PROJECTIONS,
    bandwidth: float | None = None,
    unbiased: bool = False,
    seed: int = 0,
) -> Floats:
    """Return a measure between all pairs of clients' samples, (clients, clients).

    - `bhattacharyya`, `kl` (entry i, j is KL(i ‖ j), the only one that is not symmetric), `kl_symmetric`;
    - `mmd`: MMD, with one bandwidth for all pairs;
    - `emd`: the sliced Wasserstein distance;
    - `emd_pixel`, and `cka`, which is `moment_cka`.

    All but the last two first reduce samples of more features to the first 32 principal `components` of all clients
    together; to use several measures, call `reduced` once. The diagonal is exactly 0, of `cka` 1.
    """
    if measure not in SAMPLE_MEASURES:
        raise ValueError(f"measure = {measure!r} is not one of {', '.join(SAMPLE_MEASURES)}")
    if len(samples) == 0:
        return np.zeros((0, 0))
    if measure == "cka":
        return _moment_cka(samples)
    if measure == "emd_pixel":
        return _emd_pixel(samples)
    rows = _checked(reduced(samples, components))
    if measure == "emd":
        return _sliced(rows, projections, seed)
    if measure == "mmd":
        return np.asarray(np.sqrt(np.maximum(_mmd(rows, _bandwidth(rows, bandwidth), unbiased), 0.0)))
    gaussians = [_moments(x) for x in rows]
    if measure == "bhattacharyya":
        return _each_pair(_bhattacharyya, gaussians)
    directed = np.array([[0.0 if a is b else _kl(a, b) for b in gaussians] for a in gaussians])
    return directed if measure == "kl" else (directed + directed.T) / 2


def reduced(samples: Sequence[npt.ArrayLike], components: int | None = COMPONENTS) -> list[Floats]:
    """Return clients' samples by the first principal components of all together, (samples, ≤ components) each.

    Components are those of about 2,048 samples, evenly taken from all, each client in its share. Samples of no more
    features than `components` stay as they are, and so do all where it is None.
    """
    arrays = [np.asarray(x) for x in samples]
    if components is not None and components < 1:
        raise ValueError(f"components = {components} should be at least 1")
    if components is None or not arrays or _features(arrays[0]) <= components:
        return _checked(samples)
    _same_features(arrays)
    fitted = _rows(_some(arrays), "samples")
    centre = fitted.mean(axis=0)
    axes = signature(fitted - centre, components)
    if axes.shape[1] == 0:  # all are equal
        axes = np.eye(len(axes), 1)
    return [(x - centre) @ axes for x in (_rows(x, f"samples[{i}]") for i, x in enumerate(arrays))]


class _Moments(NamedTuple):
    """A Gaussian."""

    mean: Floats
    covariance: Floats
    variance: float
    """The trace of the covariance."""


def _rows(x: npt.ArrayLike, name: str) -> Floats:
    """Return samples as rows of float64, bytes brought to [0, 1]."""
    array = np.asarray(x)
    if array.ndim < 2 or len(array) == 0 or _features(array) == 0:
        raise ValueError(f"{name} should have samples in rows, at least one, but has the shape {array.shape}")
    rows = array.reshape(len(array), -1).astype(np.float64)
    if array.dtype == np.uint8:
        rows /= 255.0
    elif not np.isfinite(rows).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return rows


def _features(array: npt.NDArray[Any]) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64))


def _same_features(arrays: Sequence[npt.NDArray[Any]]) -> None:
    for i, x in enumerate(arrays):
        if _features(x) != _features(arrays[0]):
            raise ValueError(f"samples[{i}] has {_features(x)} features, but samples[0] has {_features(arrays[0])}")


def _checked(samples: Sequence[npt.ArrayLike]) -> list[Floats]:
    rows = [_rows(x, f"samples[{i}]") for i, x in enumerate(samples)]
    _same_features(rows)
    return rows


def _some(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return rows of all clients, evenly taken, of each at least one."""
    step = max(1, -(-sum(map(len, arrays)) // FITTED))
    return np.concatenate([x[::step] for x in arrays])


def _each_pair(measure: Callable[[Any, Any], float], items: Sequence[Any]) -> Floats:
    """Return a symmetric measure of all pairs, with a diagonal of 0."""
    result = np.zeros((len(items), len(items)))
    for i, a in enumerate(items):
        for j, b in enumerate(items[:i]):
            result[i, j] = result[j, i] = measure(a, b)
    return result


def _moments(rows: Floats) -> _Moments:
    shifted = rows - rows[0]  # so that equal rows have exactly no spread
    centred = shifted - shifted.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    mean = rows[0] + shifted.mean(axis=0)
    variance = float(np.trace(covariance))
    if variance <= ROUNDING * float(mean @ mean):
        return _Moments(mean, np.zeros_like(covariance), 0.0)
    return _Moments(mean, covariance, variance)


def _regular(a: _Moments, b: _Moments) -> tuple[Floats, Floats] | None:
    """Return both covariances made regular; None if all samples are equal."""
    together = (a.variance + b.variance) / 2 + float(np.sum((a.mean - b.mean) ** 2)) / 4
    if together == 0:
        return None
    one = np.eye(len(a.mean)) * (RIDGE / len(a.mean))
    return a.covariance + one * (a.variance or together), b.covariance + one * (b.variance or together)


def _bhattacharyya(a: _Moments, b: _Moments) -> float:
    regular = _regular(a, b)
    if regular is None:
        return 0.0
    middle = (regular[0] + regular[1]) / 2
    apart = a.mean - b.mean
    x, y, both = (float(np.linalg.slogdet(sigma)[1]) for sigma in (*regular, middle))
    distance = float(apart @ np.linalg.solve(middle, apart)) / 8 + (both - (x + y) / 2) / 2
    return max(distance, 0.0)


def _kl(a: _Moments, b: _Moments) -> float:
    regular = _regular(a, b)
    if regular is None:
        return 0.0
    apart = a.mean - b.mean
    solved = np.linalg.solve(regular[1], np.column_stack([regular[0], apart]))
    x, y = (float(np.linalg.slogdet(sigma)[1]) for sigma in regular)
    divergence = (float(np.trace(solved)) + float(apart @ solved[:, -1]) - len(apart) + y - x) / 2
    return max(divergence, 0.0)


def _bandwidth(rows: Sequence[Floats], given: float | None) -> float:
    if given is not None:
        if not (np.isfinite(given) and given > 0):
            raise ValueError(f"bandwidth = {given} should be greater than 0")
        return given
    from scipy.spatial.distance import pdist

    distances = pdist(_some(rows))
    median = float(np.median(distances)) if len(distances) else 0.0
    if median == 0:
        some = distances[distances > 0]
        return float(some.mean()) if len(some) else 1.0
    return median


def _mmd(rows: Sequence[Floats], bandwidth: float, unbiased: bool) -> Floats:
    """Return MMD² of all pairs, from the mean of the kernel between any two clients."""
    centre = np.mean([x.mean(axis=0) for x in rows], axis=0)
    accuracy: Any = np.float32 if sum(map(len, rows)) ** 2 > LARGE else np.float64
    scaled = ((np.concatenate(rows) - centre) / bandwidth).astype(accuracy)
    lengths = np.einsum("ij,ij->i", scaled, scaled) / 2
    ends = np.cumsum([0, *map(len, rows)])
    sums = np.zeros((len(rows), len(rows)))
    for i, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):  # with itself and those before
        step = max(1, AT_ONCE // end)
        for some in (slice(start, min(start + step, end)) for start in range(begin, end, step)):
            kernel = scaled[some] @ scaled[:end].T
            kernel -= lengths[some, None]
            kernel -= lengths[:end]
            np.exp(np.minimum(kernel, 0, out=kernel), out=kernel)
            sums[i, : i + 1] += np.add.reduceat(kernel.sum(axis=0, dtype=np.float64), ends[: i + 1])
    sums = np.tril(sums) + np.tril(sums, -1).T
    n = np.array([len(x) for x in rows], np.float64)
    within = sums.diagonal() / n**2
    if unbiased:
        within = np.where(n > 1, (sums.diagonal() - n) / np.maximum(n * (n - 1), 1), 1.0)
    result = within[:, None] + within - 2 * sums / np.outer(n, n)
    np.fill_diagonal(result, 0.0)
    return np.asarray(result)


def _sliced(rows: Sequence[Floats], projections: int, seed: int) -> Floats:
    """Return the sliced Wasserstein distance of all pairs; projections are sorted once per client."""
    if projections < 1:
        raise ValueError(f"projections = {projections} should be at least 1")
    directions = stream(seed, "projections").normal(size=(rows[0].shape[1], projections))
    directions /= np.linalg.norm(directions, axis=0)
    return _each_pair(_earth_movers, [np.sort(x @ directions, axis=0) for x in rows])


def _emd_pixel(samples: Sequence[npt.ArrayLike]) -> Floats:
    _same_features([np.asarray(x) for x in samples])
    means = [_rows(x, f"samples[{i}]").mean(axis=0) for i, x in enumerate(samples)]
    return _each_pair(_earth_movers, [np.sort(mean)[:, None] for mean in means])


def _earth_movers(x: Floats, y: Floats) -> float:
    """Return the mean over columns, each sorted, of the area between two quantile functions."""
    if len(x) == len(y):
        return float(np.abs(x - y).mean())
    steps = np.union1d(np.arange(1, len(x) + 1) * len(y), np.arange(1, len(y) + 1) * len(x))  # of 1 / (n m)
    widths = np.diff(steps, prepend=0) / (len(x) * len(y))
    apart = np.abs(x[(steps - 1) // len(y)] - y[(steps - 1) // len(x)])
    return float((widths @ apart).mean())


def _alignment(a: Floats, b: Floats) -> float:
    """Return ⟨aaᵀ, bbᵀ⟩ / (‖aaᵀ‖ ‖bbᵀ‖), by whichever of the products is smaller."""
    if len(a) <= max(a.shape[1], b.shape[1]):
        first, second = a @ a.T, b @ b.T
        products = [float(np.vdot(u, v)) for u, v in ((first, second), (first, first), (second, second))]
    else:
        products = [float(np.sum((u.T @ v) ** 2)) for u, v in ((a, b), (a, a), (b, b))]
    return float(_cosine(*map(np.float64, products)))


def _moment_cka(samples: Sequence[npt.ArrayLike]) -> Floats:
    """Return the cosines between the second moments of all pairs."""
    arrays = [np.asarray(x) for x in samples]
    _same_features(arrays)
    axes = signature(_rows(_some(arrays), "samples"), MOMENTS) if _features(arrays[0]) > 2 * MOMENTS else None
    moments = []
    for i, x in enumerate(arrays):
        rows = _rows(x, f"samples[{i}]")
        rows = rows if axes is None else rows @ axes
        moment = (rows.T @ rows).ravel()
        moments.append(moment / (np.linalg.norm(moment) or 1.0))
    flat = np.stack(moments)
    products = flat @ flat.T
    result = _cosine(products, products.diagonal()[:, None], products.diagonal())
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)


def _cosine(product: Any, first: Any, second: Any) -> Any:
    """Return a product of two by their lengths, squares of which are given; 1 of two that are 0, 0 of one."""
    lengths = np.sqrt(first) * np.sqrt(second)
    cosine = np.clip(product / np.where(lengths > 0, lengths, 1.0), 0.0, 1.0)
    return np.where(lengths > 0, cosine, (np.maximum(first, second) == 0) * 1.0)

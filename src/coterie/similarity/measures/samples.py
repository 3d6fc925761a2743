"""Measures between clients' samples, which only a simulation can see, and the same for two samples.

Measures of all pairs are registered; those for two samples are plain functions.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from coterie.similarity.measures import measure
from coterie.similarity.samples import (
    COMPONENTS,
    Floats,
    as_rows,
    check_features,
    checked,
    cka_of_grams,
    each_pair,
    evenly_taken,
    features_of,
    reduced,
)
from coterie.similarity.signatures import signature
from coterie.streams import stream

Samples = Sequence[npt.ArrayLike]

SHADES = "shades, 0 to 1"
PROJECTIONS = 64
"""Directions of the sliced Wasserstein distance."""
AT_ONCE = 2**22
"""Entries of MMD's kernel that are computed at a time."""
LARGE = 2**26
"""If more pairs of samples than this are compared, the kernel is computed in float32."""
RIDGE = 1e-6
"""Share of its mean variance that is added to each variance of a covariance."""
ROUNDING = 1e-24
"""A variance below this share of the squared mean is only rounding: the samples are equal."""
MOMENTS = 128
"""Directions in which second moments are compared, if there are more than twice as many features."""


def sliced_wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    projections: int = PROJECTIONS,
    *,
    components: int | None = COMPONENTS,
    seed: int = 0,
) -> float:
    """Return the mean of the earth mover's distances between two samples projected to random directions.

    Samples with more features are first reduced to the first principal `components` of both together; None skips
    this. Directions are uniform on the sphere and depend on the seed and the number of features only. With one
    feature this is the earth mover's distance itself. It has the unit of the samples.
    """
    return float(sliced_wasserstein_of_pairs(reduced([x, y], components), projections=projections, seed=seed)[0, 1])


@measure("emd", needs="samples", title="earth mover's distance (sliced)", unit=SHADES, components=True)
def sliced_wasserstein_of_pairs(
    samples: Samples,
    *,
    projections: Annotated[int, Ge(1), "random directions"] = PROJECTIONS,
    seed: Annotated[int, Ge(0), "of the directions; in a run, by default its seed"] = 0,
) -> Floats:
    """How far samples would have to move (mean over 64 directions of 32 principal components)."""
    rows = checked(samples)
    if projections < 1:
        raise ValueError(f"projections = {projections} should be at least 1")
    directions = stream(seed, "projections").normal(size=(rows[0].shape[1], projections))
    directions /= np.linalg.norm(directions, axis=0)
    return each_pair(_earth_movers, [np.sort(x @ directions, axis=0) for x in rows])


def emd_pixel(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the earth mover's distance between the distributions of the pixel values of two mean images."""
    return float(emd_pixel_of_pairs([x, y])[0, 1])


@measure("emd_pixel", needs="samples", title="earth mover's distance of mean images", unit=SHADES)
def emd_pixel_of_pairs(samples: Samples) -> Floats:
    """Do the mean images have the same shades, wherever they are."""
    check_features([np.asarray(x) for x in samples])
    means = [as_rows(x, f"samples[{i}]").mean(axis=0) for i, x in enumerate(samples)]
    return each_pair(_earth_movers, [np.sort(mean)[:, None] for mean in means])


def _earth_movers(x: Floats, y: Floats) -> float:
    """Return the mean over columns, each sorted, of the area between two quantile functions."""
    if len(x) == len(y):
        return float(np.abs(x - y).mean())
    steps = np.union1d(np.arange(1, len(x) + 1) * len(y), np.arange(1, len(y) + 1) * len(x))  # of 1 / (n m)
    widths = np.diff(steps, prepend=0) / (len(x) * len(y))
    apart = np.abs(x[(steps - 1) // len(y)] - y[(steps - 1) // len(x)])
    return float((widths @ apart).mean())


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
    2,048 of them, evenly taken); if over half of these are 0, the mean of the others; 1 if all rows are equal.
    """
    rows = checked([x, y])
    distance = _mmd(rows, _bandwidth(rows, bandwidth), unbiased)[0, 1]
    return float(distance if squared else np.sqrt(max(distance, 0.0)))


@measure("mmd", needs="samples", title="maximum mean discrepancy", components=True)
def mmd_of_pairs(
    samples: Samples,
    *,
    bandwidth: Annotated[float | None, Gt(0), "of the kernel; by default the median distance"] = None,
    unbiased: Annotated[bool, "leave out the pairs of a sample with itself"] = False,
) -> Floats:
    """Do samples lie in the same regions (Gaussian kernel, median bandwidth)."""
    rows = checked(samples)
    return np.asarray(np.sqrt(np.maximum(_mmd(rows, _bandwidth(rows, bandwidth), unbiased), 0.0)))


def _bandwidth(rows: Sequence[Floats], given: float | None) -> float:
    if given is not None:
        if not (np.isfinite(given) and given > 0):
            raise ValueError(f"bandwidth = {given} should be greater than 0")
        return given
    from scipy.spatial.distance import pdist

    distances = pdist(evenly_taken(rows))
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


def bhattacharyya(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the Bhattacharyya distance between Gaussians fitted to two samples.

    1/8 Δμᵀ Σ̄⁻¹ Δμ + 1/2 ln(det Σ̄ / √(det Σx det Σy)) with Σ̄ = (Σx + Σy) / 2 and maximum-likelihood covariances.

    To each covariance Σ of F features 1e-6 tr(Σ)/F is added on the diagonal, so that a singular one (fewer samples
    than features, constant features) has an inverse: distances are then large, but finite. A sample without any
    spread (one row, or equal rows) gets that of both samples together; two equal samples of this kind are at 0.
    """
    return _bhattacharyya(*map(_moments, checked([x, y])))


@measure("bhattacharyya", needs="samples", title="Bhattacharyya distance", components=True)
def bhattacharyya_of_pairs(samples: Samples) -> Floats:
    """Do two Gaussians with the clients' means and covariances overlap."""
    return each_pair(_bhattacharyya, [_moments(rows) for rows in checked(samples)])


def kl_divergence(x: npt.ArrayLike, y: npt.ArrayLike, symmetric: bool = False) -> float:
    """Return the Kullback-Leibler divergence KL(x ‖ y) of Gaussians fitted to two samples.

    1/2 [tr(Σy⁻¹ Σx) + Δμᵀ Σy⁻¹ Δμ − F + ln(det Σy / det Σx)]; `symmetric`: the mean of KL(x ‖ y) and KL(y ‖ x).
    Covariances are regularised as in `bhattacharyya`.
    """
    a, b = map(_moments, checked([x, y]))
    return (_kl(a, b) + _kl(b, a)) / 2 if symmetric else _kl(a, b)


@measure("kl", needs="samples", title="Kullback-Leibler divergence", unit="nats", symmetric=False, components=True)
def kl_of_pairs(samples: Samples) -> Floats:
    """How badly the Gaussian of one client describes another; not symmetric."""
    gaussians = [_moments(rows) for rows in checked(samples)]
    return np.array([[0.0 if a is b else _kl(a, b) for b in gaussians] for a in gaussians])


@measure("kl_symmetric", needs="samples", title="symmetrised Kullback-Leibler divergence", unit="nats", components=True)
def kl_symmetric_of_pairs(samples: Samples) -> Floats:
    """The mean of both directions."""
    directed = kl_of_pairs(samples)
    return (directed + directed.T) / 2


class _Moments(NamedTuple):
    """A Gaussian."""

    mean: Floats
    covariance: Floats
    variance: float
    """The trace of the covariance."""


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
    """Return both covariances, regularised; None if all samples are equal."""
    together = (a.variance + b.variance) / 2 + float(np.sum((a.mean - b.mean) ** 2)) / 4
    if together == 0:
        return None
    ridge = np.eye(len(a.mean)) * (RIDGE / len(a.mean))
    return a.covariance + ridge * (a.variance or together), b.covariance + ridge * (b.variance or together)


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


def moment_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the alignment of the second moments of two samples, from 0 to 1; 1 is the same up to scale.

    ⟨Sx, Sy⟩ / (‖Sx‖ ‖Sy‖) with Sx = XᵀX, not centred: linear CKA between features, for clients whose samples
    differ. Samples that are all 0 have an alignment of 0 with others, and of 1 with each other. With more
    than 256 features, only the first 128 singular directions of all samples are compared (of about 2,048 of them,
    evenly taken): for photographs that is accurate to 0.001.
    """
    return float(moment_cka_of_pairs([x, y])[0, 1])


@measure("cka", needs="samples", title="CKA of second moments", similarity=True)
def moment_cka_of_pairs(samples: Samples) -> Floats:
    """Do features vary together in the same way: 1 is the same up to scale."""
    arrays = [np.asarray(x) for x in samples]
    check_features(arrays)
    many = features_of(arrays[0]) > 2 * MOMENTS
    axes = signature(as_rows(evenly_taken(arrays), "samples"), MOMENTS) if many else None
    moments = []
    for i, x in enumerate(arrays):
        rows = as_rows(x, f"samples[{i}]")
        rows = rows if axes is None else rows @ axes
        moment = rows.T @ rows
        moments.append(moment / (np.linalg.norm(moment.ravel()) or 1.0))
    return cka_of_grams(moments)

"""Distances between samples as measures."""

from collections.abc import Sequence
from typing import Annotated

import numpy.typing as npt
from annotated_types import Ge, Gt

from coterie.similarity.cka import moment_cka_of_pairs
from coterie.similarity.discrepancy import mmd_of_pairs
from coterie.similarity.gaussians import bhattacharyya_of_pairs, kl_of_pairs
from coterie.similarity.measures import measure
from coterie.similarity.samples import Floats
from coterie.similarity.wasserstein import PROJECTIONS, emd_pixel_of_pairs, sliced_wasserstein_of_pairs

Samples = Sequence[npt.ArrayLike]
SHADES = "shades, 0 to 1"


@measure("emd", needs="samples", title="earth mover's distance (sliced)", unit=SHADES, components=True)
def emd(
    samples: Samples,
    *,
    projections: Annotated[int, Ge(1), "random directions"] = PROJECTIONS,
    seed: Annotated[int, Ge(0), "of the directions; in a run, by default its seed"] = 0,
) -> Floats:
    """How far samples would have to move (mean over 64 directions of 32 principal components)."""
    return sliced_wasserstein_of_pairs(samples, projections=projections, seed=seed)


@measure("emd_pixel", needs="samples", title="earth mover's distance of mean images", unit=SHADES)
def emd_pixel(samples: Samples) -> Floats:
    """Do the mean images have the same shades, wherever they are."""
    return emd_pixel_of_pairs(samples)


@measure("mmd", needs="samples", title="maximum mean discrepancy", components=True)
def mmd(
    samples: Samples,
    *,
    bandwidth: Annotated[float | None, Gt(0), "of the kernel; by default the median distance"] = None,
    unbiased: Annotated[bool, "leave out the pairs of a sample with itself"] = False,
) -> Floats:
    """Do samples lie in the same regions (Gaussian kernel, median bandwidth)."""
    return mmd_of_pairs(samples, bandwidth=bandwidth, unbiased=unbiased)


@measure("bhattacharyya", needs="samples", title="Bhattacharyya distance", components=True)
def bhattacharyya(samples: Samples) -> Floats:
    """Do two Gaussians with the clients' means and covariances overlap."""
    return bhattacharyya_of_pairs(samples)


@measure("kl", needs="samples", title="Kullback-Leibler divergence", unit="nats", symmetric=False, components=True)
def kl(samples: Samples) -> Floats:
    """How badly the Gaussian of one client describes another; not symmetric."""
    return kl_of_pairs(samples)


@measure("kl_symmetric", needs="samples", title="symmetrised Kullback-Leibler divergence", unit="nats", components=True)
def kl_symmetric(samples: Samples) -> Floats:
    """The mean of both directions."""
    directed = kl_of_pairs(samples)
    return (directed + directed.T) / 2


@measure("cka", needs="samples", title="CKA of second moments", similarity=True)
def cka(samples: Samples) -> Floats:
    """Do features vary together in the same way: 1 is the same up to scale."""
    return moment_cka_of_pairs(samples)

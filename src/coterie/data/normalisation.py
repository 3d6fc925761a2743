"""How raw inputs are brought to mean 0 and standard deviation 1."""

import numpy as np

from coterie.data.federated import Array, Normalisation

_GREY = Normalisation(255.0, (0.1307,), (0.3081,))

# The constants of the reference code (ALGORITHMS 0.3), which published numbers were made with.
PUBLISHED = {
    "mnist": _GREY,
    "fashion_mnist": _GREY,
    "usps": _GREY,
    "cifar10": Normalisation(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": Normalisation(255.0, (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    "svhn": Normalisation(255.0, (0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)),
}


def published(name: str, raw: Array) -> Normalisation | None:
    """Return the published constants of a data set, if the inputs are the images that they were made for."""
    constants = PUBLISHED.get(name)
    fits = constants is not None and raw.dtype == np.uint8 and raw.ndim == 4 and raw.shape[1] == len(constants.mean)
    return constants if fits else None


def measured(raw: Array) -> Normalisation:
    """Return the normalisation measured on inputs: images per channel, vectors per feature.

    Bytes are taken as shades 0..255. The features of a vector of bytes are pixels, which share one unit and
    so one mean and deviation; a pixel that is nearly always black would else be blown up. What does not vary
    at all is only shifted.
    """
    pixels = raw.dtype == np.uint8
    scale = 255.0 if pixels else 1.0
    x = raw.astype(np.float64) / scale
    axes = (0, 1) if pixels and x.ndim == 2 else (0, *range(2, x.ndim))
    mean, std = np.atleast_1d(x.mean(axes)), np.atleast_1d(x.std(axes))
    std = np.where(std > 1e-6 * np.abs(mean), std, 1.0)
    return Normalisation(scale, tuple(mean.tolist()), tuple(std.tolist()))

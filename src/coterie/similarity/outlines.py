"""Images described by where their edges are and which way they run: a few numbers that tell labels apart."""

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.float32]

CELLS = 2
"""Rows and columns of cells over which an image is averaged."""
SHADE = 0.25
"""Weight of the shade of a cell beside the strength of its edges."""
NUMBERS = 4 * CELLS**2
"""That describe an image."""
FLAT = 1e-6
"""An image that varies by less has no outlines."""
AT_ONCE = 2**21
"""Pixels that are worked on at a time."""


def outlines(images: Images) -> npt.NDArray[np.float32]:
    """Describe images, (n, channels, height, width), by four numbers per cell of a 2 x 2 grid, (n, 16).

    Of the image in grey, with mean 0 and standard deviation 1, these are means over the cell: √m, √m cos 2φ,
    √m sin 2φ, where m and φ are length and direction of the gradient, and the shade times ¼. All together are then
    scaled to length 1. So brightness, contrast and colours do not count, and whether an edge goes from dark to light
    hardly does; a turned image has other numbers.

    >>> upright = np.zeros((1, 1, 8, 8), np.float32)
    >>> upright[:, :, :, 3:5] = 1.0
    >>> np.round(outlines(upright)[0, 4:8] + outlines(np.swapaxes(upright, 2, 3))[0, 4:8], 6)
    array([0., 0., 0., 0.], dtype=float32)
    """
    step = max(1, AT_ONCE // max(1, int(np.prod(images.shape[1:]))))
    blocks = [_outlines(images[start : start + step]) for start in range(0, len(images), step)]
    return np.concatenate(blocks) if blocks else np.zeros((0, NUMBERS), np.float32)


def _outlines(images: Images) -> npt.NDArray[np.float32]:
    grey = images.mean(axis=1, dtype=np.float32)
    grey -= grey.mean(axis=(1, 2), keepdims=True)
    spread = grey.std(axis=(1, 2), keepdims=True)
    grey /= np.where(spread > FLAT, spread, np.float32(np.inf))
    framed = np.pad(grey, [(0, 0), (1, 1), (1, 1)], mode="edge")
    right = framed[:, 1:-1, 2:] - framed[:, 1:-1, :-2]
    down = framed[:, 2:, 1:-1] - framed[:, :-2, 1:-1]
    squared = right**2 + down**2
    strength = np.sqrt(np.sqrt(squared))
    scale = strength / np.where(squared > 0, squared, np.float32(1))  # cos 2φ = (right² − down²) / m², and so on
    parts = (strength, (right**2 - down**2) * scale, 2 * right * down * scale, np.float32(SHADE) * grey)
    numbers = np.concatenate([_cells(part) for part in parts], axis=1)
    length = np.linalg.norm(numbers, axis=1, keepdims=True)
    return np.asarray(numbers / np.where(length > 0, length, 1), np.float32)


def _cells(values: Images) -> Images:
    """Return the mean of each cell, (n, cells); where a side can't be halved the cells share its middle."""
    height, width = (-(-side // CELLS) for side in values.shape[1:])
    rows, columns = ((slice(None, side), slice(-side, None)) for side in (height, width))
    return np.stack([values[:, row, column].mean(axis=(1, 2)) for row in rows for column in columns], axis=1)

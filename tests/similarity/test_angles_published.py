"""Angles between real data sets and classes, against published ones; the data are of COTERIE_DATA or ../shared/data."""

from __future__ import annotations

import io
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from coterie.similarity import principal_angles, signature

CIFAR10 = """
    0      6.83  6.55  8.65  9.29 10.48 10.78  7.56  6.66  8.99
    6.83   0     7.86  9.14  9.83 11.18  9.64  8.23  6.89  5.73
    6.55   7.86  0     4.14  3.69  6.36  5.41  3.66 10.46 11.28
    8.65   9.14  4.14  0     3.34  3.79  3.85  4.82 12.44 13.05
    9.29   9.83  3.69  3.34  0     4.50  3.38  4.65 13.03 13.64
   10.48  11.18  6.36  3.79  4.50  0     5.64  7.43 13.48 15.29
   10.78   9.64  5.41  3.85  3.38  5.64  0     5.40 13.82 13.33
    7.56   8.23  3.66  4.82  4.65  7.43  5.40  0    11.47 10.67
    6.66   6.89 10.46 12.44 13.03 13.48 13.82 11.47  0     7.44
    8.99   5.73 11.28 13.05 13.64 15.29 13.33 10.67  7.44  0
"""
"""Between the classes of CIFAR-10: all training images, raw pixels, p = 3, `min_abs` (dissertation, chapter 5)."""


def training(*names: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the training part of a data set, under the first of its names that is there; or skip the test."""
    folders = [os.environ.get("COTERIE_DATA") or str(Path(__file__).parents[3] / "shared" / "data")]
    for path in (Path(folder) / f"{name}.npz" for folder in folders for name in names):
        if path.exists():
            with np.load(path) as file:
                return (file["x_train"] if "x_train" in file else _montages(file)), file["y_train"]
    pytest.skip(f"{names[0]}.npz is not here: name its folder in COTERIE_DATA")


def _montages(file: np.lib.npyio.NpzFile) -> np.ndarray:
    """Read images of 32 x 32, 50 in a row, from WebP, as the colour sets of ../shared/data have them."""
    image = pytest.importorskip("PIL.Image")
    data, offsets = file["x_train_webp"], file["x_train_off"]
    pages = [np.asarray(image.open(io.BytesIO(data[a:b].tobytes())).convert("RGB")) for a, b in pairwise(offsets)]
    pages = [page.reshape(-1, 32, 50, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3) for page in pages]
    return np.concatenate(pages)[: len(file["y_train"])]


def by_class(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    return [signature(x[y == c], 3) for c in range(10)]


def test_classes_of_fashion_mnist() -> None:
    """Dissertation, Fig. 3.11: Trouser and Dress 22.47°, Trouser and Bag 51.7°."""
    x, y = training("fashion_mnist")
    trouser, dress, bag = (signature(x[y == c], 3) for c in (1, 3, 8))
    angles = principal_angles([trouser], [dress, bag], "min_abs")
    np.testing.assert_allclose(angles, [[22.47, 51.7]], atol=0.1)


@pytest.mark.slow
def test_classes_of_cifar10() -> None:
    """ALGORITHMS 12.15."""
    angles = principal_angles(by_class(*training("cifar10")), measure="min_abs")
    np.testing.assert_allclose(angles, np.array(CIFAR10.split(), float).reshape(10, 10), atol=0.01)


def coloured(x: np.ndarray) -> np.ndarray:
    """Pad with black to 32 x 32, and repeat grey images in three channels."""
    x = x[..., None].repeat(3, axis=3) if x.ndim == 3 else x
    pad = (32 - x.shape[1]) // 2
    return np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))


@pytest.mark.slow
def test_four_data_sets() -> None:
    """PACFL, Table 1, p = 2. Which images it is from is not said; with the first 500 of each all is within 1°."""
    names = [("cifar10",), ("svhn", "svhn_subset"), ("fashion_mnist",), ("usps",)]
    parts = [coloured(training(*name)[0][:500]) for name in names]
    published = [[0, 6.13, 45.79, 66.26], [6.13, 0, 43.42, 64.86], [45.79, 43.42, 0, 43.36], [66.26, 64.86, 43.36, 0]]
    angles = principal_angles([signature(x, 2) for x in parts], measure="min_abs")
    np.testing.assert_allclose(angles, published, atol=1.0)

"""Largest eigenvalues of many small matrices, against LAPACK."""

import numpy as np
import pytest

from coterie.similarity.eigenvalues import gram, largest_eigenvalues


def entries(matrices: np.ndarray) -> list[list[np.ndarray]]:
    return [[matrices[:, i, j].copy() for j in range(matrices.shape[2])] for i in range(matrices.shape[1])]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_as_lapack_also_where_eigenvalues_coincide(size):
    rng = np.random.default_rng(size)
    c = rng.normal(size=(400, size, size + 1)) / size
    c[:10] = 0  # nothing in common
    c[10:20] = np.eye(size, size + 1)  # everything
    c[20:30, 0] = c[20:30, -1]  # dependent
    turned = np.linalg.qr(rng.normal(size=(20, size + 1, size + 1)))[0]
    for k, gap in enumerate((0, 1e-12, 1e-7, 1e-3), start=3):
        values = np.r_[1, 1 - gap, np.full(size, 0.3)][:size]
        c[10 * k : 10 * k + 20] = values[:, None] * turned[:, :size]
    found = largest_eigenvalues(gram(entries(c)))
    expected = np.linalg.eigvalsh(c @ c.swapaxes(1, 2))[:, -1]
    np.testing.assert_allclose(found, expected, atol=3e-8)


def test_several_dimensions_of_matrices():
    c = np.random.default_rng(0).normal(size=(5, 4, 7, 4))
    rows = [[c[:, i, :, j] for j in range(4)] for i in range(4)]
    found = largest_eigenvalues(gram(rows))
    expected = np.linalg.svd(c.swapaxes(1, 2), compute_uv=False)[..., 0] ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-9)

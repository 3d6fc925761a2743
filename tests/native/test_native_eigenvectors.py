"""Eigenvectors of small matrices, compiled: against LAPACK, matrix by matrix, and for hard matrices."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie.native.eigenvectors as eigenvectors
from coterie.native import available
from coterie.native.eigenvectors import LARGEST, leading_eigenvectors

Floats = npt.NDArray[np.float64]

compiled = pytest.mark.skipif(not available(), reason="the compiled trainer was not built here")


def symmetric(seed: int, n: int, values: Floats | None = None) -> Floats:
    """Return Q diag(values) Qᵀ of random directions."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    made = (q * (rng.standard_normal(n) if values is None else values)) @ q.T
    return np.asarray((made + made.T) / 2)


def check(matrix: Floats, p: int) -> None:
    """Values as LAPACK has them; vectors of length 1, at right angles, which the matrix stretches by the values."""
    values, vectors = leading_eigenvectors(matrix, p)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    np.testing.assert_allclose(values / scale, np.linalg.eigvalsh(matrix / scale)[::-1][:p], atol=1e-13 * len(matrix))
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(p), atol=1e-13 * len(matrix))
    np.testing.assert_allclose(matrix / scale @ vectors, vectors * (values / scale), atol=1e-13 * len(matrix))


@given(st.integers(0, 2**32 - 1), st.integers(1, LARGEST + 2), st.data())
def test_they_are_those_of_lapack(seed: int, n: int, data: st.DataObject) -> None:
    check(symmetric(seed, n), data.draw(st.integers(1, n)))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 10, 32])
@pytest.mark.parametrize(
    "spectrum",
    [
        pytest.param(lambda n: np.zeros(n), id="zero"),
        pytest.param(lambda n: np.ones(n), id="all equal"),
        pytest.param(lambda n: np.r_[np.ones(n // 2), np.zeros(n - n // 2)], id="a projection"),
        pytest.param(lambda n: 1 + 1e-15 * np.arange(n), id="nearly equal"),
        pytest.param(lambda n: 10.0 ** -np.arange(n), id="over many orders"),
        pytest.param(lambda n: (-1.0) ** np.arange(n), id="of both signs"),
        pytest.param(lambda n: 1e200 * np.arange(n), id="huge"),
        pytest.param(lambda n: 1e-200 * np.arange(n), id="tiny"),
    ],
)
def test_hard_spectra(n: int, spectrum: object) -> None:
    assert callable(spectrum)
    check(symmetric(n, n, spectrum(n)), n)


def test_matrices_that_are_diagonal_or_tridiagonal_already() -> None:
    check(np.diag([3.0, -1.0, 2.0, 2.0]), 4)
    check(np.diag(np.arange(6.0)) + np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1), 6)
    check(np.diag([1.0, 1.0]) + np.fliplr(np.diag([1e-300, 1e-300])), 2)


@compiled
def test_of_each_matrix_the_same_bits_whatever_is_beside_it() -> None:
    many = np.stack([symmetric(seed, 8) for seed in range(40)]).reshape(5, 8, 8, 8)
    values, vectors = leading_eigenvectors(many, 3)
    assert values.shape == (5, 8, 3)
    assert vectors.shape == (5, 8, 8, 3)
    for place in np.ndindex(5, 8):
        alone = leading_eigenvectors(many[place], 3)
        assert (values[place] == alone[0]).all()
        assert (vectors[place] == alone[1]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_has_no_eigenvectors_is_refused_as_lapack_does(bad: float) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        leading_eigenvectors(np.stack([symmetric(0, 4), np.full((4, 4), bad)]), 2)


def test_without_the_library_the_same_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    many = np.stack([symmetric(seed, 10) for seed in range(20)])
    values, vectors = leading_eigenvectors(many, 3)
    monkeypatch.setattr(eigenvectors, "library", lambda: None)
    others, directions = leading_eigenvectors(many, 3)
    np.testing.assert_allclose(values, others, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.einsum("mnp,mnp->mp", vectors, directions)), 1.0, atol=1e-9)


@pytest.mark.parametrize(("shape", "p"), [((3,), 1), ((2, 3), 1), ((3, 3), 0), ((3, 3), 4), ((0, 0), 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...], p: int) -> None:
    with pytest.raises(ValueError, match="expected square ones"):
        leading_eigenvectors(np.zeros(shape), p)


def test_no_matrices_give_none() -> None:
    values, vectors = leading_eigenvectors(np.zeros((0, 4, 4)), 2)
    assert values.shape == (0, 2)
    assert vectors.shape == (0, 4, 2)

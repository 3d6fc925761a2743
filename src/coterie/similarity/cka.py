"""Centred kernel alignment: whether features vary together in the same way."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.similarity.samples import Floats, as_rows


def linear_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the linear centred kernel alignment of two sets of features of the same inputs, in rows; 1 is the same.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, columns centred: what two networks' layers make of the same images.
    It does not change if either is turned or scaled. Features that are constant have an alignment of 0 with others,
    and of 1 with constant ones.
    """
    a, b = (as_rows(z, name) for z, name in ((x, "x"), (y, "y")))
    if len(a) != len(b):
        raise ValueError(f"x has {len(a)} rows and y {len(b)}, which should be of the same inputs")
    return float(cka_of_grams([centred_gram(z - z[:1]) for z in (a, b)])[0, 1])  # so that equal rows are exactly 0


def centred_gram(outputs: npt.ArrayLike) -> Floats:
    """Return the products of all pairs of samples, after the mean output is taken away, (samples, samples)."""
    x = np.asarray(outputs, np.float64)
    x = x - x.mean(axis=0)
    return np.asarray(x @ x.T, np.float64)


def cka_of_grams(grams: Sequence[Floats]) -> Floats:
    """Return the cosines between all pairs of matrices, (n, n): the linear CKA of centred products of samples.

    Outputs that are the same for all samples have products of 0: these are like each other (1) and unlike others (0).
    """
    rows = np.stack([gram.ravel() for gram in grams])
    products = rows @ rows.T
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    constant = norms == 0
    alike = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    alike[np.ix_(constant, constant)] = 1.0
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.clip(alike, 0.0, 1.0), np.float64)

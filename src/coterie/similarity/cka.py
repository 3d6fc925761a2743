"""Centred kernel alignment: whether features vary together in the same way."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coterie.similarity.samples import Floats, as_rows, check_features, evenly_taken, features_of
from coterie.similarity.signatures import signature

MOMENTS = 128
"""Directions in which second moments of more than twice as many features are compared."""


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


def moment_cka(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the alignment of the second moments of two samples, from 0 to 1; 1 is the same up to scale.

    ⟨Sx, Sy⟩ / (‖Sx‖ ‖Sy‖) with Sx = XᵀX, not centred: linear CKA between features, for clients whose samples are
    different ones. Samples that are all 0 have an alignment of 0 with others, and of 1 with each other. Of more than
    256 features only what lies in the first 128 singular directions of all samples is compared (of about 2,048 of
    them, evenly taken): for photographs that is good to 0.001.
    """
    return float(moment_cka_of_pairs([x, y])[0, 1])


def moment_cka_of_pairs(samples: Sequence[npt.ArrayLike]) -> Floats:
    """Return the cosines between the second moments of all pairs of clients, (clients, clients)."""
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

"""Inference similarity: how alike two clients' models label the server's samples (FLIS)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.similarity.updates import update_cosines

Similarities = npt.NDArray[np.float64]


def inference_similarity(predictions: npt.ArrayLike, others: npt.ArrayLike | None = None) -> Similarities:
    """Return A_ij = <B_i, B_j> / (‖B_i‖ ‖B_j‖) in [0, 1], (clients, clients) or (clients, others).

    Of predicted labels, (clients, samples), B_i is one-hot and A_ij the share of samples on which both agree; of soft
    outputs such as probabilities, (clients, samples, classes), B_i is the client's outputs. The diagonal is 1.

    >>> inference_similarity([[0, 1, 2, 2], [0, 1, 0, 0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    b = _checked(predictions, "predictions")
    c = b if others is None else _checked(others, "others")
    if b.ndim != c.ndim or b.shape[1:] != c.shape[1:]:
        raise ValueError(f"predictions of the shape {b.shape} cannot be compared with others of the shape {c.shape}")
    if b.ndim == 2:
        return np.array([(c == row).mean(axis=1) for row in b]).reshape(len(b), len(c))
    flat = None if others is None else c.reshape(len(c), -1)
    return np.clip(update_cosines(b.reshape(len(b), -1), flat), 0.0, 1.0)


def _checked(predictions: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    b = np.asarray(predictions)
    if b.ndim not in (2, 3) or 0 in b.shape[1:]:
        raise ValueError(
            f"{name} should be labels, (clients, samples), or outputs, (clients, samples, classes), but have the "
            f"shape {b.shape}"
        )
    if b.ndim == 2 and not np.issubdtype(b.dtype, np.integer):
        raise ValueError(f"{name} of the shape {b.shape} should be whole-number labels, but are {b.dtype}")
    if b.ndim == 3 and b.size and not b.min() >= 0:
        raise ValueError(f"{name} hold negative numbers or NaN: outputs should be probabilities or one-hot")
    return b

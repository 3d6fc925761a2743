"""How different the mixtures of labels are that clients have."""

import numpy as np
import numpy.typing as npt

from coterie.similarity.measures import measure
from coterie.similarity.samples import Floats


@measure("labels", needs="label counts", title="total variation of labels", unit="share")
def labels(counts: npt.ArrayLike) -> Floats:
    """Which share of the labels would have to change for two clients to have the same mixture."""
    return label_total_variation(counts)


def label_total_variation(counts: npt.ArrayLike) -> Floats:
    """Return the total variation between clients' label distributions, from 0 to 1, (clients, clients).

    `counts` says how many samples of each class each client has, (clients, classes). A client without any sample is
    at 1 from those who have some, and at 0 from others without.

    >>> label_total_variation([[5, 5, 0], [2, 2, 4], [0, 0, 9]])
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0.5],
           [1. , 0.5, 0. ]])
    """
    table = np.asarray(counts, np.float64)
    if table.ndim != 2:
        raise ValueError(f"counts should have the shape (clients, classes), but have {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("counts should be finite and not negative")
    total = table.sum(axis=1, keepdims=True)
    shares = np.hstack([table / np.where(total > 0, total, 1.0), total == 0])  # nothing is a class of its own
    return np.array([np.abs(shares - row).sum(axis=1) / 2 for row in shares]).reshape(len(table), len(table))

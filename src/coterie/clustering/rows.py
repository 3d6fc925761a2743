"""Thresholded rows: a group around every client, of those that are similar enough to it (FLIS-DC).

Vahidian et al., FLIS: Clustered Federated Learning via Inference Similarity for Non-IID Data Distribution.
"""

import numpy as np
import numpy.typing as npt


def row_groups(similarity: npt.ArrayLike, threshold: float) -> npt.NDArray[np.bool_]:
    """Return who is in whose group, (n, n): entry i, j is true iff A_ij ≥ β, and j so belongs to G_i.

    There are as many groups as clients, and they overlap. A client is always in its own group, whatever the
    threshold. `np.flatnonzero` of row i lists the members of G_i.

    >>> row_groups([[1.0, 0.8, 0.1], [0.8, 1.0, 0.5], [0.1, 0.5, 1.0]], threshold=0.5)
    array([[ True,  True, False],
           [ True,  True,  True],
           [False,  True,  True]])
    """
    a = np.asarray(similarity)
    n = len(a) if a.ndim else 0
    if a.shape != (n, n) and a.shape != (0,):
        raise ValueError(f"a similarity matrix is square, got shape {a.shape}")
    if np.isnan(a).any() or np.isnan(threshold):
        raise ValueError("similarities and threshold must be numbers, there is a nan")
    members: npt.NDArray[np.bool_] = a.reshape(n, n) >= threshold
    np.fill_diagonal(members, True)
    return members

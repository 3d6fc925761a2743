"""When to split a group of clients in two, and how (CFL).

Sattler, Müller, Samek, Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization under Privacy
Constraints, 2019.
"""

import numpy as np
import numpy.typing as npt

from coterie.clustering.hierarchical import ROUNDING, Ints, cut, tree


def bipartition(similarity: npt.ArrayLike) -> tuple[Ints, Ints]:
    """Split clients in two by the cosines of their updates, (n, n): complete linkage on 1 − cosine.

    Returns **positions** in `similarity`, ascending, not names of clients; the first part holds position 0, neither
    is empty. A caller whose clients are `members` (an array) takes `members[left]` and `members[right]`.

    >>> bipartition([[1.0, -0.9, 0.8], [-0.9, 1.0, -0.7], [0.8, -0.7, 1.0]])
    (array([0, 2]), array([1]))
    """
    cosines = np.asarray(similarity)
    if len(cosines) < 2:
        raise ValueError(f"two groups need at least two clients, got {len(cosines)}")
    if max(cosines.max(), -cosines.min()) > 1 + ROUNDING:
        raise ValueError(f"cosines lie between −1 and 1, got {cosines.min()} to {cosines.max()}")
    side = cut(tree(1 - cosines, "complete"), count=2)
    return np.flatnonzero(side == 0), np.flatnonzero(side == 1)


def should_split(updates: npt.ArrayLike, eps1: float = 0.4, eps2: float = 1.6) -> bool:
    """Say whether a group's clients pull in different directions: ‖mean Δ_i‖ < ε₁ and max ‖Δ_i‖ > ε₂.

    `updates` is (members, parameters), of those that trained this round. A group of two is never split. The norms are
    absolute, so ε₁ and ε₂ depend on the size of the network. Waiting until round 20 is left to the method.

    >>> should_split([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.1]]), should_split([[2.0, 0.0], [2.0, 0.0], [2.0, 0.1]])
    (True, False)
    """
    if len(np.asarray(updates)) <= 2:
        return False
    mean_norm, max_norm = update_norms(updates)
    return mean_norm < eps1 and max_norm > eps2


def update_norms(updates: npt.ArrayLike) -> tuple[float, float]:
    """Return ‖mean Δ_i‖ and max ‖Δ_i‖ of updates given in rows.

    >>> update_norms([[3.0, 4.0], [-3.0, -4.0]])
    (0.0, 5.0)
    """
    rows = np.asarray(updates)
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError(f"updates are (clients, parameters) of at least one client, got shape {rows.shape}")
    norms = [float(np.linalg.norm(row.astype(np.float64))) for row in rows]
    if not np.isfinite(norms).all():
        raise ValueError(f"the update of client {np.flatnonzero(~np.isfinite(norms))[0]} is not finite")
    return float(np.linalg.norm(rows.mean(axis=0, dtype=np.float64))), max(norms)

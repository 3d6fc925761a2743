"""How well two groupings agree."""

from __future__ import annotations

from collections.abc import Sequence


def adjusted_rand_index(a: Sequence[int], b: Sequence[int]) -> float:
    """Return 1 for equal groupings, about 0 for unrelated ones; names of groups do not matter.

    >>> adjusted_rand_index([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(a, b))

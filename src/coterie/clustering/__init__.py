"""Who belongs together: groups, and how well two groupings agree."""

from coterie.clustering.agreement import adjusted_rand_index

__all__ = ["adjusted_rand_index"]

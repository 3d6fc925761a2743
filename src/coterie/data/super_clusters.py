"""Super clusters: sets of classes whose images span alike subspaces (dissertation, chapter 5; ALGORITHMS 8.8)."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from coterie.clustering import Count, Grouping, Threshold
from coterie.data.federated import Index, Samples
from coterie.similarity import principal_angles, signature
from coterie.similarity.angles import AngleMeasure

THRESHOLD = 10.0
"""Degrees up to which classes merge; CIFAR-10 falls into the same two sets at any from 7.54 to 11.50."""
VECTORS = 3
"""Singular vectors per class."""


@dataclass(frozen=True)
class SuperClusters:
    """Classes, the angles between them, and the sets that they form."""

    labels: Index
    """The classes that have samples, ascending, (n,)."""
    grouping: Grouping
    """Of these, in this order; it says its threshold and reason too."""

    @property
    def angles(self) -> npt.NDArray[np.float64]:
        """Degrees between classes, (n, n)."""
        assert self.grouping.proximity is not None
        return self.grouping.proximity

    @property
    def sets(self) -> list[list[int]]:
        """The labels of each super cluster, in order of their smallest."""
        return [self.labels[self.grouping.members(group)].tolist() for group in range(self.grouping.n_groups)]


def class_angles(
    samples: Samples, p: int = VECTORS, measure: AngleMeasure = "min_abs"
) -> tuple[Index, npt.NDArray[np.float64]]:
    """Return the labels that have samples, ascending, and the angles between their subspaces in degrees, (n, n).

    A class is the first `p` left singular vectors of all its samples, raw and not centred. One with fewer samples has
    as many vectors as these span (one sample: its own direction); one whose samples are all 0 has none and is at 90°
    from all others. Classes without a sample are left out.
    """
    labels = np.unique(samples.y)
    return labels, principal_angles([signature(samples.x[samples.y == label], p) for label in labels], measure=measure)


def super_clusters(
    samples: Samples,
    *,
    threshold: float | None = None,
    groups: int | None = None,
    p: int = VECTORS,
    measure: AngleMeasure = "min_abs",
) -> SuperClusters:
    """Find the super clusters of labelled samples: classes by their angles, WPGMA, up to a threshold or into a number.

    The threshold is 10° unless one or a number of `groups` is given. With fewer classes than `groups` each is a set.

    >>> images = np.repeat(np.eye(3)[[0, 0, 1, 2]] + [[0, 0, 0], [0, 0.1, 0], [0, 0, 0], [0, 0.1, 0]], 5, axis=0)
    >>> super_clusters(Samples(images, np.repeat([4, 5, 6, 9], 5))).sets
    [[4, 5], [6], [9]]
    """
    if threshold is not None and groups is not None:
        raise ValueError("super clusters are found either by `threshold` or by the number of `groups`")
    labels, angles = class_angles(samples, p, measure)
    if groups is None:
        upto = THRESHOLD if threshold is None else threshold
        grouping = Threshold("weighted", threshold=upto).group(angles)
        reason = f"Classes merge up to {upto:g} degrees."
    else:
        grouping = Count("weighted", groups=groups).group(angles)
        reason = f"{groups} super clusters, as asked" + ("." if groups <= len(labels) else f"; {len(labels)} classes.")
    return SuperClusters(labels, replace(grouping, reason=reason))

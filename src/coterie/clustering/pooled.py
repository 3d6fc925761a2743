"""Groups of clients that pool what they told of each label.

Compared with the mean of a whole group, a client meets only its own chance, not that of another client too; and a group
has more labels to compare than any one client. So groups are found that comparisons of two clients at a time leave in
doubt: where samples are few, or few labels are shared.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.clustering.forest import forest
from coterie.clustering.hierarchical import Floats, Ints, canonical, cut

TINY = 1e-12
"""No variance is taken to be smaller."""
ERRORS = 3.0
"""Standard errors by which clients are spread out beyond chance."""
MOST_PASSES = 20
"""In which clients move to the nearest group."""


class Told(NamedTuple):
    """What clients told of their labels."""

    means: Floats
    """(clients, labels, numbers)."""
    variances: Floats
    """Total variance of a label's samples, (clients, labels)."""
    counts: Floats
    """(clients, labels); 0: nothing is told of the label."""

    @classmethod
    def of(cls, moments: Sequence[tuple[Any, Any, Any]]) -> "Told":
        """Stack what each client told: means, variances and counts of labels."""
        means, variances, counts = (
            np.stack([np.asarray(part, np.float64) for part in parts]) for parts in zip(*moments, strict=True)
        )
        return cls(means, np.maximum(variances, TINY), counts)

    def among(self, clients: Ints) -> "Told":
        """Return what some of them told."""
        return Told(*(part[clients] for part in self))

    def pooled(self, labels: Ints) -> "Told":
        """Return what groups tell together: as one client that had all samples of its members."""
        by_group = _members(labels).T
        counts = by_group @ self.counts
        some = np.maximum(counts, 1.0)
        means = np.tensordot(by_group, self.counts[:, :, None] * self.means, axes=1) / some[:, :, None]
        return Told(means, by_group @ (self.counts * self.variances) / some, counts)

    def without(self, members: "Told") -> "Told":
        """Return what is left of each pool without a member of it."""
        counts = self.counts - members.counts
        some = np.maximum(counts, 1.0)
        means = (self.counts[:, :, None] * self.means - members.counts[:, :, None] * members.means) / some[:, :, None]
        variances = (self.counts * self.variances - members.counts * members.variances) / some
        return Told(means, np.maximum(variances, TINY), counts)


class PooledGroups(NamedTuple):
    """Groups, and how clear they are."""

    labels: Ints
    excess: float
    """How many times as far from the mean of the nearest other group as chance explains clients are, squared."""
    silhouette: float
    """Of clients, by their distances to the means of groups."""


def pooled_groups(told: Told, pairs: npt.NDArray[Any], parts: Ints, chance: float, least: float) -> Ints:
    """Divide each part, and what comes of it again, as long as that is beyond chance and clear; return groups, (n,).

    `pairs` are records of each two clients (`coterie.clustering.rules.concepts.Pairs`), by which division begins.
    """
    groups = [leaf for part in range(int(parts.max(initial=-1)) + 1) for leaf in _divided(
        told, pairs, np.flatnonzero(parts == part), chance, least)]  # fmt: skip
    labels = np.zeros(len(parts), np.int64)
    for number, members in enumerate(groups):
        labels[members] = number
    settled = settle(told, labels)
    kept = settled.max(initial=0) == labels.max(initial=0) and np.bincount(settled).min(initial=2) > 1
    return canonical(settled if kept else labels)


def _divided(told: Told, pairs: npt.NDArray[Any], members: Ints, chance: float, least: float) -> list[Ints]:
    """Divide clients as often as can be; return the groups."""
    n = len(members)
    if n < 4 or not spread_out(told.among(members), chance):  # no two groups of two, or nothing to divide
        return [members]
    near = pairs[np.ix_(members, members)]
    start = cut(forest(near["distance"], near["weight"]), count=min(n // 2, int(np.ceil(2 * np.sqrt(n)))))
    found = [
        made
        for made in merged(told.among(members), start)
        if np.bincount(made.labels).min() > 1 and made.excess > chance and made.silhouette >= least
    ]
    if not found:
        return [members]
    # Of groupings that are as clear, the one with the fewest groups: whether these can be divided is asked below.
    best = max(found, key=lambda made: (round(made.silhouette, 2), -int(made.labels.max())))
    return [
        leaf
        for group in range(int(best.labels.max()) + 1)
        for leaf in _divided(told, pairs, members[best.labels == group], chance, least)
    ]


def spread_out(told: Told, chance: float) -> bool:
    """Whether clients differ from the mean of all by so much as two groups would that are `chance` times chance apart.

    Groups that were sought are apart also by chance, and the more so the fewer labels clients have. This is not, as
    nothing is chosen: of one distribution it is 1 on average. Half of the clients being δ from the other half, all are
    δ/2 from the mean. A few clients may be so by chance: it should be beyond three standard errors as well.
    """
    seen = to_pools(told, np.zeros(len(told.counts), np.int64))
    beyond = seen.squares - seen.chance
    error = float(beyond.std() * np.sqrt(len(beyond)))
    return bool(beyond.sum() > max((chance - 1) / 4 * seen.chance.sum(), ERRORS * error))


def merged(told: Told, labels: Ints) -> Iterator[PooledGroups]:
    """Yield groups that are settled, then with the nearest two of them merged, and so on down to two."""
    while (labels := settle(told, labels)).max(initial=0) > 0:
        yield judged(told, labels)
        apart = _apart(told, labels)
        if not np.isfinite(apart).any():
            return
        one, other = sorted(np.unravel_index(int(apart.argmin()), apart.shape))
        labels = canonical(np.where(labels == other, one, labels))


def settle(told: Told, labels: Ints) -> Ints:
    """Move clients to the nearest group, and again, until all stay; who shares no label with any stays.

    All move at once, and so some may go to and fro: then it ends with the first grouping that comes again.
    """
    seen = {labels.tobytes()}
    for _ in range(MOST_PASSES):
        far = to_pools(told, labels).distances
        far = np.where(np.isfinite(far), far, np.inf)
        moved = canonical(np.where(np.isfinite(far).any(axis=1), far.argmin(axis=1), labels))
        if moved.tobytes() in seen:
            return moved
        seen.add(moved.tobytes())
        labels = moved
    return labels


def judged(told: Told, labels: Ints) -> PooledGroups:
    """Say how far groups are apart, and how clearly."""
    seen = to_pools(told, labels)
    everyone, groups = np.arange(len(labels)), int(labels.max()) + 1
    inside = seen.distances[everyone, labels]
    others = np.where(np.isfinite(seen.distances), seen.distances, np.inf)
    others[everyone, labels] = np.inf
    usable = np.isfinite(inside) & np.isfinite(others.min(axis=1))
    a = np.where(usable, np.maximum(inside, 0.0), 0.0)
    b = np.where(usable, np.maximum(others.min(axis=1), 0.0), 0.0)
    larger = np.maximum(a, b)
    scores = np.where(larger > 0, (b - a) / np.where(larger > 0, larger, 1.0), 0.0)
    member = _members(labels)
    squares, chance = member.T @ seen.squares, member.T @ seen.chance
    squares, chance = squares + squares.T, chance + chance.T  # of clients of one group to the other, and back
    known = (chance > 0) & ~np.eye(groups, dtype=bool)
    excess = float((squares[known] / chance[known]).min()) if known.any() else 0.0
    return PooledGroups(labels, excess, float(scores.mean()))


class ToPools(NamedTuple):
    """What is known of clients and groups, (n, groups)."""

    distances: Floats
    """Σ w (d² − chance) / Σ w s² over common labels, as between two clients; NaN where there are none."""
    squares: Floats
    """Σ w d²."""
    chance: Floats
    """Σ w chance: what that is on average for one distribution."""

    @classmethod
    def of(cls, squares: Floats, chance: Floats, weight: Floats) -> "ToPools":
        """Divide by the weight, Σ w s²."""
        known = weight > 0
        return cls(np.where(known, (squares - chance) / np.where(known, weight, 1.0), np.nan), squares, chance)


def to_pools(told: Told, labels: Ints) -> ToPools:
    """Compare clients with the means of groups, which leave them out (`coterie.similarity.class_distances`)."""
    pools = told.pooled(labels)
    sums = _sums(told, pools)
    mates = pools.among(labels).without(told)
    d2 = ((told.means - mates.means) ** 2).sum(axis=2)
    own = _terms(d2, told.variances, told.counts, mates.variances, mates.counts)
    sums[:, np.arange(len(labels)), labels] = np.sum(own, axis=2)
    return ToPools.of(*sums)


def _apart(told: Told, labels: Ints) -> Floats:
    """Return how far groups are apart, (groups, groups), below the diagonal; infinite where they share no label."""
    pools = told.pooled(labels)
    distances = ToPools.of(*_sums(pools, pools)).distances
    return np.where(np.tri(len(distances), k=-1, dtype=bool) & np.isfinite(distances), distances, np.inf)


def _sums(a: Told, b: Told) -> Floats:
    """Return Σ w d², Σ w chance and Σ w s² over the labels that each two share, (3, len a, len b)."""
    sums = np.zeros((3, len(a.counts), len(b.counts)))
    for label in range(a.counts.shape[1]):
        (x, s, n), (y, t, m) = ((part[:, label] for part in told) for told in (a, b))
        centre = m @ y / max(m.sum(), 1.0)  # d² = |x|² + |y|² − 2 xy loses little by rounding if these are small
        x, y = x - centre, y - centre
        d2 = np.column_stack([(x**2).sum(axis=1), np.ones(len(x)), -2 * x]) @ np.vstack(
            [np.ones(len(y)), (y**2).sum(axis=1), y.T]
        )
        for total, term in zip(sums, _terms(d2, s[:, None], n[:, None], t, m), strict=True):
            total += term
    return sums


def _terms(d2: Floats, s: Floats, n: Floats, t: Floats, m: Floats) -> tuple[Floats, Floats, Floats]:
    """Return w d², w chance and w s² of a label with n and m samples of variance s and t."""
    both = np.maximum(n, 1.0) + m
    w = n * m / both  # 0 where one of them lacks the label
    return w * d2, w * (s / np.maximum(n, 1.0) + t / np.maximum(m, 1.0)), w * ((n * s + m * t) / both)


def _members(labels: Ints) -> Floats:
    """Return 1 where a client is in a group, else 0, (n, groups)."""
    return np.asarray(labels[:, None] == np.arange(int(labels.max(initial=-1)) + 1), np.float64)

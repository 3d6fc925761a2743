"""Rules: from proximities to groups, with the reason.

A rule says where to cut a tree of merges. `auto` finds the cut from the clients' own noise; `gap`, `silhouette` and
`demo` find it from the proximities alone; `threshold` and `count` are told; `trial` tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from coterie.clustering.calibration import in_units_of_noise
from coterie.clustering.grouping import Floats, Grouping, Ints, founding_weights
from coterie.clustering.hierarchical import cut, heights, number_of_groups, tree

NOISE = "times noise"


class Rule(Protocol):
    """Where to cut."""

    @property
    def name(self) -> str:
        """As users write it."""
        ...

    @property
    def linkage(self) -> str:
        """How far two groups are from each other; see `coterie.clustering.LINKAGES`."""
        ...

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Group clients by their proximities, (n, n); `noise` is what `coterie.clustering.noise` makes, (n,)."""
        ...

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Floats:
        """Return distances of other pairs, newcomers' for instance, in the unit of the threshold."""
        ...


@dataclass(frozen=True)
class _Plain:
    """A rule that cuts the proximities as they are."""

    linkage: str
    unit: str = "degrees"

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Floats:
        """Return them as they are."""
        return np.asarray(proximity, np.float64)


@dataclass(frozen=True)
class Auto:
    """Cut where distances exceed what chance alone does, by more than a factor (split-half calibration)."""

    granularity: float | None = None
    """The factor: larger makes fewer groups. By default `granularity_for` the number of samples."""
    linkage: str = "average"
    samples: float = math.inf
    """Per client, the median; needed for the default factor only."""

    name: ClassVar[str] = "auto"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Cut the tree of distances in units of noise."""
        if noise is None:
            raise ValueError("rule 'auto' needs the noise of each client")
        ratio = self.scaled(proximity, noise, None)
        merges = tree(ratio, self.linkage)
        factor = granularity_for(self.samples) if self.granularity is None else self.granularity
        labels = cut(merges, threshold=factor)
        told = f"Between two groups the distance is over {factor:.2f} times what chance makes of one distribution"
        if len(labels) == 1:
            told = "There is one client"
        elif labels.max() == 0:
            highest = heights(merges)[-1]
            told = f"No two parts are farther apart ({highest:.2f} times the noise) than chance explains ({factor:.2f})"
        reason, weights = told + _fewer(merges, labels), founding_weights(merges, labels, self.linkage)
        return Grouping(labels, merges, factor, NOISE, self.name, self.linkage, reason, weights, ratio)

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Floats:
        """Return distances in units of noise; the diagonal of a square one stays 0."""
        if rows is None:
            raise ValueError("rule 'auto' needs the noise of each client")
        return in_units_of_noise(proximity, rows, columns)


def granularity_for(samples: float) -> float:
    """Return the factor at which `auto` cuts by default, for clients with so many samples each.

    One and the same difference between two distributions stands out less from the noise of fewer samples.
    """
    return 1 + 0.45 * min(1.0, samples / 36)


@dataclass(frozen=True)
class Threshold(_Plain):
    """Merge while the distance is at most a number."""

    threshold: float = 0.0
    name: ClassVar[str] = "degrees"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Cut at the threshold."""
        merges = tree(proximity, self.linkage)
        labels = cut(merges, threshold=self.threshold)
        told = f"Groups merge up to {self.threshold:g} {self.unit}, as asked"
        return _grouping(self, proximity, merges, labels, self.threshold, told)


@dataclass(frozen=True)
class Count(_Plain):
    """Merge until a number of groups is left."""

    groups: int = 1
    name: ClassVar[str] = "count"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Cut into so many groups, or into one per client if there are not as many."""
        merges = tree(proximity, self.linkage)
        labels = cut(merges, count=self.groups)
        told = f"{self.groups} groups, as asked"
        if labels.max() + 1 < self.groups:
            told = f"{self.groups} groups were asked for, but there are only {len(labels)} clients"
        return _grouping(self, proximity, merges, labels, _between(merges, int(labels.max()) + 1), told)


@dataclass(frozen=True)
class Gap(_Plain):
    """Cut in the widest gap between successive merges."""

    name: ClassVar[str] = "gap"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Never one group, unless all clients are equally far from each other."""
        merges = tree(proximity, self.linkage)
        at = heights(merges)
        steps = np.diff(at)
        count = 1 if len(steps) == 0 or steps.max() <= 0 else len(at) - int(steps.argmax())
        told = (
            f"The widest gap between merges, {steps.max():.3g} {self.unit}, is here" if count > 1 else "There is no gap"
        )
        return _grouping(self, proximity, merges, cut(merges, count=count), _between(merges, count), told)


@dataclass(frozen=True)
class Silhouette(_Plain):
    """Cut into the number of groups whose mean silhouette is the largest."""

    least: float = 0.25
    """Below this there is no structure worth the name (Kaufman and Rousseeuw, 1990): one group."""
    name: ClassVar[str] = "silhouette"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Try all numbers of groups."""
        distances = np.asarray(proximity, np.float64)
        merges = tree(distances, self.linkage)
        scores = silhouettes(distances, merges)
        best = max(scores, key=lambda k: scores[k], default=1)
        count = best if scores.get(best, 0.0) >= self.least else 1
        told = (
            f"{best} groups have the largest mean silhouette, {scores[best]:.2f}"
            if scores
            else "There is nothing to cut"
        )
        if scores and count == 1:
            told += f", which is below {self.least}: one group"
        return _grouping(self, distances, merges, cut(merges, count=count), _between(merges, count), told)


@dataclass(frozen=True)
class Demo(_Plain):
    """Lower the threshold step by step until the number of groups jumps (PACFL's demonstration)."""

    start: float = 100.0
    factor: float = 1.1
    name: ClassVar[str] = "demo"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Keep what was there before the first jump by more than one."""
        merges = tree(proximity, self.linkage)
        lowest = heights(merges)[0] if len(merges) else self.start
        threshold = self.start
        while threshold / self.factor >= max(lowest, 1e-4):
            before, after = number_of_groups(merges, [threshold, threshold / self.factor])
            if after - before > 1:
                break
            threshold /= self.factor
        labels = cut(merges, threshold=threshold)
        told = f"Just below {threshold:.3g} {self.unit} the number of groups jumps by more than one"
        return _grouping(self, proximity, merges, labels, threshold, told)


@dataclass(frozen=True)
class Trial(_Plain):
    """Try cuts from one group to many, and take the one after which more groups gain little (FLAG)."""

    score: Callable[[Ints], float] = lambda labels: 0.0
    """How good groups are, for instance the accuracy of models that were trained by them."""
    step: float = 0.1
    """Cuts are tried at 1, 1 − step, … 0 of the largest proximity that there can be, 1."""
    name: ClassVar[str] = "trial"

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Groups that repeat themselves are tried once."""
        merges = tree(proximity, self.linkage)
        cuts: dict[int, float] = {}  # the highest threshold for each number of groups
        for k in range(math.floor(1 / self.step + 1e-9) + 1):
            threshold = max(0.0, round(1 - k * self.step, 12))
            cuts.setdefault(int(number_of_groups(merges, threshold)), threshold)
        counts = sorted(cuts)
        labels = [cut(merges, threshold=cuts[count]) for count in counts]
        scores = [self.score(each) for each in labels]
        best = elbow(counts, scores)
        tried = ", ".join(f"{count}: {score:.3f}" for count, score in zip(counts, scores, strict=True))
        told = f"A trial of each cut scored (groups: score) {tried}; beyond {counts[best]} the gain is small"
        return _grouping(self, proximity, merges, labels[best], cuts[counts[best]], told)


def elbow(counts: Sequence[int], scores: Sequence[float]) -> int:
    """Return the position of the count, ascending, after which scores gain little.

    With both axes scaled to 0 … 1 it is the point farthest above the line from the first to the last, or where none is
    above it, the best; and then the first whose score is within 0.01 of that one's.

    >>> elbow([1, 2, 4, 9], [0.50, 0.60, 0.80, 0.82])
    2
    >>> elbow([1, 2, 4, 9], [0.80, 0.80, 0.79, 0.70])
    0
    >>> elbow([1, 5, 9], [0.5, 0.5, 0.9])
    2
    """
    x, y = np.asarray(counts, np.float64), np.asarray(scores, np.float64)
    knee = int(y.argmax())
    if len(x) > 2 and np.ptp(y) > 0:
        along, up = (x - x[0]) / (x[-1] - x[0]), (y - y.min()) / np.ptp(y)
        above = up - (up[0] + along * (up[-1] - up[0]))
        knee = int(above.argmax()) if above.max() > 1e-9 else knee
    return int(np.flatnonzero(y >= y[knee] - 0.01)[0])


def silhouette(proximity: Floats, labels: Ints) -> float:
    """Return the mean over clients of (b − a)/max(a, b): a to its own group, b to the nearest other; 0 if alone."""
    counts = np.bincount(labels)
    return _silhouette(proximity @ np.eye(len(counts))[labels], counts, labels)


def silhouettes(proximity: Floats, tree: Floats) -> dict[int, float]:
    """Return the silhouette of every cut of a tree by the number of groups, from 2 to n − 1; n³/2 operations."""
    n = len(tree) + 1
    sums = np.array(proximity, np.float64, order="F")  # of each client's distances to a group, (n, groups)
    counts, own, column = np.ones(n, np.int64), np.arange(n), np.arange(2 * n)
    at = list(range(n))  # the merge, or the client, that each column stands for
    scores: dict[int, float] = {}
    for k, pair in enumerate(tree[:-1, :2].astype(np.int64)):
        groups = n - 1 - k
        a, b = sorted(column[pair])
        for total in (sums.T, counts):
            total[a] += total[b]
            total[b] = total[groups]  # the last column fills the place that became free
        own[own == b] = a
        own[own == groups] = b
        at[b] = at[groups]
        column[at[b]], column[n + k], at[a] = b, a, n + k
        scores[groups] = _silhouette(sums[:, :groups], counts[:groups], own)
    return dict(sorted(scores.items()))


def _silhouette(sums: Floats, counts: Ints, labels: Ints) -> float:
    """Return the mean silhouette, given each client's summed distances to each group, (n, groups)."""
    every, own = np.arange(len(labels)), counts[labels]
    inside = sums[every, labels] / np.maximum(own - 1, 1)
    means = sums / counts
    means[every, labels] = np.inf
    nearest = means.min(axis=1)
    larger = np.maximum(inside, nearest)
    scores = np.where((own > 1) & (larger > 0), (nearest - inside) / np.where(larger > 0, larger, 1), 0)
    return float(scores.mean())


def _grouping(rule: _Plain, proximity: npt.ArrayLike, merges: Floats, labels: Ints, at: float, told: str) -> Grouping:
    name: str = rule.name  # type: ignore[attr-defined]
    if len(labels) == 1:
        told = "There is one client"
    weights = founding_weights(merges, labels, rule.linkage)
    distances = np.asarray(proximity, np.float64)
    return Grouping(labels, merges, at, rule.unit, name, rule.linkage, f"{told}.", weights, distances)


def _between(merges: Floats, count: int) -> float:
    """Return a threshold that gives so many groups: in the middle between two merges."""
    at = heights(merges)
    made = len(at) + 1 - count
    if len(at) == 0:
        return 0.0
    if made == 0:
        return float(at[0] / 2)
    return float(at[made - 1] if made == len(at) else (at[made - 1] + at[made]) / 2)


def _fewer(merges: Floats, labels: Ints) -> str:
    """Say where fewer models may serve: the number of distributions is not the number of models that learn best."""
    groups, clients = int(labels.max()) + 1, len(labels)
    if groups <= math.sqrt(clients) or groups < 3:
        return "."
    at = heights(merges)
    most = max(2, math.isqrt(clients))
    wide = {k: at[len(at) + 1 - k] / at[len(at) - k] for k in range(2, most + 1) if at[len(at) - k] > 0}
    best = max(wide, key=lambda k: wide[k], default=1)
    return (
        f". So {groups} distributions can be told apart, but with {clients / groups:.1f} clients each fewer models may "
        f"learn better: the clearest coarser cut has {best} groups (granularity {_between(merges, best):.2f})."
    )

"""Rules that find the cut themselves: by noise, gaps, silhouettes, jumps or trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le

from coterie.clustering.grouping import Grouping
from coterie.clustering.hierarchical import Floats, Ints, cut, heights, number_of_groups
from coterie.clustering.rules import Cut, Evidence, Rule, quantity, rule, threshold_for


@rule("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Rule):
    """Cut where distances exceed what chance alone produces by more than a factor (split-half calibration)."""

    needs: ClassVar[tuple[Evidence, ...]] = ("distances", "noise")
    implied_by: ClassVar[str | None] = "granularity"

    granularity: Annotated[
        float | None, Gt(0), "the factor: larger makes fewer groups; by default 1.45, less for few samples"
    ] = None

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Cut the tree of distances in units of noise."""
        factor = granularity_for(self.samples) if self.granularity is None else self.granularity
        reason = f"Groups are over {factor:.2f} times as far apart as chance puts clients of one distribution"
        made = Cut.at(merges, factor, reason)
        if made.labels.max() == 0 and len(merges):
            highest = heights(merges)[-1]
            reason = (
                f"No two parts are farther apart ({highest:.2f} times the noise) than chance explains ({factor:.2f})"
            )
        coarser = _coarser(merges, made.labels) if self.clients is None else ""  # of landmarks, some are strays
        return made._replace(reason=reason + coarser)


def granularity_for(samples: float) -> float:
    """Return the factor at which `auto` cuts by default, for clients with this many samples each.

    With fewer samples, the same difference between two distributions stands out less from the noise.
    """
    return 1 + 0.45 * min(1.0, samples / 36)


def _coarser(merges: Floats, labels: Ints) -> str:
    """Suggest a coarser cut: the number of distributions is not the number of models that learns best."""
    groups, clients = int(labels.max()) + 1, len(labels)
    if groups <= math.sqrt(clients) or groups < 3:
        return ""
    at = heights(merges)
    most = max(2, math.isqrt(clients))
    wide = {k: at[len(at) + 1 - k] / at[len(at) - k] for k in range(2, most + 1) if at[len(at) - k] > 0}
    best = max(wide, key=lambda k: wide[k], default=1)
    return (
        f". So {groups} distributions can be told apart, but with about {round(clients / groups, 1):g} clients each, "
        f"fewer models may learn better: the clearest coarser cut has {best} groups "
        f"(granularity {threshold_for(merges, best):.2f})"
    )


@rule("gap")
@dataclass(frozen=True, kw_only=True)
class Gap(Rule):
    """Cut in the widest gap between successive merges."""

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Never make one group, unless all clients are equally far apart."""
        at = heights(merges)
        steps = np.diff(at)
        if len(steps) == 0 or steps.max() <= 0:
            return Cut.into(merges, 1, "There is no gap")
        reason = f"The widest gap between merges, {quantity(steps.max(), self.unit)}, is here"
        return Cut.into(merges, len(at) - int(steps.argmax()), reason)

    def reach(self, grouping: Grouping) -> float:
        """The threshold; any distance if there was no gap."""
        return math.inf if grouping.n_groups == 1 else grouping.threshold


@rule("silhouette")
@dataclass(frozen=True, kw_only=True)
class Silhouette(Rule):
    """Cut into the number of groups whose mean silhouette is the largest."""

    least: Annotated[
        float, Ge(-1), Le(1), "below this there is no substantial structure: one group (Kaufman and Rousseeuw, 1990)"
    ] = 0.25

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Try all numbers of groups."""
        scores = silhouettes(distances, merges)
        if not scores:
            return Cut.into(merges, 1, "There is nothing to cut")
        best = max(scores, key=lambda count: scores[count])
        reason = f"{best} groups have the largest mean silhouette, {scores[best]:.2f}"
        if scores[best] >= self.least:
            return Cut.into(merges, best, reason)
        return Cut.into(merges, 1, f"{reason}, which is below {self.least}: one group")

    def reach(self, grouping: Grouping) -> float:
        """The threshold; any distance if all clients are one group."""
        return math.inf if grouping.n_groups == 1 else grouping.threshold


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


@rule("demo")
@dataclass(frozen=True, kw_only=True)
class Demo(Rule):
    """Lower the threshold step by step until the number of groups jumps (PACFL's demonstration)."""

    units: ClassVar[tuple[str, ...]] = ("degrees",)
    default_linkage: ClassVar[str] = "weighted"
    per_label: ClassVar[bool] = True

    start: Annotated[float, Gt(0), "the first threshold, in degrees"] = 100.0
    factor: Annotated[float, Gt(1), "by which each threshold is divided to get the next"] = 1.1

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Stop before the number of groups first jumps by more than one."""
        lowest = heights(merges)[0] if len(merges) else self.start
        threshold = self.start
        while threshold / self.factor >= max(lowest, 1e-4):
            before, after = number_of_groups(merges, [threshold, threshold / self.factor])
            if after - before > 1:
                break
            threshold /= self.factor
        reason = f"Just below {quantity(threshold, self.unit)} the number of groups jumps by more than one"
        return Cut.at(merges, threshold, reason)


@rule("trial")
@dataclass(frozen=True, kw_only=True)
class Trial(Rule):
    """Try cuts from one group to many, and take the one after which more groups gain little (FLAG)."""

    needs: ClassVar[tuple[Evidence, ...]] = ("distances", "trial")

    step: Annotated[float, Gt(0), Le(1), "cuts are tried at 1, 1 − step, … 0, where the largest distance is 1"] = 0.1

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Score the groups of each cut; equal groups only once."""
        if self.score is None:
            raise ValueError(f"rule '{self.name}' needs a trial that scores groups")
        cuts: dict[int, float] = {}  # the highest threshold for each number of groups
        for k in range(math.floor(1 / self.step + 1e-9) + 1):
            threshold = max(0.0, round(1 - k * self.step, 12))
            cuts.setdefault(int(number_of_groups(merges, threshold)), threshold)
        counts = sorted(cuts)
        labels = [cut(merges, threshold=cuts[count]) for count in counts]
        scores = [self.score(each) for each in labels]
        best = elbow(counts, scores)
        tried = ", ".join(f"{count}: {score:.3f}" for count, score in zip(counts, scores, strict=True))
        reason = f"A trial of each cut scored (groups: score) {tried}; beyond {counts[best]} the gain is small"
        return Cut(labels[best], cuts[counts[best]], reason)


def elbow(counts: Sequence[int], scores: Sequence[float]) -> int:
    """Return the position of the count, ascending, after which scores gain little.

    With both axes scaled to 0 … 1 it is the point farthest above the line from the first to the last, or if none is
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

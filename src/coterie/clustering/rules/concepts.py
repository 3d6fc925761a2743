"""A rule for clients that are compared by what they share: it parts what differs beyond chance, and clearly."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from coterie.clustering.forest import forest, mean_between, parts_of, silhouettes
from coterie.clustering.grouping import Grouping, founding_weights
from coterie.clustering.hierarchical import Floats, Ints, canonical, cut
from coterie.clustering.rules import Cut, Evidence, Rule, rule

Pairs = npt.NDArray[Any]
"""A record per pair, (n, n), with fields ``distance`` (NaN where nothing is shared), ``weight`` (by which it counts in
means of distances), ``excess`` (squared distance in times what chance explains) and ``shared`` (by which that counts);
`coterie.similarity.class_distances` makes them."""


@rule("concepts")
@dataclass(frozen=True, kw_only=True)
class Concepts(Rule):
    """Part clients to whom the same label looks different: clearly, and by over twice what chance explains."""

    needs: ClassVar[tuple[Evidence, ...]] = ("chance",)

    chance: Annotated[float, Ge(1), "groups are this many times as far apart, squared, as chance explains"] = 2.0
    least: Annotated[
        float, Ge(-1), Le(1), "and have at least this mean silhouette: strong structure (Kaufman and Rousseeuw, 1990)"
    ] = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "linkage", self.default_linkage)  # means over known pairs; there is no other way

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Group clients by what is known of each two: an array of records, (n, n), see `Pairs`."""
        pairs = self.scaled(proximity, None, None)
        distances = np.array(pairs["distance"])
        merges = forest(distances, pairs["weight"])
        made = self._cut(merges, distances, mean_between(merges, pairs["excess"], pairs["shared"]))
        labels, alone = self._with_mates(made.labels, pairs)
        made = made._replace(labels=labels, reason=f"{made.reason}{alone}")
        grouping = self._grouping(merges, distances, made)
        return replace(grouping, weights=founding_weights(merges, labels, self.linkage))

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Not by distances alone."""
        raise ValueError(f"rule '{self.name}' needs what chance explains of each distance")

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Any:
        """Return the records as they are."""
        pairs = np.asarray(proximity)
        if pairs.dtype.names is None:
            raise ValueError(f"rule '{self.name}' needs what chance explains of each distance")
        return pairs

    def _cut(self, merges: Floats, distances: Floats, excess: Floats) -> Cut:
        """Of the cuts below a merge beyond chance, take the one of largest silhouette, if that is large enough."""
        within = merges[:, 2] if len(merges) else np.zeros(0)
        connected = np.isfinite(within)
        parts, highest = parts_of(merges), float(np.max(excess[connected], initial=0.0))
        whole = Cut(parts, float(within[connected].max(initial=0.0)), "")
        beyond = np.flatnonzero(connected & (within > 0) & (np.nan_to_num(excess) > self.chance))
        if not len(beyond):
            told = f"the same label looks alike to all: {highest:.3g} times chance at most, not over {self.chance:g}"
            return whole._replace(threshold=self._refused_at(within, excess), reason=_in_parts(parts, told))
        scores = dict(silhouettes(merges, distances, {*beyond.tolist()}, self.least))
        best = max(scores, key=lambda made: (round(scores[made], 2), -made), default=-1)  # of equal ones the finest
        if best < 0 or scores[best] < self.least:
            found = f"{scores[best]:.2f}" if best >= 0 else f"below {self.least:g}"
            told = (
                f"the same label looks different ({highest:.3g} times chance), but in no clear groups: the largest "
                f"mean silhouette is {found}, not {self.least:g}"
            )
            return whole._replace(reason=_in_parts(parts, told))
        made = Cut.into(merges, len(merges) + 1 - best, "")
        told = (
            f"the same label looks different in different groups: {excess[best]:.3g} times as far apart, squared, as "
            f"chance explains, with a mean silhouette of {scores[best]:.2f}"
        )
        return made._replace(reason=_in_parts(parts, told))

    def _refused_at(self, heights: Floats, excess: Floats) -> float:
        """Return how high the merge nearest to being refused would have to be: excess − 1 goes with the distance."""
        usable = np.isfinite(heights) & (heights > 0) & (np.nan_to_num(excess) > 1)
        if not usable.any():
            return float(np.max(heights[np.isfinite(heights)], initial=0.0))
        at = heights[usable] * (self.chance - 1) / (excess[usable] - 1)
        return float(max(at.min(), heights[np.isfinite(heights)].max()))

    def _with_mates(self, labels: Ints, pairs: Pairs) -> tuple[Ints, str]:
        """Let clients that are alone join the nearest group, or if they share nothing with any the largest."""
        sizes = np.bincount(labels)
        alone = np.flatnonzero(sizes[labels] == 1)
        if not len(alone) or len(labels) == 1:
            return labels, ""
        result = labels.copy()
        if len(alone) == len(labels):
            result[:] = 0
        else:
            mates = np.flatnonzero(sizes > 1)
            far = to_groups(pairs[alone], labels)["distance"][:, mates]
            near = np.where(np.isfinite(far), far, np.inf)
            result[alone] = np.where(np.isfinite(near).any(axis=1), mates[near.argmin(axis=1)], sizes.argmax())
        many = "1 client" if len(alone) == 1 else f"{len(alone)} clients"
        return canonical(result), f". {many} without mates joined the nearest group, or the largest"

    def extend(self, grouping: Grouping, cross: npt.ArrayLike, among: npt.ArrayLike) -> Grouping:
        """Let newcomers join the nearest group that differs from them by no more than chance allows.

        Those whom all groups differ from found groups where several are alike, and clearly so; nobody is alone: others
        join the nearest group, and those that share nothing with any the largest. Groups are their founders.
        """
        far = self._to_founders(grouping, cross)
        near = np.where(np.isfinite(far["distance"]), far["distance"], np.inf)
        fits = np.where(np.nan_to_num(far["excess"]) <= self.chance, near, np.inf)
        labels = np.where(np.isfinite(fits).any(axis=1), fits.argmin(axis=1), -1)
        weights = np.zeros(len(labels))
        left = np.flatnonzero((labels < 0) & np.isfinite(near).any(axis=1))
        if len(left) > 1:
            founded = self._founded(self.scaled(among, None, None)[np.ix_(left, left)], near[left].min(axis=1))
            mates = founded >= 0
            labels[left[mates]] = grouping.n_groups + canonical(founded[mates])
            weights[left[mates]] = 1 / np.bincount(founded[mates])[founded[mates]]
        labels = np.where(labels < 0, self.nearest(grouping, cross), labels)
        return replace(
            grouping,
            labels=np.concatenate([grouping.labels, labels]),
            weights=np.concatenate([grouping.weights, weights]),
            proximity=None,
        )

    def _founded(self, among: Pairs, nearest: Floats) -> Ints:
        """Merge newcomers up to the first merge that chance does not explain; −1 for those that make no clear group.

        `nearest` is how far each is from the nearest group that there is.
        """
        merges = forest(among["distance"], among["weight"])
        excess = mean_between(merges, among["excess"], among["shared"])
        refused = np.flatnonzero(np.isfinite(merges[:, 2]) & (np.nan_to_num(excess) > self.chance) & (merges[:, 2] > 0))
        made = int(refused[0]) if len(refused) else int(np.isfinite(merges[:, 2]).sum())
        founded = cut(merges, count=len(merges) + 1 - made)
        known = np.isfinite(among["distance"]) & (founded[:, None] == founded) & ~np.eye(len(founded), dtype=bool)
        total = np.where(known, among["distance"], 0.0).sum(axis=1)
        inside = np.maximum(total, 0.0) / np.maximum(known.sum(axis=1), 1)
        scores = (nearest - inside) / np.maximum(np.maximum(nearest, inside), 1e-12)
        sizes = np.bincount(founded)
        clear = (sizes > 1) & (np.bincount(founded, scores) >= self.least * sizes)
        return np.where(clear[founded], founded, -1)

    def nearest(self, grouping: Grouping, cross: npt.ArrayLike) -> Ints:
        """Return the group nearest to each newcomer over known pairs; for one without any, the largest."""
        far = self._to_founders(grouping, cross)["distance"]
        known = np.isfinite(far)
        largest = int(np.bincount(grouping.labels).argmax())
        return np.where(known.any(axis=1), np.where(known, far, np.inf).argmin(axis=1), largest)

    def _to_founders(self, grouping: Grouping, cross: npt.ArrayLike) -> Pairs:
        """Return what is known of newcomers and the founders of groups, (newcomers, groups)."""
        founders = np.where(grouping.weights > 0, grouping.labels, -1)
        return to_groups(self.scaled(cross, None, None), founders, grouping.n_groups)

    def regroup(self, grouping: Grouping, distances: Any) -> Grouping:
        """Group all clients anew."""
        return self.group(distances)


def to_groups(pairs: Pairs, labels: Ints, groups: int | None = None) -> Pairs:
    """Return what is known of clients and groups, (rows, groups), from what is known of clients and their members.

    Members labelled −1 do not count.
    """
    groups = int(labels.max(initial=-1)) + 1 if groups is None else groups
    member = (labels[:, None] == np.arange(groups)).astype(np.float64)
    result = np.zeros((len(pairs), groups), pairs.dtype)
    for value, weight in (("distance", "weight"), ("excess", "shared")):
        counted = np.where(np.isfinite(pairs["distance"]), pairs[weight], 0.0)
        totals = counted @ member
        sums = (np.nan_to_num(pairs[value]) * counted) @ member
        result[weight] = totals
        result[value] = np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), np.nan)
    return result


def _in_parts(parts: Ints, told: str) -> str:
    """Begin a reason with how many parts there are that share no labels."""
    several = int(parts.max(initial=0)) + 1
    if several > 1:
        return f"{several} parts are connected by no chain of shared labels; within them {told}"
    return f"{told[:1].upper()}{told[1:]}"

"""A rule for clients that are compared by what they share: it parts what differs beyond chance, and clearly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from coterie.clustering.forest import forest, mean_between, parts_of, silhouettes
from coterie.clustering.grouping import Grouping, founding_weights
from coterie.clustering.hierarchical import Floats, Ints, canonical, cut
from coterie.clustering.pooled import PooledGroups, Told, judged, pooled_groups
from coterie.clustering.rules import Cut, Evidence, Rule, rule, threshold_for
from coterie.errors import counted

Pairs = npt.NDArray[Any]
"""A record per pair, (n, n), with fields ``distance`` (NaN where nothing is shared), ``weight`` (by which it counts in
means of distances), ``excess`` (squared distance in times what chance explains) and ``shared`` (by which that counts);
`coterie.similarity.class_distances` makes them."""


class Structure(NamedTuple):
    """What is known of clients before they are grouped."""

    merges: Floats
    """Of average linkage over known pairs, (n − 1, 4)."""
    excess: Floats
    """How many times chance each merge is, (n − 1,); NaN for one that joins parts."""
    parts: Ints
    """Which clients a chain of shared labels connects, (n,)."""
    made: int | None
    """After how many merges to cut; None: parts are the groups."""
    highest: float | None
    """How many times chance the merge is that is not made, else the largest of all; None if no two can be compared."""
    silhouette: float | None
    """The largest of the cuts below a merge beyond chance; None if there is none that can reach the least."""

    def beyond(self, chance: float) -> bool:
        """Whether any two groups are more times as far apart as chance explains."""
        return self.highest is not None and self.highest > chance


@rule("concepts")
@dataclass(frozen=True, kw_only=True)
class Concepts(Rule):
    """Part clients to whom the same label looks different: clearly, and by over twice what chance explains."""

    needs: ClassVar[tuple[Evidence, ...]] = ("chance",)

    chance: Annotated[
        float, Ge(1), "the squared distance between groups is over this many times what chance explains"
    ] = 2.0
    least: Annotated[
        float, Ge(-1), Le(1), "and have at least this mean silhouette: strong structure (Kaufman and Rousseeuw, 1990)"
    ] = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "linkage", self.default_linkage)  # means over known pairs; there is no other way

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Group clients by what is known of each two: an array of records, (n, n), see `Pairs`."""
        pairs = self.scaled(proximity, None, None)
        return self.by_pairs(pairs, self.structure(pairs))

    def by_pairs(self, pairs: Pairs, seen: Structure) -> Grouping:
        """Group clients as their structure says."""
        labels, alone = self._with_mates(self._groups(seen), pairs)
        made = Cut(labels, self._threshold(seen), f"{self._reason(seen)}{alone}")
        grouping = self._grouping(seen.merges, np.array(pairs["distance"]), made)
        return replace(grouping, weights=founding_weights(seen.merges, labels, self.linkage))

    def structure(self, proximity: npt.ArrayLike) -> Structure:
        """Return what decides: of the cuts below a merge beyond chance, the one of largest silhouette."""
        pairs = self.scaled(proximity, None, None)
        merges = forest(pairs["distance"], pairs["weight"])
        excess = mean_between(merges, pairs["excess"], pairs["shared"])
        connected = np.isfinite(merges[:, 2]) if len(merges) else np.zeros(0, bool)
        highest = float(np.max(excess[connected])) if connected.any() else None
        seen = Structure(merges, excess, parts_of(merges), None, highest, None)
        beyond = np.flatnonzero(connected & (np.nan_to_num(excess) > self.chance))
        beyond = beyond[merges[beyond, 2] > 0]
        scores = dict(silhouettes(merges, np.array(pairs["distance"]), {*beyond.tolist()}, self.least))
        if not scores:
            return seen
        best = max(scores, key=lambda made: (round(scores[made], 2), -made))  # of equal ones the finest
        if scores[best] < self.least:
            return seen._replace(silhouette=scores[best])
        return seen._replace(made=best, highest=float(excess[best]), silhouette=scores[best])

    def pool(self, grouping: Grouping, proximity: Any, moments: Sequence[tuple[Any, Any, Any]]) -> Grouping:
        """Divide clients again by the means of groups, which shows more than pairs; groups stay if it shows none."""
        pairs = self.scaled(proximity, None, None)
        return self.by_pools(grouping, pairs, self.pooled(pairs, parts_of(grouping.tree), moments))

    def by_pools(self, grouping: Grouping, pairs: Pairs, found: PooledGroups | None) -> Grouping:
        """Take the groups that means of groups tell apart, if these are any."""
        if found is None:
            return grouping
        labels, alone = self._with_mates(found.labels, pairs)
        told = (
            f"the same label looks different in different groups: the squared distance of clients to the mean of "
            f"another group is {found.excess:.3g} times what chance explains, "
            f"with a mean silhouette of {found.silhouette:.2f}"
        )
        return replace(
            grouping,
            labels=labels,
            threshold=min(
                threshold_for(grouping.tree, int(labels.max()) + 1), float(grouping.heights.max(initial=0.0))
            ),
            reason=f"{_in_parts(parts_of(grouping.tree), told)}{alone}.",
            weights=founding_weights(grouping.tree, labels, self.linkage),
        )

    def pooled(self, pairs: Pairs, parts: Ints, moments: Sequence[tuple[Any, Any, Any]]) -> PooledGroups | None:
        """Return the groups that means of groups tell apart, and how clearly those of divided parts; None for none."""
        told = Told.of(moments)
        labels = pooled_groups(told, pairs, parts, self.chance, self.least)
        if labels.max() == parts.max():
            return None
        divided = np.array([len(np.unique(labels[parts == part])) > 1 for part in parts])
        seen = judged(told.among(np.flatnonzero(divided)), canonical(labels[divided]))
        return seen._replace(labels=labels)

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Not by distances alone."""
        raise ValueError(f"rule '{self.name}' needs what chance explains of each distance")

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Any:
        """Return the records as they are."""
        pairs = np.asarray(proximity)
        if pairs.dtype.names is None:
            raise ValueError(f"rule '{self.name}' needs what chance explains of each distance")
        return pairs

    def _groups(self, seen: Structure) -> Ints:
        return seen.parts if seen.made is None else cut(seen.merges, count=len(seen.merges) + 1 - seen.made)

    def _threshold(self, seen: Structure) -> float:
        """Return how high merges may be: where none is refused, what would have to be there to be."""
        if seen.made is not None:
            return threshold_for(seen.merges, len(seen.merges) + 1 - seen.made)
        heights = seen.merges[:, 2] if len(seen.merges) else np.zeros(0)
        within = np.isfinite(heights)
        highest = float(np.max(heights[within], initial=0.0))
        usable = within & (heights > 0) & (np.nan_to_num(seen.excess) > 1)
        if seen.beyond(self.chance) or not usable.any():
            return highest
        at = heights[usable] * (self.chance - 1) / (seen.excess[usable] - 1)  # excess − 1 goes with the distance
        return max(float(at.min()), highest)

    def _reason(self, seen: Structure) -> str:
        if seen.made is not None:
            told = (
                f"the same label looks different in different groups: the squared distance between groups is "
                f"{seen.highest:.3g} times what chance explains, with a mean silhouette of {seen.silhouette:.2f}"
            )
        elif seen.highest is None:
            told = "no two clients have a label in common"
        elif seen.beyond(self.chance):
            found = f"below {self.least:g}" if seen.silhouette is None else f"{seen.silhouette:.2f}"
            told = (
                f"the same label looks different ({seen.highest:.3g} times chance), but in no clear groups: the "
                f"largest mean silhouette is {found}, not {self.least:g}"
            )
        else:
            most = f"{seen.highest:.3g} times chance at most, not over {self.chance:g}"
            told = f"the same label looks alike at all clients: {most}"
        return _in_parts(seen.parts if seen.highest is not None else np.zeros(1, np.int64), told)

    def _with_mates(self, labels: Ints, pairs: Pairs) -> tuple[Ints, str]:
        """Let clients that are alone join the nearest group, or if they share nothing with any the largest."""
        sizes = np.bincount(labels)
        alone = np.flatnonzero(sizes[labels] == 1)
        if not len(alone) or len(labels) == 1:
            return labels, ""
        if len(alone) == len(labels):
            return np.zeros_like(labels), ". As nobody has mates, all are one group"
        result = labels.copy()
        mates = np.flatnonzero(sizes > 1)
        far = to_groups(pairs[alone], labels)["distance"][:, mates]
        near = np.where(np.isfinite(far), far, np.inf)
        result[alone] = np.where(np.isfinite(near).any(axis=1), mates[near.argmin(axis=1)], sizes.argmax())
        many = counted(len(alone), "client")
        return canonical(result), f". {many} that shared a group with nobody joined the nearest group, or the largest"

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

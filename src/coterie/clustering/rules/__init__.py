"""Rules: where to cut a tree of merges, and why. Users register their own like the built-in ones."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.clustering.calibration import in_units_of_noise
from coterie.clustering.grouping import Grouping, distance_to_groups, extend, founding_weights
from coterie.clustering.hierarchical import Floats, Ints, cut, heights, tree
from coterie.registry import Registry

NOISE = "times noise"
MOST_KEPT = 5_000
"""Clients up to which a grouping keeps the distances of all pairs."""
Evidence = Literal["distances", "noise", "trial", "chance"]
"""What a rule may need, and a method may offer: distances between clients, each client's noise, a trial that scores
groups, and distances of which only some are known, each with what chance explains of it."""


class Cut(NamedTuple):
    """The groups that a rule chose."""

    labels: Ints
    """The group of each client, numbered by first appearance, (n,)."""
    threshold: float
    """Merges up to this height were made."""
    reason: str
    """Why, without the full stop."""

    @classmethod
    def at(cls, merges: Floats, threshold: float, reason: str) -> Cut:
        """Cut at a threshold."""
        return cls(cut(merges, threshold=threshold), threshold, reason)

    @classmethod
    def into(cls, merges: Floats, count: int, reason: str) -> Cut:
        """Cut into a number of groups, or one per client if there are fewer; the threshold lies between two merges."""
        labels = cut(merges, count=count)
        return cls(labels, threshold_for(merges, int(labels.max(initial=-1)) + 1), reason)


@dataclass(frozen=True)
class Rule(ABC):
    """Where to cut.

    Your own rule is a subclass with `cut`, registered with ``@coterie.rule("name")``; keyword-only fields are its
    options. The fields below are not: the method that forms groups fills them in.
    """

    name: ClassVar[str] = ""
    """As users write it; the decorator sets it."""
    needs: ClassVar[tuple[Evidence, ...]] = ("distances",)
    """What a method must offer. A rule that needs ``noise`` cuts distances in units of it."""
    units: ClassVar[tuple[str, ...]] = ()
    """The units of distances that it works with; none: any."""
    implied_by: ClassVar[str | None] = None
    """The key of [grouping] that implies this rule; it is an option of the rule."""
    default_linkage: ClassVar[str] = "average"
    """For methods that have no linkage of their own."""
    per_label: ClassVar[bool] = False
    """Whether it is made for signatures per label, as in PACFL's paper, not for one of all samples."""

    linkage: str = ""
    """How far two groups are from each other, one of `coterie.clustering.LINKAGES`; by default `default_linkage`."""
    unit: str = "degrees"
    """Of the distances that it is given."""
    samples: float = math.inf
    """The median number of samples per client."""
    score: Callable[[Ints], float] | None = None
    """Scores groups by a trial, if the method offers one."""
    clients: int | None = None
    """How many clients there are, where the distances are of landmarks among them."""

    def __post_init__(self) -> None:
        if not self.linkage:
            object.__setattr__(self, "linkage", self.default_linkage)

    @abstractmethod
    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Cut the tree of merges of these distances, (n, n)."""

    def group(self, proximity: npt.ArrayLike, noise: Floats | None = None) -> Grouping:
        """Group clients by their proximities, (n, n); `noise` is what `coterie.clustering.noise` returns, (n,)."""
        distances = self.scaled(proximity, noise, None)
        merges = tree(distances, self.linkage)
        return self._grouping(merges, distances, self.cut(merges, distances))

    def scaled(self, proximity: npt.ArrayLike, rows: Floats | None, columns: Floats | None) -> Floats:
        """Return distances, of newcomers for instance, in the unit of the threshold."""
        if "noise" not in self.needs:
            return np.asarray(proximity, np.float64)
        if rows is None:
            raise ValueError(f"rule '{self.name}' needs the noise of each client")
        return in_units_of_noise(proximity, rows, columns)

    def pool(self, grouping: Grouping, proximity: Any, moments: Sequence[tuple[Any, Any, Any]]) -> Grouping:
        """Look at groups again by what their clients told of labels together; a rule that can't leaves them.

        `moments` are means, variances and counts of each client's labels, `proximity` what was grouped.
        """
        return grouping

    def reach(self, grouping: Grouping) -> float:
        """Return how far from a group a newcomer may be to join it."""
        return grouping.threshold

    def extend(self, grouping: Grouping, cross: npt.ArrayLike, among: npt.ArrayLike) -> Grouping:
        """Place newcomers in a grouping, by their distances to its clients and among each other, in its unit."""
        return extend(grouping, cross, among, self.reach(grouping))

    def nearest(self, grouping: Grouping, cross: npt.ArrayLike) -> Ints:
        """Return the group nearest to each newcomer, (newcomers,)."""
        return np.asarray(distance_to_groups(grouping, cross).argmin(axis=1), np.int64)

    def regroup(self, grouping: Grouping, distances: Floats) -> Grouping:
        """Regroup clients and newcomers, by distances in the grouping's unit and with the same cut."""
        merges = tree(distances, self.linkage)
        again = self._grouping(merges, distances, self.recut(grouping, merges))
        return replace(again, threshold=grouping.threshold, unit=grouping.unit, rule=grouping.rule)

    def recut(self, grouping: Grouping, merges: Floats) -> Cut:
        """Cut the tree of more clients as the grouping was cut."""
        return Cut.at(merges, self.reach(grouping), grouping.reason)

    def _grouping(self, merges: Floats, distances: Floats, cut: Cut) -> Grouping:
        labels, threshold, reason = cut
        if len(labels) == 1:
            reason = "There is one client"
        weights = founding_weights(merges, labels, self.linkage)
        unit = NOISE if "noise" in self.needs else self.unit
        kept = distances if len(labels) <= MOST_KEPT else None
        return Grouping(labels, merges, threshold, unit, self.name, self.linkage, f"{reason}.", weights, kept)


def _error_in_rule(item: Any) -> str | None:
    """Say why a class is not a rule, or None."""
    if not (inspect.isclass(item) and issubclass(item, Rule)):
        return "a rule is a subclass of coterie.clustering.Rule"
    if not item.name:
        return "it has no name: register it with @coterie.rule"
    return "it has no function cut(self, merges, distances)" if inspect.isabstract(item) else None


RULES: Registry[type[Rule]] = Registry("rule", "coterie.clustering.rules", "coterie.rules", error_in=_error_in_rule)


R = TypeVar("R", bound=type[Rule])


def rule(name: str) -> Callable[[R], R]:
    """Register a subclass of `coterie.clustering.Rule`; its keyword-only fields are its options."""
    register = RULES.register(name)

    def enter(item: R) -> R:
        item.name = name
        register(item)
        return item

    return enter


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, if it has one, for a reason.

    >>> quantity(12.345, "degrees"), quantity(0.5, "")
    ('12.3 degrees', '0.5')
    """
    return f"{value:.3g} {unit}".rstrip()


def threshold_for(merges: Floats, count: int) -> float:
    """Return a threshold that gives this many groups: midway between two merges."""
    at = heights(merges)
    made = len(at) + 1 - count
    if len(at) == 0:
        return 0.0
    if made == 0:
        return float(at[0] / 2)
    return float(at[made - 1] if made == len(at) else (at[made - 1] + at[made]) / 2)

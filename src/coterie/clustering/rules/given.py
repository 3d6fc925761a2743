"""Rules whose cut the user gives: a number of groups, or a threshold."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from coterie.clustering.grouping import Grouping
from coterie.clustering.hierarchical import Floats
from coterie.clustering.rules import Cut, Evidence, Rule, rule
from coterie.errors import counted


@rule("count")
@dataclass(frozen=True, kw_only=True)
class Count(Rule):
    """Merge until a given number of groups is left."""

    needs: ClassVar[tuple[Evidence, ...]] = ()
    implied_by: ClassVar[str | None] = "groups"
    default_linkage: ClassVar[str] = "weighted"
    per_label: ClassVar[bool] = True

    groups: Annotated[int, Ge(1), "how many groups"]

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Cut into this many groups, or into one per client if there are fewer clients."""
        made = Cut.into(merges, self.groups, f"{counted(self.groups, 'group')}, as asked")
        if len(made.labels) >= self.groups:
            return made
        only = f"{self.groups} groups were asked for, but there are only {counted(len(made.labels), 'client')}"
        return made._replace(reason=only)

    def reach(self, grouping: Grouping) -> float:
        """Any distance: newcomers never form new groups."""
        return math.inf

    def recut(self, grouping: Grouping, merges: Floats) -> Cut:
        """Cut into as many groups again."""
        return Cut.into(merges, grouping.n_groups, grouping.reason)


@rule("degrees")
@dataclass(frozen=True, kw_only=True)
class Threshold(Rule):
    """Merge groups up to a distance (PACFL's paper)."""

    implied_by: ClassVar[str | None] = "threshold"
    default_linkage: ClassVar[str] = "weighted"
    per_label: ClassVar[bool] = True

    threshold: Annotated[float, Ge(0), "merge groups up to this distance"]

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Cut at the threshold."""
        upto = f"{self.threshold:g} {self.unit}".rstrip()
        return Cut.at(merges, self.threshold, f"Groups merge up to {upto}, as asked")

"""From what a user asks for to a rule."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from coterie.clustering.rules import Auto, Count, Demo, Gap, Rule, Silhouette, Threshold

RuleName = Literal["auto", "degrees", "count", "gap", "demo", "silhouette", "trial"]
Linkage = Literal["single", "complete", "average", "weighted", "centroid", "median", "ward"]


@dataclass(frozen=True)
class GroupingOptions:
    """What was asked for; all of it may be left open."""

    rule: RuleName | None = None
    threshold: float | None = None
    groups: int | None = None
    granularity: float | None = None
    linkage: Linkage | None = None

    @property
    def named(self) -> RuleName | None:
        """The rule that was asked for by its name, or by the number that belongs to it."""
        if self.rule is not None:
            return self.rule
        given: dict[RuleName, float | None] = {
            "degrees": self.threshold,
            "count": self.groups,
            "auto": self.granularity,
        }
        return next((name for name, value in given.items() if value is not None), None)

    def problem(self) -> str | None:
        """Say what contradicts itself, or None."""
        owners: dict[str, tuple[RuleName, float | None]] = {
            "threshold": ("degrees", self.threshold),
            "groups": ("count", self.groups),
            "granularity": ("auto", self.granularity),
        }
        given = [key for key, (_, value) in owners.items() if value is not None]
        if len(given) > 1:
            return f"{' and '.join(given)} exclude each other: keep one"
        if given and self.rule not in (None, owners[given[0]][0]):
            return f"{given[0]} belongs to rule '{owners[given[0]][0]}', not to '{self.rule}': leave one of them out"
        if self.rule == "degrees" and self.threshold is None:
            return "rule 'degrees' needs a threshold, for instance 5"
        if self.rule == "count" and self.groups is None:
            return "rule 'count' needs the number of groups, for instance 4"
        return None

    def make(self, default: Rule, samples: float = math.inf) -> Rule:
        """Return the rule that was asked for, or the method's own; with the linkage that was asked for.

        `samples` per client sets the default of `auto`'s factor. A method whose own rule is not `auto` has one
        linkage for all rules; beside `auto`, the rules of PACFL's paper go with WPGMA, others with UPGMA.
        """
        calibrated = isinstance(default, Auto)
        unit: str = getattr(default, "unit", "degrees")
        told, found = ("weighted", "average") if calibrated else (default.linkage, default.linkage)
        own = replace(default, samples=samples) if isinstance(default, Auto) else default
        rules: dict[RuleName | None, Rule] = {
            None: own,
            "auto": Auto(self.granularity, samples=samples),
            "degrees": Threshold(told, unit, self.threshold or 0.0),
            "count": Count(told, unit, self.groups or 1),
            "gap": Gap(found, unit),
            "demo": Demo(told, unit),
            "silhouette": Silhouette(found, unit),
            "trial": own,  # whose own rule it is
        }
        rule = rules[self.named]
        return rule if self.linkage is None else replace(rule, linkage=self.linkage)  # type: ignore[type-var]

"""Rule `demo`: PACFL's demonstration."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt

from coterie.clustering.grouping import Floats
from coterie.clustering.hierarchical import heights, number_of_groups
from coterie.clustering.rule import Cut, Rule, quantity
from coterie.clustering.rules import rule


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
        """Keep what was there before the first jump by more than one."""
        lowest = heights(merges)[0] if len(merges) else self.start
        threshold = self.start
        while threshold / self.factor >= max(lowest, 1e-4):
            before, after = number_of_groups(merges, [threshold, threshold / self.factor])
            if after - before > 1:
                break
            threshold /= self.factor
        reason = f"Just below {quantity(threshold, self.unit)} the number of groups jumps by more than one"
        return Cut.at(merges, threshold, reason)

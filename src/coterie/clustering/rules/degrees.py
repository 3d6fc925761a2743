"""Rule `degrees`: the threshold is given."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from coterie.clustering.grouping import Floats
from coterie.clustering.rule import Cut, Rule
from coterie.clustering.rules import rule


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

"""Rule `silhouette`: the number of groups with the largest mean silhouette."""

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from coterie.clustering.grouping import Floats, Grouping
from coterie.clustering.rule import Cut, Rule
from coterie.clustering.rules import rule
from coterie.clustering.silhouettes import silhouettes


@rule("silhouette")
@dataclass(frozen=True, kw_only=True)
class Silhouette(Rule):
    """Cut into the number of groups whose mean silhouette is the largest."""

    least: Annotated[
        float, Ge(-1), Le(1), "below this there is no structure worth the name: one group (Kaufman and Rousseeuw, 1990)"
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
        """The threshold; any distance where all clients are one group."""
        return math.inf if grouping.n_groups == 1 else grouping.threshold

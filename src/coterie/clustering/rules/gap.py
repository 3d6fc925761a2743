"""Rule `gap`: the widest step between successive merges."""

import math
from dataclasses import dataclass

import numpy as np

from coterie.clustering.grouping import Floats, Grouping
from coterie.clustering.hierarchical import heights
from coterie.clustering.rule import Cut, Rule, quantity
from coterie.clustering.rules import rule


@rule("gap")
@dataclass(frozen=True, kw_only=True)
class Gap(Rule):
    """Cut in the widest gap between successive merges."""

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Never make one group, unless all clients are equally far from each other."""
        at = heights(merges)
        steps = np.diff(at)
        if len(steps) == 0 or steps.max() <= 0:
            return Cut.into(merges, 1, "There is no gap")
        reason = f"The widest gap between merges, {quantity(steps.max(), self.unit)}, is here"
        return Cut.into(merges, len(at) - int(steps.argmax()), reason)

    def reach(self, grouping: Grouping) -> float:
        """The threshold; any distance where there was no gap."""
        return math.inf if grouping.n_groups == 1 else grouping.threshold

"""Rule `trial`: the cut is found by training (FLAG)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt, Le

from coterie.clustering.grouping import Floats
from coterie.clustering.hierarchical import cut, number_of_groups
from coterie.clustering.rule import Cut, Evidence, Rule
from coterie.clustering.rules import rule


@rule("trial")
@dataclass(frozen=True, kw_only=True)
class Trial(Rule):
    """Try cuts from one group to many, and take the one after which more groups gain little (FLAG)."""

    needs: ClassVar[tuple[Evidence, ...]] = ("distances", "trial")

    step: Annotated[float, Gt(0), Le(1), "cuts are tried at 1, 1 − step, … 0 of the largest distance, which is 1"] = 0.1

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Score the groups of each cut; of cuts with equal groups, once."""
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

    With both axes scaled to 0 … 1 it is the point farthest above the line from the first to the last, or where none is
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

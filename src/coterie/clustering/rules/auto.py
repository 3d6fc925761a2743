"""Rule `auto`: groups differ by more than chance explains (ours)."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt

from coterie.clustering.grouping import Floats, Ints
from coterie.clustering.hierarchical import heights
from coterie.clustering.rule import Cut, Evidence, Rule, threshold_for
from coterie.clustering.rules import rule


@rule("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Rule):
    """Cut where distances exceed what chance alone does, by more than a factor (split-half calibration)."""

    needs: ClassVar[tuple[Evidence, ...]] = ("distances", "noise")
    implied_by: ClassVar[str | None] = "granularity"

    granularity: Annotated[
        float | None, Gt(0), "the factor: larger makes fewer groups; by default 1.45, less for few samples"
    ] = None

    def cut(self, merges: Floats, distances: Floats) -> Cut:
        """Cut the tree of distances in units of noise."""
        factor = granularity_for(self.samples) if self.granularity is None else self.granularity
        reason = f"Between two groups the distance is over {factor:.2f} times what chance makes of one distribution"
        made = Cut.at(merges, factor, reason)
        if made.labels.max() == 0 and len(merges):
            highest = heights(merges)[-1]
            reason = (
                f"No two parts are farther apart ({highest:.2f} times the noise) than chance explains ({factor:.2f})"
            )
        return made._replace(reason=reason + _coarser(merges, made.labels))


def granularity_for(samples: float) -> float:
    """Return the factor at which `auto` cuts by default, for clients with so many samples each.

    One and the same difference between two distributions stands out less from the noise of fewer samples.
    """
    return 1 + 0.45 * min(1.0, samples / 36)


def _coarser(merges: Floats, labels: Ints) -> str:
    """Say where fewer models may serve: the number of distributions is not the number of models that learn best."""
    groups, clients = int(labels.max()) + 1, len(labels)
    if groups <= math.sqrt(clients) or groups < 3:
        return ""
    at = heights(merges)
    most = max(2, math.isqrt(clients))
    wide = {k: at[len(at) + 1 - k] / at[len(at) - k] for k in range(2, most + 1) if at[len(at) - k] > 0}
    best = max(wide, key=lambda k: wide[k], default=1)
    return (
        f". So {groups} distributions can be told apart, but with {clients / groups:.1f} clients each fewer models may "
        f"learn better: the clearest coarser cut has {best} groups (granularity {threshold_for(merges, best):.2f})"
    )

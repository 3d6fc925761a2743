"""How pools of samples grow under curricula."""

from typing import get_args

from coterie.messages import Curriculum
from coterie.messages.plan import Pacing
from coterie.training import pool_size


def pacing_curves(a: float = 0.8, b: float = 0.2, steps: int = 200) -> dict[str, list[float]]:
    """Return for each pacing the share of samples in the pool at steps 0 … T−1 (dissertation, Figure 2.1)."""
    samples = 10**6
    return {
        pacing: [pool_size(Curriculum("G", pacing, a, b), t, steps, samples, 1) / samples for t in range(steps)]
        for pacing in get_args(Pacing)
    }

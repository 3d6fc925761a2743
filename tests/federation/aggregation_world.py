"""Models to put together, and an aggregator that keeps its events."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.federation.aggregation import AggregationOptions, Aggregator, Contribution
from coterie.messages import Params

RNG = np.random.default_rng(0)
START: Params = {
    "fc.weight": RNG.normal(size=(3, 4)).astype(np.float32),
    "bn.running_var": np.ones(3, np.float32),
    "bn.num_batches_tracked": np.array(4),
}


def moved(length: float, statistics: float = 0.1, seen: int = 9) -> dict[str, np.ndarray]:
    """A model that is so far from the start."""
    way = RNG.normal(size=(3, 4))
    return {
        "fc.weight": (START["fc.weight"] + length * way / np.linalg.norm(way)).astype(np.float32),
        "bn.running_var": START["bn.running_var"] + np.float32(statistics / np.sqrt(3)),
        "bn.num_batches_tracked": np.array(seen),
    }


class Noted(Aggregator):
    """Keeps the events."""

    def __init__(self, declared: Mapping[int, int] | None = None, **options: object) -> None:
        self.events: list[tuple[int, str, str]] = []
        self.round = 1
        super().__init__(
            AggregationOptions(**options),
            lambda: declared or {},
            lambda *event: self.events.append(event),
            lambda: self.round,
        )


def members(*models: Params, weights: list[float] | None = None) -> list[Contribution]:
    return [Contribution(c, model, START, 1.0 if weights is None else weights[c]) for c, model in enumerate(models)]

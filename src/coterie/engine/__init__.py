"""Where clients live."""

from coterie.engine.embedded import EmbeddedEngine
from coterie.engine.faults import SimulatedFaults

__all__ = [
    "EmbeddedEngine", "SimulatedFaults",
]  # fmt: skip

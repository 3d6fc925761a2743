"""Where clients live."""

from coterie.engine.embedded import EmbeddedEngine, Faults

__all__ = ["EmbeddedEngine", "Faults"]

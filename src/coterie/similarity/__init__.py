"""How alike are clients: pure functions on arrays."""

from coterie.similarity.signatures import signature

__all__ = ["signature"]

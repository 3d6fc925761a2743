"""Which network: enough to build it anywhere, and nothing of its parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelSpec:
    """A network by name, for inputs of one shape and a number of classes."""

    name: str
    shape: tuple[int, ...]
    """Of one input: (channels, height, width) for images, (features,) for vectors."""
    classes: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.shape, self.classes, repr(sorted(self.options.items()))))

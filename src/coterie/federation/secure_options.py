"""What is asked of secure sums."""

from dataclasses import dataclass

from coterie.messages import Weighing


@dataclass(frozen=True)
class SecureOptions:
    """What the user asked for, and how the method's clients count."""

    minimum: int = 5
    """The fewest clients in a sum."""
    clip: float = 100.0
    """The longest update; longer ones are cut by the client."""
    weighing: Weighing = "samples"
    hidden: bool = False
    """Whether clients that choose among models keep that to themselves: one sum, with a slot for each model."""

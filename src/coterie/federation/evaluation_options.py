"""On whom is measured how well models serve."""

from dataclasses import dataclass

FEW_CLIENTS, USUAL_SAMPLE = 2000, 1000
"""Up to so many clients all are evaluated; of more, unless told otherwise, so many."""


@dataclass(frozen=True)
class EvaluationOptions:
    """On whom is measured how well models serve."""

    clients: int | None = None
    """How many clients are evaluated; None: all where there are few, else a usual number."""
    test_samples: int | None = None
    """On how many of its test samples each is evaluated at most; None: all."""
    plus: float = 1.0
    """The share of the evaluated clients that protocol + is measured on."""

    def number(self, clients: int) -> int:
        """Return how many of so many clients are evaluated.

        >>> EvaluationOptions().number(2000), EvaluationOptions().number(2001), EvaluationOptions(50).number(20)
        (2000, 1000, 20)
        """
        usual = clients if clients <= FEW_CLIENTS else USUAL_SAMPLE
        return min(usual if self.clients is None else self.clients, clients)

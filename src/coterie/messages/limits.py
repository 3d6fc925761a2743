"""What is believed of an answer: limits that verbs share, and what is wrong with numbers and tensors beyond them."""

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from coterie.messages.params import LARGEST, Array, Params, unusable

LARGEST_LOSS = 1e100
"""Beyond this no loss is believed: sums and squares of losses must stay finite. An honest client's may be large if
the model that it was sent is hopeless."""
MOST_SAMPLES = 10**12
"""Beyond this no number of samples or steps is believed."""
ROUNDING = -1e-6
"""No mean loss is below 0, but for what rounding does to it."""


@dataclass(frozen=True)
class Limits:
    """What is known of a client before it answers, by which its answers are judged."""

    template: Params
    """The shapes and types of the network's parameters."""
    samples: int = MOST_SAMPLES
    """Training samples that it declared."""
    tests: int = MOST_SAMPLES
    """Test samples that it declared."""
    frozen: AbstractSet[str] = frozenset()
    """What the network freezes, which is not sent."""

    def held_out(self, share: float) -> int:
        """Return how many of the training samples are held out at most.

        >>> Limits({}, samples=25).held_out(0.1)
        2
        """
        return math.floor(share * self.samples + 1e-9)

    def on(self, part: Literal["train", "holdout", "test"], share: float) -> int:
        """Return how many samples of a part there are at most; `share` is that of the hold-out."""
        return {"train": self.samples, "test": self.tests}.get(part, self.held_out(share))


def error_in_counts(**counts: int) -> str | None:
    """Say which of some numbers of samples or steps can't be.

    >>> error_in_counts(samples=10, steps=-1)
    'steps = -1, expected 0 to 1e+12'
    """
    for name, count in counts.items():
        if not 0 <= count <= MOST_SAMPLES:
            return f"{name} = {count}, expected 0 to {MOST_SAMPLES:g}"
    return None


def error_in_declared(samples: int, most: int) -> str | None:
    """Say if an answer stands on more samples than its client can have.

    >>> error_in_declared(1000, 69)
    'samples = 1000, where the client has declared 69'
    """
    return f"samples = {samples}, where the client has declared {most}" if samples > most else None


def error_in_losses(*losses: float) -> str | None:
    """Say which of some losses is not believed.

    >>> error_in_losses(0.5, float("nan"))
    'loss = nan, expected 0 to 1e+100'
    """
    for loss in losses:
        if not ROUNDING <= loss <= LARGEST_LOSS:  # NaN too
            return f"loss = {loss:g}, expected 0 to {LARGEST_LOSS:g}"
    return None


def error_in_integers(name: str, values: Array, low: int, high: int) -> str | None:
    """Say what is wrong with an array of integers between two limits.

    >>> import numpy as np
    >>> error_in_integers("labels", np.array([0, 7]), 0, 4)
    'labels from 0 to 7, expected 0 to 4'
    """
    if values.dtype.kind not in "iu":
        return f"{name} of type {values.dtype}, expected integers"
    if values.size and not (low <= values.min() and values.max() <= high):
        return f"{name} from {values.min()} to {values.max()}, expected {low} to {high}"
    return None


def error_in_hex(name: str, text: str, length: int) -> str | None:
    """Say what is wrong with so many bytes in hexadecimal digits.

    >>> error_in_hex("a key", "0g", 1)
    'a key is not 1 bytes in hexadecimal digits'
    """
    sound = len(text) == 2 * length and all(digit in "0123456789abcdef" for digit in text)
    return None if sound else f"{name} is not {length} bytes in hexadecimal digits"


def error_in_tensors(params: Params, names: Iterable[str], template: Params) -> str | None:
    """Say what is wrong with tensors that should have these names, and the types and shapes of the template."""
    expected = set(names)
    if missing := sorted(expected - set(params)):
        return f"parameters missing: {', '.join(missing[:3])}"
    if unasked := sorted(set(params) - expected):
        return f"parameters not asked for: {', '.join(unasked[:3])}"
    for name, value in params.items():
        if value.shape != template[name].shape or value.dtype != template[name].dtype:
            return f"'{name}' is {value.dtype} {value.shape}, expected {template[name].dtype} {template[name].shape}"
        if unusable(value):
            return f"'{name}' holds a NaN, an infinity or a number beyond {LARGEST:g}"
        if name.endswith("running_var") and value.size and value.min() < 0:
            return f"'{name}' holds a variance below 0"
    return None


def bytes_of(params: Params) -> int:
    """Return how many bytes the arrays of a model have."""
    return sum(array.nbytes for array in params.values())

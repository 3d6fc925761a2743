"""InputMoments: mean and variance of a client's inputs, by which all clients standardise theirs."""

from dataclasses import dataclass

import numpy as np

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_declared
from coterie.messages.params import LARGEST, Array, unusable

ROUNDING = 1 + 1e-6
"""How far what was computed may be beyond what can be."""


@dataclass(frozen=True)
class InputMomentsReply(Answer):
    """The outcome of ``InputMoments``."""

    wire_name = "Measured"

    samples: int
    means: Array
    """Per channel or feature, (channels,)."""
    variances: Array
    """Around these means, (channels,)."""


@dataclass(frozen=True)
class InputMoments(Verb):
    """Measure mean and variance of all training inputs, per channel or feature, labels not told apart."""

    answer_type = InputMomentsReply

    channels: int
    """How many means there are: 1 for all numbers of an input, or one per channel or feature."""
    highest: float | None = None
    """Inputs lie between 0 and this, where that is known, as of bytes."""

    def error_in(self, answer: InputMomentsReply, request: Request, limits: Limits) -> str | None:
        """Check shapes and types, a number of samples that the client has, and moments that inputs can have."""
        for name in ("means", "variances"):
            found: Array = getattr(answer, name)
            if found.shape != (self.channels,) or found.dtype != np.float64:
                return f"{name} are {found.dtype} {found.shape}, expected float64 {(self.channels,)}"
            if unusable(found):
                return f"{name} hold a NaN, an infinity or a number beyond {LARGEST:g}"
        if answer.samples < 1:
            return f"samples = {answer.samples}, expected at least 1"
        if answer.variances.min() < 0:
            return f"variances from {answer.variances.min():g}, expected at least 0"
        return self._error_in_range(answer) or error_in_declared(answer.samples, limits.samples)

    def _error_in_range(self, answer: InputMomentsReply) -> str | None:
        """Say if inputs between 0 and the highest can't have these moments."""
        if self.highest is None:
            return None
        means, room = answer.means, self.highest * (ROUNDING - 1)
        if means.min() < -room or means.max() > self.highest + room:
            return f"means from {means.min():g} to {means.max():g}, expected 0 to {self.highest:g}"
        most = np.clip(means, 0, self.highest) * (self.highest - np.clip(means, 0, self.highest))
        beyond = answer.variances > most + room * self.highest
        if beyond.any():
            return (
                f"a variance of {answer.variances[beyond][0]:g}, expected at most {most[beyond][0]:g} around its mean"
            )
        return None

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than two numbers per channel and the count need."""
        return 2 * 8 * self.channels + 64

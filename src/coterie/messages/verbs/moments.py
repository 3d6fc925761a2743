"""Moments: what each label's samples look like, by mean and variance in a few numbers."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from coterie.messages.envelope import LABELS_LEFT_OUT, Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_declared, error_in_integers
from coterie.messages.params import LARGEST, SENT_IF_SET, Array, ModelSpec, unusable

FEWEST = 4
"""Samples of a label that are described at least."""
OF_AN_IMAGE = 16
"""Numbers that describe an image."""


@dataclass(frozen=True)
class MomentsReply(Answer):
    """The outcome of ``Moments``; labels that are left out, or that the client lacks, have 0 everywhere."""

    wire_name = "Described"

    means: Array
    """Of each label's samples, (classes, numbers)."""
    variances: Array
    """Of each label's samples, summed over the numbers and divided by their count less 1, (classes,)."""
    counts: Array
    """Samples of each label, (classes,)."""
    left_out: Literal[True] | None = field(default=None, metadata=SENT_IF_SET)
    """Whether labels with few samples were left out."""

    def notices(self) -> tuple[str, ...]:
        """Say that labels were left out, not which."""
        return (LABELS_LEFT_OUT,) if self.left_out else ()


@dataclass(frozen=True)
class Moments(Verb):
    """Describe each label by the mean and the total variance of its training samples, in a few common numbers."""

    answer_type = MomentsReply

    dimensions: int = 64
    """To how many numbers an input is projected, if it has more."""

    def numbers(self, spec: ModelSpec) -> int:
        """Return how many numbers describe an input: an image's outlines, or what is in it, or its projection.

        >>> [Moments().numbers(ModelSpec("mlp", shape, 10)) for shape in ((3, 32, 32), (20,), (80, 90))]
        [16, 20, 64]
        """
        return min(OF_AN_IMAGE if len(spec.shape) == 3 else math.prod(spec.shape), self.dimensions)

    def error_in(self, answer: MomentsReply, request: Request, limits: Limits) -> str | None:
        """Check shapes and types, counts that the client can have, and variances that are not below 0."""
        classes, numbers = request.spec.classes, self.numbers(request.spec)
        shapes = {"means": (classes, numbers), "variances": (classes,), "counts": (classes,)}
        for name, shape in shapes.items():
            if (found := getattr(answer, name)).shape != shape:
                return f"{name} of shape {found.shape}, expected {shape}"
        for name in ("means", "variances"):
            if (found := getattr(answer, name)).dtype != np.float32:
                return f"{name} of type {found.dtype}, expected float32"
            if unusable(found):
                return f"{name} hold a NaN, an infinity or a number beyond {LARGEST:g}"
        if answer.variances.min(initial=0) < 0:
            return f"variances from {answer.variances.min():g}, expected at least 0"
        if error := error_in_integers("counts", answer.counts, 0, limits.samples):
            return error
        told = answer.counts > 0
        if told.any() and (least := int(answer.counts[told].min())) < FEWEST:
            return f"{least} samples of a label, expected at least {FEWEST}, or 0"
        if answer.means[~told].any() or answer.variances[~told].any():
            return "moments of a label with 0 samples, expected 0"
        return error_in_declared(int(answer.counts.sum(dtype="int64")), limits.samples)

    def of_labels(self) -> bool:
        """Say that it is by label."""
        return True

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than the numbers of each label, its variance and its count need."""
        return request.spec.classes * (4 * self.numbers(request.spec) + 64)

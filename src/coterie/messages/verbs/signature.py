"""Signature: the training data described by a few vectors."""

import math
import sys
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from coterie.messages.envelope import LABELS_LEFT_OUT, Answer, Request, Verb
from coterie.messages.guarantee import Guarantee
from coterie.messages.limits import MOST_SAMPLES, Limits, error_in_integers
from coterie.messages.params import SENT_IF_SET, Array, ModelSpec

LONGEST = 1.001
"""Of a vector: the length of a unit vector, with room for rounding."""
ANGLES = ("theta1", "sum_angles", "min_abs", "min_entry", "trace")
"""Measures in degrees, whose largest value is known."""


@dataclass(frozen=True)
class SignatureReply(Answer):
    """The outcome of ``Signature``."""

    wire_name = "Signed"

    vectors: Array
    """(features, vectors); of a sketch (its directions, vectors)."""
    labels: Array
    """To which label each vector belongs, (vectors,); -1 where they are of all samples."""
    halves: float | None = None
    """Mean distance of halves in the unit of the measure; None if not asked for, or where there are too few samples."""
    left_out: Literal[True] | None = field(default=None, metadata=SENT_IF_SET)
    """Whether labels with few samples were left out."""

    def notices(self) -> tuple[str, ...]:
        """Say that labels were left out, not which."""
        return (LABELS_LEFT_OUT,) if self.left_out else ()


@dataclass(frozen=True)
class Signature(Verb):
    """Describe the training data by the first left singular vectors of the raw samples, whole or per label."""

    answer_type = SignatureReply
    parts = (Guarantee,)
    caution = (
        "signature vectors can look like the samples: of images, the first one shows their mean, and the fewer samples "
        "there are, the more of single ones"
    )

    p: int = 3
    """How many vectors, of all samples or of each label's."""
    per_label: bool = False
    share: float | None = None
    """If given, per label this share of its samples, rounded, at least 1, instead of `p`."""
    budget: int | None = None
    """If given, this many vectors in all, divided among labels in proportion to their samples, instead of `p`."""
    halves: int = 0
    """How many times to cut the samples in two and measure how far apart the halves' signatures are."""
    measure: str = "theta1"
    """In which that distance is taken."""
    normalised: bool = False
    """Of the samples as networks see them, instead of the raw ones."""
    sketch: int | None = field(default=None, metadata=SENT_IF_SET)
    """If given, send vectors in so many random directions, which all clients draw from the seed; not per label."""

    private: Guarantee | None = field(default=None, metadata=SENT_IF_SET)
    """If given, vectors are those of noised second moments, of samples brought to `features`; per label of every label,
    also without samples. They are of raw samples, `p` for each label, and the samples are halved once."""
    features: tuple[int, ...] | None = field(default=None, metadata=SENT_IF_SET)
    """To which shape samples are brought first where vectors are private (`coterie.privacy.mapped_shape`)."""

    def is_noised(self) -> bool:
        """Say whether vectors are noised."""
        return self.private is not None

    def rows(self, spec: ModelSpec) -> int:
        """Return how many numbers a vector has."""
        return self.sketch or math.prod(self.features or spec.shape)

    def most_vectors(self, spec: ModelSpec, samples: int = MOST_SAMPLES) -> int:
        """Return how many vectors there can be at most, of so many samples.

        >>> by_label, images = Signature(per_label=True, share=0.01), ModelSpec("lenet5", (3, 32, 32), 10)
        >>> by_label.most_vectors(images, 500), [Signature(p=3).most_vectors(images, n) for n in (500, 2)]
        (15, [3, 2])
        """
        if self.is_noised():
            return self.p * (spec.classes if self.per_label else 1)
        labels, features = min(spec.classes, samples) if self.per_label else 1, self.rows(spec)
        asked = self.p * labels
        if self.budget:
            asked = max(self.budget, labels)
        elif self.share:
            asked = math.floor(self.share * samples) + labels
        return min(asked, labels * features, samples)

    def error_in(self, answer: SignatureReply, request: Request, limits: Limits) -> str | None:
        """Check shapes and types, the vectors' lengths, the range of labels and the distance of halves."""
        vectors, labels = answer.vectors, answer.labels
        features, most = self.rows(request.spec), self.most_vectors(request.spec, limits.samples)
        if vectors.ndim != 2 or vectors.shape[0] != features or vectors.shape[1] > most:
            return f"vectors of shape {vectors.shape}, expected ({features}, up to {most})"
        if vectors.dtype.kind != "f":
            return f"vectors of type {vectors.dtype}, expected floating-point numbers"
        lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=0))
        if not (lengths < LONGEST).all():  # NaN too
            return f"a vector of length {lengths.max():g}, expected at most 1"
        if labels.shape != vectors.shape[1:]:
            return f"labels of shape {labels.shape}, expected {vectors.shape[1:]}, one per vector"
        if error := error_in_integers(
            "labels", labels, *((0, request.spec.classes - 1) if self.per_label else (-1, -1))
        ):
            return error
        if (
            self.per_label
            and labels.size
            and (each := np.bincount(labels).max()) > (own := self._most_of_a_label(features, limits.samples))
        ):
            return f"{each} vectors of one label, expected at most {own}"
        limit = 180 * most if self.measure in ANGLES else sys.float_info.max
        if answer.halves is not None and not 0 <= answer.halves <= limit:
            return f"halves {answer.halves:g} apart by {self.measure}, expected 0 to {limit:g}"
        return None

    def _most_of_a_label(self, features: int, samples: int) -> int:
        if self.is_noised():
            return self.p
        asked = self.budget or (max(1, math.floor(self.share * samples + 0.5)) if self.share else self.p)
        return min(asked, features, samples)

    def of_labels(self) -> bool:
        """Say whether vectors are of single labels."""
        return self.per_label

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the bytes of the vectors, were they float64, and of their labels."""
        return self.most_vectors(request.spec, limits.samples) * (8 * self.rows(request.spec) + 8)

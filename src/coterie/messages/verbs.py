"""What a client may be asked, a closed list, and what it answers.

A verb names models; a name is one of the request's own models, or one of these:

    own       what the client kept after its last training (``initial`` if it never trained)
    initial   the common start, which every client can make from the model's specification and the seed
    trained   the result of the ``Train`` before it in the same request
    best      the winner of the ``Losses`` before it in the same request
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from coterie.messages.params import Array, Params
from coterie.messages.plan import Plan

Part = Literal["train", "holdout", "test"]


@dataclass(frozen=True)
class Train:
    """Train locally by a plan."""

    plan: Plan
    start: tuple[str, ...] = ("model",)
    """Models laid over each other, the last on top: ``("own", "model")`` is one's own model with the sent layers."""
    keep: bool = True
    """Whether the result becomes the client's own model."""
    send: bool | tuple[str, ...] = True
    """Send back all parameters, none, or those whose names begin so."""
    purpose: str = "train"
    """Part of the address of the random stream that shuffles the samples."""


@dataclass(frozen=True)
class Evaluate:
    """Count the right answers of a model on the client's test part (or another)."""

    model: str | tuple[str, ...] = "model"
    """Or several, laid over each other as in ``Train.start``."""
    on: Part = "test"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""


@dataclass(frozen=True)
class Losses:
    """Give the mean loss of each of several models, and how many samples each wins; never per sample."""

    models: tuple[str, ...]
    on: Part = "train"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""
    by: Literal["loss", "accuracy"] = "loss"
    """What makes a model the best."""

    def winner(self, answer: Compared) -> int:
        """Return the position of the best model; of equals, the first."""
        scores = answer.losses if self.by == "loss" else [-number for number in answer.correct]
        return min(range(len(scores)), key=lambda k: scores[k])


@dataclass(frozen=True)
class Signature:
    """Describe the training data by the first left singular vectors of the raw samples, whole or per label."""

    p: int = 3
    """How many vectors, of all samples or of each label's."""
    per_label: bool = False
    share: float | None = None
    """If given, per label this share of its samples, rounded, at least 1, instead of `p`."""
    budget: int | None = None
    """If given, so many vectors in all, divided among labels in proportion to their samples, instead of `p`."""
    halves: int = 0
    """Cut the samples in two so many times, and tell how far apart the halves' signatures are."""
    measure: str = "theta1"
    """In which that distance is taken."""


@dataclass(frozen=True)
class ClassCounts:
    """Count the training samples of each class."""


@dataclass(frozen=True)
class Trained:
    """The outcome of ``Train``."""

    samples: int
    steps: int
    loss: float
    """Mean over the training steps."""
    params: Params = field(default_factory=dict)
    control: Params = field(default_factory=dict)
    """Change of the client's control, where the plan has a correction."""


@dataclass(frozen=True)
class Evaluated:
    """The outcome of ``Evaluate``; accuracy is correct / samples."""

    samples: int
    correct: int
    loss: float
    """Mean; 0 where there are no samples."""


@dataclass(frozen=True)
class Compared:
    """The outcome of ``Losses``, one number per model in the order asked."""

    samples: int
    losses: tuple[float, ...]
    wins: tuple[int, ...]
    """Samples on which each model has the smallest loss."""
    correct: tuple[int, ...]
    """Samples that each model labels right."""


@dataclass(frozen=True)
class Signed:
    """The outcome of ``Signature``."""

    vectors: Array
    """(features, vectors)."""
    labels: Array
    """To which label each vector belongs, (vectors,); -1 where they are of all samples."""
    halves: float | None = None
    """Mean distance of halves in degrees; None where it was not asked for or there are too few samples."""


@dataclass(frozen=True)
class Counted:
    """The outcome of ``ClassCounts``: (classes,)."""

    counts: Array


Verb: TypeAlias = Train | Evaluate | Losses | Signature | ClassCounts
Answer: TypeAlias = Trained | Evaluated | Compared | Signed | Counted
ANSWERS: dict[type[Verb], type[Answer]] = {
    Train: Trained,
    Evaluate: Evaluated,
    Losses: Compared,
    Signature: Signed,
    ClassCounts: Counted,
}

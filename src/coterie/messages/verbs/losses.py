"""Losses: several models compared on the client's samples."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from coterie.messages.envelope import Answer, Part, Request, Verb, kinds_of_models
from coterie.messages.limits import Limits, error_in_counts, error_in_declared, error_in_losses
from coterie.messages.params import SENT_IF_SET


@dataclass(frozen=True)
class LossesReply(Answer):
    """The outcome of ``Losses``, one number per model in the order asked."""

    wire_name = "Compared"

    samples: int
    losses: tuple[float, ...]
    wins: tuple[int, ...]
    """Samples on which each model has the smallest loss."""
    correct: tuple[int, ...]
    """Samples that each model labels right."""


NOTHING_TOLD = LossesReply(0, (), (), ())


@dataclass(frozen=True)
class Losses(Verb):
    """Give the mean loss of each of several models, and how many samples each wins; never per sample."""

    answer_type = LossesReply
    makes: ClassVar[dict[str, str]] = {"best": "put a Losses before it into the same request"}

    models: tuple[str, ...]
    on: Part = "train"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""
    by: Literal["loss", "accuracy"] = "loss"
    """What makes a model the best."""
    hidden: Literal[True] | None = field(default=None, metadata=SENT_IF_SET)
    """Whether the client keeps the outcome to itself: then it answers nothing, and only has the best."""

    def winner(self, answer: LossesReply) -> int:
        """Return the position of the best model; of equals, the first."""
        scores = answer.losses if self.by == "loss" else [-number for number in answer.correct]
        return min(range(len(scores)), key=lambda k: scores[k])

    def error_in(self, answer: LossesReply, request: Request, limits: Limits) -> str | None:
        """Check that there are as many numbers as models, and that they fit the number of samples."""
        if self.hidden:
            return None if answer == NOTHING_TOLD else "losses of models, where the client was to keep them to itself"
        lengths = {"losses": len(answer.losses), "wins": len(answer.wins), "correct": len(answer.correct)}
        for name, length in lengths.items():
            if length != len(self.models):
                return f"{length} {name} for {len(self.models)} models"
        if error := error_in_losses(*answer.losses) or error_in_counts(samples=answer.samples):
            return error
        for wins, correct in zip(answer.wins, answer.correct, strict=True):
            if error := error_in_counts(wins=wins, correct=correct):
                return error
            if correct > answer.samples:
                return f"correct = {correct}, expected at most {answer.samples}, the number of samples"
        if sum(answer.wins) != answer.samples:
            return f"wins add up to {sum(answer.wins)}, expected {answer.samples}, the number of samples"
        return error_in_declared(answer.samples, limits.on(self.on, self.share))

    def of_labels(self) -> bool:
        """Say whether right answers make a model the best."""
        return self.by == "accuracy"

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than three numbers per model need."""
        return 256 * len(self.models)

    def restricted(self) -> dict[str, Any]:
        """Return which samples are used, and for which models; the share only where it matters."""
        share = self.share if self.on == "holdout" else None
        how = {"on": self.on, "by": self.by, "share": share, **({"hidden": True} if self.hidden else {})}
        return {"models": kinds_of_models(self.models_needed()), **how}

    def models_needed(self) -> tuple[str, ...]:
        """Name the models that are compared."""
        if isinstance(self.models, str):
            raise TypeError(f"Losses.models is a tuple of names: write ({self.models!r},)")
        return self.models

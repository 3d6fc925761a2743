"""Evaluate: how many samples a model labels right."""

from dataclasses import dataclass
from typing import Any

from coterie.messages.envelope import Answer, Part, Request, Verb, kinds_of_models
from coterie.messages.limits import Limits, error_in_counts, error_in_declared, error_in_losses


@dataclass(frozen=True)
class EvaluateReply(Answer):
    """The outcome of ``Evaluate``; accuracy is correct / samples."""

    wire_name = "Evaluated"

    samples: int
    correct: int
    loss: float
    """Mean; 0 where there are no samples."""


@dataclass(frozen=True)
class Evaluate(Verb):
    """Count the right answers of a model on the client's test part (or another)."""

    answer_type = EvaluateReply

    model: str | tuple[str, ...] = "model"
    """Or several, laid over each other as in ``Train.start``."""
    on: Part = "test"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""

    def error_in(self, answer: EvaluateReply, request: Request, limits: Limits) -> str | None:
        """Check the counts and the loss."""
        if error := error_in_counts(samples=answer.samples, correct=answer.correct) or error_in_losses(answer.loss):
            return error
        if answer.correct > answer.samples:
            return f"correct = {answer.correct}, expected at most {answer.samples}, the number of samples"
        return error_in_declared(answer.samples, limits.on(self.on, self.share))

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than three numbers need."""
        return 64 * request.spec.classes

    def restricted(self) -> dict[str, Any]:
        """Return which samples are used, and for which models; the share only where it matters."""
        share = self.share if self.on == "holdout" else None
        return {"of": kinds_of_models(self.models_needed()), "on": self.on, "share": share}

    def models_needed(self) -> tuple[str, ...]:
        """Name the models that are laid over each other."""
        return (self.model,) if isinstance(self.model, str) else self.model

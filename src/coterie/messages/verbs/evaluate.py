"""Evaluate: how many samples a model labels right."""

from dataclasses import dataclass, field
from typing import Any, Literal

from coterie.messages.envelope import Answer, Part, Request, Verb, kinds_of_models
from coterie.messages.limits import Limits, error_in_counts, error_in_declared, error_in_losses
from coterie.messages.numbers import LARGEST_ERROR, is_error
from coterie.messages.params import SENT_IF_SET
from coterie.messages.plan import LabelOffset


@dataclass(frozen=True)
class EvaluateReply(Answer):
    """The outcome of ``Evaluate``; accuracy is correct / samples."""

    wire_name = "Evaluated"

    samples: int
    correct: int
    loss: float
    """Mean; 0 where there are no samples."""
    own: float | None = field(default=None, metadata=SENT_IF_SET)
    """If asked for: the accuracy where each label counts as often as among the client's training samples."""
    lacking: float | None = field(default=None, metadata=SENT_IF_SET)
    """If asked for, in simulations: the accuracy on test samples of others, of labels that the client lacks."""
    score: float | None = field(default=None, metadata=SENT_IF_SET)
    """What the metric that was asked for says, 0 to 1, or of numbers an error in their unit; None where these samples
    do not tell it."""


@dataclass(frozen=True)
class Evaluate(Verb):
    """Count the right answers of a model on the client's test part (or another)."""

    answer_type = EvaluateReply

    model: str | tuple[str, ...] = "model"
    """Or several, laid over each other as in ``Train.start``."""
    on: Part = "test"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""
    label_offset: LabelOffset | None = field(default=None, metadata=SENT_IF_SET)
    """Made by the client of the labels of its training samples, and added to the logits."""
    by_label: Literal[True] | None = field(default=None, metadata=SENT_IF_SET)
    """Whether accuracies by the client's labels are wanted too: `own` and `lacking` of the answer."""
    metric: str | None = field(default=None, metadata=SENT_IF_SET)
    """A metric other than accuracy, by name (`coterie.training.metrics`): `score` of the answer."""
    most: int | None = field(default=None, metadata=SENT_IF_SET)
    """On how many test samples at most, of which the client always draws the same; None: on all."""
    own_share: float | None = field(default=None, metadata=SENT_IF_SET)
    """What share the client's own model, once it has trained one, has in a mean with this one; None: it has none."""

    def error_in(self, answer: EvaluateReply, request: Request, limits: Limits) -> str | None:
        """Check the counts and the loss."""
        if error := error_in_counts(samples=answer.samples, correct=answer.correct) or error_in_losses(answer.loss):
            return error
        if answer.correct > answer.samples:
            return f"correct = {answer.correct}, expected at most {answer.samples}, the number of samples"
        for name, share in (("own", answer.own), ("lacking", answer.lacking)):
            if share is not None and not (self.by_label and 0 <= share <= 1):
                return f"{name} = {share:g}, expected {'0 to 1' if self.by_label else 'none, which was not asked for'}"
        most = LARGEST_ERROR if is_error(self.metric) else 1
        if answer.score is not None and not (self.metric and 0 <= answer.score <= most):
            expected = f"0 to {most:g}" if self.metric else "none, which was not asked for"
            return f"score = {answer.score:g}, expected {expected}"
        if self.on == "test" and self.most is not None and answer.samples > self.most:
            return f"samples = {answer.samples}, expected at most {self.most}, as was asked"
        return error_in_declared(answer.samples, limits.on(self.on, self.share))

    def of_labels(self) -> bool:
        """Say whether labels are weighed."""
        return self.by_label is not None or self.label_offset is not None

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than five numbers need."""
        return 64 * request.spec.classes

    def restricted(self) -> dict[str, Any]:
        """Return which samples are used and how, and for which models; the share only where it matters."""
        share = self.share if self.on == "holdout" else None
        how: dict[str, Any] = {
            "on": self.on,
            "share": share,
            "label_offset": self.label_offset,
            "by_label": self.by_label,
        }
        if self.metric is not None:  # which the policies that sites hold since before do not name
            how["metric"] = self.metric
        if self.most is not None:
            how["most"] = self.most
        if self.own_share is not None:
            how["mixes_own"] = True
        return {"of": kinds_of_models(self.models_needed()), **how}

    def models_needed(self) -> tuple[str, ...]:
        """Name the models that are laid over each other."""
        return (self.model,) if isinstance(self.model, str) else self.model

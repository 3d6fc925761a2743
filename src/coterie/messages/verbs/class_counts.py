"""ClassCounts: the training samples of each class."""

from dataclasses import dataclass, field
from typing import Literal

from coterie.messages.envelope import LABELS_LEFT_OUT, Answer, Request, Verb
from coterie.messages.limits import MOST_SAMPLES, error_in_integers
from coterie.messages.params import SENT_IF_SET, Array, Params


@dataclass(frozen=True)
class ClassCountsReply(Answer):
    """The outcome of ``ClassCounts``: (classes,)."""

    wire_name = "Counted"

    counts: Array
    left_out: Literal[True] | None = field(default=None, metadata=SENT_IF_SET)
    """Whether classes with few samples count as 0."""

    def notices(self) -> tuple[str, ...]:
        """Say that classes were left out, not which."""
        return (LABELS_LEFT_OUT,) if self.left_out else ()


@dataclass(frozen=True)
class ClassCounts(Verb):
    """Count the training samples of each class."""

    answer_type = ClassCountsReply

    def error_in(self, answer: ClassCountsReply, request: Request, template: Params) -> str | None:
        """Check that there is a possible count for each class."""
        classes = request.spec.classes
        if answer.counts.shape != (classes,):
            return f"counts of shape {answer.counts.shape}, expected ({classes},), one per class"
        return error_in_integers("counts", answer.counts, 0, MOST_SAMPLES)

    def largest_answer(self, request: Request, template: Params) -> int:
        """Return more than a number per class needs."""
        return 64 * request.spec.classes

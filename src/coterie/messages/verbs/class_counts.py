"""ClassCounts: the training samples of each class."""

from dataclasses import dataclass

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import MOST_SAMPLES, error_in_integers
from coterie.messages.params import Array, Params


@dataclass(frozen=True)
class ClassCountsReply(Answer):
    """The outcome of ``ClassCounts``: (classes,)."""

    wire_name = "Counted"

    counts: Array


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

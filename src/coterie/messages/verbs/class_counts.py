"""ClassCounts: the training samples of each class."""

from dataclasses import dataclass, field
from typing import Literal

from coterie.messages.envelope import LABELS_LEFT_OUT, Answer, Request, Verb
from coterie.messages.guarantee import Guarantee
from coterie.messages.limits import MOST_SAMPLES, Limits, error_in_declared, error_in_integers
from coterie.messages.params import SENT_IF_SET, Array


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
    parts = (Guarantee,)

    private: Guarantee | None = field(default=None, metadata=SENT_IF_SET)
    """If given, counts are noised, those of classes without samples too; below 0 they are 0."""

    def error_in(self, answer: ClassCountsReply, request: Request, limits: Limits) -> str | None:
        """Check that there is a possible count for each class, and all together are not too many."""
        classes = request.spec.classes
        if answer.counts.shape != (classes,):
            return f"counts of shape {answer.counts.shape}, expected ({classes},), one per class"
        most = MOST_SAMPLES if self.is_noised() else limits.samples
        if (error := error_in_integers("counts", answer.counts, 0, most)) or self.is_noised():
            return error
        return error_in_declared(int(answer.counts.sum(dtype="int64")), limits.samples)

    def is_noised(self) -> bool:
        """Say whether counts are noised."""
        return self.private is not None

    def of_labels(self) -> bool:
        """Say that it is by label."""
        return True

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return more than a number per class needs."""
        return 64 * request.spec.classes

"""MaskedTrain: step 2 of a secure sum (MaskedInputCollection): a training of which the server gets no number."""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from coterie.messages.envelope import Answer, Request
from coterie.messages.limits import Limits
from coterie.messages.masking import Masking, SumLayout
from coterie.messages.params import Array, Params
from coterie.messages.verbs.train import Train


@dataclass(frozen=True)
class MaskedReply(Answer):
    """What a client adds to the sum, masked; nothing if the training sends nothing."""

    wire_name = "Masked"

    wide: Array
    """Modulo 2⁶⁴."""
    narrow: Array
    """Modulo 2³²."""


@dataclass(frozen=True)
class MaskedTrain(Train):
    """Train as by `Train`, and send the update with all that goes with it masked; `Keys` and `Shares` come before."""

    answer_type = MaskedReply
    parts: ClassVar[tuple[type, ...]] = (*Train.parts, Masking)

    masking: Masking = field(kw_only=True)

    @classmethod
    def of(cls, verb: Train, masking: Masking) -> "MaskedTrain":
        """Return the same training, with its answer masked."""
        return cls(**{field.name: getattr(verb, field.name) for field in fields(Train)}, masking=masking)

    def layout(self, request: Request, template: Params, frozen: Params | frozenset[str]) -> SumLayout:
        """Return the order of the numbers in the sum; where choices are hidden, counters of steps are in none."""
        names, slots = [name for name in self.sent(template) if name not in frozen], self.masking.slots
        control = [] if self.plan.correction is None else [*request.models[self.plan.correction]]
        if slots is None:
            return SumLayout.of(template, names, control)
        return SumLayout.of(template, [name for name in names if template[name].dtype.kind == "f"], control, len(slots))

    def reference(self, request: Request, template: Params, chosen: str | None = None) -> dict[str, Array]:
        """Return what updates are counted from: what was sent to start from or to be held near, over the start.

        `chosen` is the best of several models.
        """
        start = [chosen if name == "best" and chosen is not None else name for name in self.start]
        sent = [request.models[name] for name in ("model", *start) if name in request.models]
        return {name: value for model in (template, *sent) for name, value in model.items()}

    def error_in(self, answer: Any, request: Request, limits: Limits) -> str | None:
        """Check how many numbers there are; nothing else can be seen."""
        expected = self.layout(request, limits.template, frozenset(limits.frozen)).sizes if self.send else (0, 0)
        for words, dtype, count in zip((answer.wide, answer.narrow), (np.uint64, np.uint32), expected, strict=True):
            if words.dtype != dtype or words.shape != (count,):
                return f"masked numbers {words.dtype} {words.shape}, expected {np.dtype(dtype)} ({count},)"
        return None

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the bytes of all numbers."""
        wide, narrow = self.layout(request, limits.template, frozenset()).sizes
        return 8 * wide + 4 * narrow

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name itself, or `Train`, by which the server learns more."""
        return ("maskedtrain", "train")

    def restricted(self) -> dict[str, Any]:
        """Return what fixes a training, the smallest number in a sum, how clients count, and the longest update."""
        masking = {
            "secure_min": self.masking.minimum,
            "secure_clip": self.masking.clip,
            "weighing": self.masking.weighing,
        }
        hidden = {} if self.masking.slots is None else {"hidden": True}
        return {**super().restricted(), **masking, **hidden}

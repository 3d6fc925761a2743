"""Request and Reply: all that ever passes between server and client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from coterie.messages.params import Params
from coterie.messages.spec import ModelSpec
from coterie.messages.verbs import ANSWERS, Answer, Verb

ClientId: TypeAlias = int
A = TypeVar("A")


EVALUATION = "evaluate"
"""The kind of requests that only measure: they see a client's latest state, and no fault or cost falls on them."""


@dataclass(frozen=True)
class Request:
    """One or several verbs for one client, with the models they name.

    The round stamps the request: asked again after a crash, the client starts from the state it had before
    that round, so a repeated request does no harm.
    """

    round: int
    seed: int
    spec: ModelSpec
    verbs: tuple[Verb, ...]
    models: Mapping[str, Params] = field(default_factory=dict)
    kind: str = "train"
    """The heading under which its bytes are counted; ``evaluate`` is for what only measures."""


@dataclass(frozen=True)
class Reply:
    """A client's answers, one per verb and in the same order."""

    client: ClientId
    round: int
    answers: tuple[Answer, ...]

    def answer(self, kind: type[A], which: int = 0) -> A:
        """Return the answer of a kind (the first, or the one counted by `which`)."""
        found = [answer for answer in self.answers if isinstance(answer, kind)]
        if -len(found) <= which < len(found):
            return found[which]
        name = getattr(kind, "__name__", kind)
        if kind in ANSWERS:
            raise IndexError(f"{name} is what is asked; its answer is {ANSWERS[kind].__name__}")  # type: ignore[index]
        what = f"{len(found)} of {name}, so that there is no [{which}]" if found else f"no {name}"
        raise IndexError(f"this reply has {what}; it has {', '.join(type(a).__name__ for a in self.answers)}")


@dataclass(frozen=True)
class Failure:
    """Why there is no valid reply of a client: an event, not an exception."""

    client: ClientId
    round: int
    kind: str
    """``dropped`` or ``late``, ``invalid``, or a client's own word: ``diverged``, ``refused``, ``failed``."""
    detail: str = ""

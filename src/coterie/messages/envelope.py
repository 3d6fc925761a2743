"""Request and Reply, all that ever passes between server and client; and what a verb and an answer are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from coterie.messages.limits import Limits
from coterie.messages.params import SENT_IF_SET, ModelSpec, Params
from coterie.messages.standardisation import Standardisation

ClientId: TypeAlias = int
Part = Literal["train", "holdout", "test"]
"""Which of a client's samples."""
A = TypeVar("A")
T = TypeVar("T")


EVALUATION = "evaluate"
LABEL_EVALUATION = "evaluate by label"
MEASUREMENTS = frozenset({EVALUATION, LABEL_EVALUATION})
"""Kinds of requests that only measure: they see a client's latest state, without simulated faults and at no cost."""

LABELS_LEFT_OUT = "labels with few samples were left out"


@dataclass(frozen=True)
class Answer:
    """What a client answers to one verb: a frozen dataclass of plain data and arrays."""

    wire_name: ClassVar[str]
    """Its name on the wire, which stays when the class is renamed."""

    def notices(self) -> tuple[str, ...]:
        """Return what the server's events should say of it, beside its content."""
        return ()


@dataclass(frozen=True)
class Verb(ABC):
    """One thing that a client can be asked: a frozen dataclass of plain data; arrays travel beside it, by name."""

    answer_type: ClassVar[type[Answer]]
    parts: ClassVar[tuple[type, ...]] = ()
    """The dataclasses that its fields hold: they travel too."""
    makes: ClassVar[Mapping[str, str]] = {}
    """Models that it makes for later verbs, by the first word of their names ({}: the rest), and how to get them."""
    caution: ClassVar[str | None] = None
    """What a site should know of the answer before it joins, beside its shapes."""

    @abstractmethod
    def error_in(self, answer: Any, request: Request, limits: Limits) -> str | None:
        """Say what is wrong with an answer of the right type, given what is known of the client."""

    @abstractmethod
    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return how many bytes the content of an honest answer of this client has at most."""

    def keeps_state(self) -> bool:
        """Say whether it changes what the client keeps: then its scores are stale, and it is asked once a round."""
        return False

    def trains(self) -> bool:
        """Say whether it is a round's training, which too few replies undo and of which a surplus may be asked."""
        return False

    def is_noised(self) -> bool:
        """Say whether its answer is differentially private: noised by the client, and charged."""
        return False

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name what a client with a privacy limit must have named as unprotected, one of them, to answer without noise.

        None at all, if the answer depends on no sample.
        """
        return (cls.__name__.lower(),)

    def restricted(self) -> dict[str, Any]:
        """Return what a site's policy fixes, by name: all but what says nothing of samples; models by kind of name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def models_needed(self) -> tuple[str, ...]:
        """Name the models that it uses: sent with the request, the client's own, or made by a verb before it."""
        return ()

    def models_to_send(self) -> tuple[str, ...]:
        """Name the models that it takes from the request and nowhere else."""
        return ()

    def of_labels(self) -> bool:
        """Say whether it tells labels apart, of which there are none where numbers are predicted."""
        return False

    def needs_expert(self) -> bool:
        """Say whether the model ``expert`` goes with it, where the server has one."""
        return False

    def models_after(self, made: AbstractSet[str]) -> AbstractSet[str]:
        """Return the names of models that later verbs can use, given those that earlier verbs made."""
        return made | self.makes.keys()


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
    """The heading under which its bytes are counted; some are for what only measures."""
    standardisation: Standardisation | None = field(default=None, metadata=SENT_IF_SET)
    """What all clients do with their inputs, where that was agreed on among them."""

    @property
    def measures(self) -> bool:
        """Whether it only measures."""
        return self.kind in MEASUREMENTS


@dataclass(frozen=True)
class Reply:
    """A client's answers, one per verb and in the same order."""

    client: ClientId
    round: int
    answers: tuple[Answer, ...]

    def answer(self, kind: type[A], which: int = 0) -> A:
        """Return the answer of a type; where there are several, the one at position `which` among them."""
        matching = [answer for answer in self.answers if isinstance(answer, kind)]
        if -len(matching) <= which < len(matching):
            return matching[which]
        name = getattr(kind, "__name__", kind)
        if isinstance(kind, type) and issubclass(kind, Verb):
            raise IndexError(f"{name} is what is asked; its answer is {kind.answer_type.__name__}")
        what = f"{len(matching)} of {name}, so there is no [{which}]" if matching else f"no {name}"
        raise IndexError(f"this reply has {what}; it has {', '.join(type(a).__name__ for a in self.answers)}")


@dataclass(frozen=True)
class Failure:
    """Why a client sent no valid reply: an event, not an exception."""

    client: ClientId
    round: int
    kind: str
    """``dropped`` or ``late``, ``invalid``, or a client's own word: ``diverged``, ``refused``, ``withheld`` or
    ``failed``."""
    detail: str = ""


def kinds_of_models(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of models without their numbers, which count what a method has.

    >>> kinds_of_models(["own", "model12"])
    ('own', 'model')
    """
    return tuple(name.rstrip("0123456789") for name in names)


_PLAIN = frozenset({bool, int, float, str, type(None)})
_MESSAGES = (Reply, Answer, Request)


def read_only(value: T) -> T:
    """Return a message, or a part of one, as a value: arrays as read-only views, dictionaries copied.

    >>> model = {"w": np.zeros(2)}
    >>> received = read_only(model)
    >>> received["w"].flags.writeable, model["w"].flags.writeable, np.shares_memory(received["w"], model["w"])
    (False, True, True)
    """
    result: Any = value
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        result = value.view()
        result.flags.writeable = False
    elif isinstance(value, tuple):
        result = tuple([read_only(item) for item in value])
    elif isinstance(value, _MESSAGES):
        result = type(value)(**{name: read_only(part) for name, part in vars(value).items()})
    elif isinstance(value, Mapping):  # after the others, as it takes longest to tell
        result = {key: read_only(item) for key, item in value.items()}
    return result  # type: ignore[no-any-return]

"""What server and client say to each other: requests, replies, verbs, plans, and their bytes on a wire."""

from coterie.messages.envelope import EVALUATION, ClientId, Failure, Reply, Request
from coterie.messages.params import Array, Params, distance, frozen, is_finite, update, weighted_mean
from coterie.messages.plan import Anchor, Curriculum, Plan, Schedule
from coterie.messages.spec import ModelSpec
from coterie.messages.verbs import (
    ANSWERS,
    Answer,
    ClassCounts,
    Compared,
    Counted,
    Evaluate,
    Evaluated,
    Losses,
    Signature,
    Signed,
    Train,
    Trained,
    Verb,
)

__all__ = [
    "ANSWERS",
    "EVALUATION",
    "Anchor",
    "Answer",
    "Array",
    "ClassCounts",
    "ClientId",
    "Compared",
    "Counted",
    "Curriculum",
    "Evaluate",
    "Evaluated",
    "Failure",
    "Losses",
    "ModelSpec",
    "Params",
    "Plan",
    "Reply",
    "Request",
    "Schedule",
    "Signature",
    "Signed",
    "Train",
    "Trained",
    "Verb",
    "distance",
    "frozen",
    "is_finite",
    "update",
    "weighted_mean",
]

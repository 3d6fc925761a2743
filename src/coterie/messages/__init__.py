"""What server and client say to each other: requests, replies, verbs, plans, and their bytes on a wire."""

from coterie.messages.envelope import (
    EVALUATION,
    LABEL_EVALUATION,
    MEASUREMENTS,
    Answer,
    ClientId,
    Failure,
    Reply,
    Request,
    Verb,
    read_only,
)
from coterie.messages.guarantee import Guarantee
from coterie.messages.limits import Limits
from coterie.messages.masking import Masking, SumLayout, Tally, Weighing
from coterie.messages.numbers import is_error
from coterie.messages.params import (
    LARGEST,
    Array,
    ModelSpec,
    Params,
    RunningMean,
    distance,
    frozen,
    unusable,
    update,
    usable,
    weighted_mean,
)
from coterie.messages.plan import (
    Anchor,
    Curriculum,
    L1Penalty,
    LabelOffset,
    MetaStep,
    Mixture,
    Optimiser,
    Plan,
    PrivateSteps,
    ProximalSteps,
    Schedule,
    UpdateNoise,
    normaliser,
)
from coterie.messages.standardisation import Standardisation
from coterie.messages.verbs import SECURE, VERBS
from coterie.messages.verbs.agree import Agree, AgreeReply
from coterie.messages.verbs.class_counts import ClassCounts, ClassCountsReply
from coterie.messages.verbs.evaluate import Evaluate, EvaluateReply
from coterie.messages.verbs.input_moments import InputMoments, InputMomentsReply
from coterie.messages.verbs.keys import Keys, KeysReply
from coterie.messages.verbs.losses import Losses, LossesReply
from coterie.messages.verbs.masked_train import MaskedReply, MaskedTrain
from coterie.messages.verbs.moments import Moments, MomentsReply
from coterie.messages.verbs.prune import Channels, Prune, PruneReply, Verdict
from coterie.messages.verbs.shares import Shares, SharesReply
from coterie.messages.verbs.signature import Signature, SignatureReply
from coterie.messages.verbs.train import Train, TrainReply
from coterie.messages.verbs.unmask import Unmask, UnmaskReply

__all__ = [
    "EVALUATION", "LABEL_EVALUATION", "LARGEST", "MEASUREMENTS", "SECURE", "VERBS", "Agree", "AgreeReply", "Anchor",
    "Answer", "Array", "Channels", "ClassCounts", "ClassCountsReply", "ClientId", "Curriculum", "Evaluate",
    "EvaluateReply", "Failure", "Guarantee", "InputMoments", "InputMomentsReply", "Keys", "KeysReply", "L1Penalty",
    "LabelOffset", "Limits", "Losses", "LossesReply", "MaskedReply", "MaskedTrain", "Masking", "MetaStep", "Mixture",
    "ModelSpec", "Moments", "MomentsReply", "Optimiser", "Params", "Plan", "PrivateSteps", "ProximalSteps", "Prune",
    "PruneReply", "Reply", "Request", "RunningMean", "Schedule", "Shares", "SharesReply", "Signature",
    "SignatureReply", "Standardisation", "SumLayout", "Tally", "Train", "TrainReply", "Unmask", "UnmaskReply",
    "UpdateNoise", "Verb", "Verdict", "Weighing", "distance", "frozen", "is_error", "normaliser", "read_only",
    "unusable", "update", "usable", "weighted_mean",
]  # fmt: skip

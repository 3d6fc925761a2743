"""The one border where replies are checked; behind it they are trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coterie.messages import (
    ANSWERS,
    LARGEST,
    Answer,
    Array,
    ClassCountsReply,
    EvaluateReply,
    Losses,
    LossesReply,
    Params,
    Prune,
    PruneReply,
    Reply,
    Request,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
    unusable,
)
from coterie.models import initial
from coterie.training.batches import total_steps

LARGEST_LOSS = 1e100
"""Beyond this no loss is believed: sums and squares of losses must stay finite. An honest client's may be large, where
the model that it was sent is hopeless."""
MOST_SAMPLES = 10**12
"""Beyond this no number of samples or steps is believed."""
ENVELOPE = 1 << 16
"""Bytes of a reply that are not those of its arrays, at most, besides the tensors' names and shapes."""


def fault(request: Request, reply: Reply, template: Params) -> str | None:
    """Say what is wrong with a reply, or None; `template` has the shapes of the model's parameters."""
    if reply.round != request.round:
        return f"answers round {reply.round}, asked was {request.round}"
    if [type(answer) for answer in reply.answers] != [ANSWERS[type(verb)] for verb in request.verbs]:
        return "does not answer what was asked"
    for verb, answer in zip(request.verbs, reply.answers, strict=True):
        wrong = _wrong(verb, answer, request, template)
        if wrong:
            return f"{type(verb).__name__.lower()}: {wrong}"
    return None


def largest_reply(request: Request) -> int:
    """Return how many bytes an honest reply can have at most, to refuse longer ones before they are read."""
    template = initial(request.spec, request.seed)
    model = sum(array.nbytes for array in template.values())
    most = ENVELOPE + 1024 * len(template)
    for verb in request.verbs:
        match verb:
            case Train():
                most += model * (bool(verb.send) + (verb.plan.correction is not None))
            case Prune():
                most += 2 * model
            case Signature():
                features = math.prod(request.spec.shape)
                most += _most_vectors(verb, request) * (8 * features + 8)
            case Losses():
                most += 256 * len(verb.models)
            case _:
                most += 64 * request.spec.classes
    return most


def _most_vectors(verb: Signature, request: Request) -> int:
    classes = request.spec.classes if verb.per_label else 1
    if verb.budget:
        return max(verb.budget, classes)
    return math.prod(request.spec.shape) * classes if verb.share else verb.p * classes


def _wrong(verb: Verb, answer: Answer, request: Request, template: Params) -> str | None:
    match verb, answer:
        case Train(), TrainReply():
            if not _counted(answer.samples, answer.steps) or not _bounded(answer.loss):
                return "impossible numbers"
            if answer.steps != (steps := total_steps(answer.samples, verb.plan)):
                return f"{answer.steps} steps, where the plan has {steps} for {answer.samples} samples"
            if verb.send and answer.samples == 0:
                return "a model trained on no samples"
            names = _expected(verb.send, template)
            controls = list(request.models[verb.plan.correction]) if verb.plan.correction and answer.steps else []
            return _unlike(answer.params, names, template) or _unlike(answer.control, controls, template)
        case _, EvaluateReply():
            if not _counted(answer.samples, answer.correct) or answer.correct > answer.samples:
                return "impossible numbers"
            if not _bounded(answer.loss):
                return "impossible numbers"
        case Losses(), LossesReply():
            if not len(answer.losses) == len(answer.wins) == len(answer.correct) == len(verb.models):
                return f"{len(answer.losses)} losses for {len(verb.models)} models"
            if not _bounded(*answer.losses) or sum(answer.wins) != answer.samples:
                return "impossible numbers"
            if not _counted(answer.samples, *answer.wins, *answer.correct) or max(answer.correct) > answer.samples:
                return "impossible numbers"
        case Signature(), SignatureReply():
            features, most = math.prod(request.spec.shape), _most_vectors(verb, request)
            if answer.vectors.ndim != 2 or answer.vectors.shape[0] != features or answer.vectors.shape[1] > most:
                return f"vectors of shape {answer.vectors.shape}, expected ({features}, up to {most})"
            if not np.issubdtype(answer.vectors.dtype, np.floating):
                return f"vectors of type {answer.vectors.dtype}"
            if not (np.linalg.norm(answer.vectors.astype(np.float64), axis=0) < 1.001).all():
                return "vectors that are longer than 1, or not finite"
            if answer.labels.shape != answer.vectors.shape[1:] or not _labels(answer.labels, verb, request):
                return "labels that do not belong to the vectors"
            if answer.halves is not None and not 0 <= answer.halves <= 180 * most:
                return f"halves {answer.halves} degrees apart"
        case _, ClassCountsReply():
            if answer.counts.shape != (request.spec.classes,) or not _counts(answer.counts):
                return f"counts of shape {answer.counts.shape} for {request.spec.classes} classes"
        case Prune(), PruneReply():
            if (answer.channels is None) == bool(verb.channels):
                return "a verdict on channels where none was asked for, or none where it was"
            return _ill_pruned(verb, answer, template)
    return None


def _ill_pruned(verb: Prune, answer: PruneReply, template: Params) -> str | None:
    """Compare bitmaps with the tensors that they belong to, and these with what the bitmaps leave."""
    sent = verb.sent(template)
    odd = sorted(set(answer.bitmaps) - set(verb.masked(sent)))
    if odd:
        return f"parameters that are not to be pruned: {', '.join(odd[:3])}"
    left = dict(template)
    for name, bits in answer.bitmaps.items():
        size = template[name].size
        if bits.dtype != np.uint8 or bits.shape != (-(-size // 8),) or np.unpackbits(bits)[size:].any():
            return f"the bitmap of '{name}' is {bits.dtype} {bits.shape}, expected uint8 with {size} bits"
        left[name] = np.empty(np.count_nonzero(np.unpackbits(bits)), template[name].dtype)
    return _unlike(answer.params, sent, left)


def _labels(labels: Array, verb: Signature, request: Request) -> bool:
    low, high = (0, request.spec.classes - 1) if verb.per_label else (-1, -1)
    return bool(np.issubdtype(labels.dtype, np.integer) and ((labels >= low) & (labels <= high)).all())


def _counts(counts: Array) -> bool:
    return bool(np.issubdtype(counts.dtype, np.integer) and ((counts >= 0) & (counts <= MOST_SAMPLES)).all())


def _counted(*numbers: int) -> bool:
    return all(0 <= number <= MOST_SAMPLES for number in numbers)


def _bounded(*numbers: float) -> bool:
    return all(abs(number) <= LARGEST_LOSS for number in numbers)  # not so NaN


def _expected(send: bool | tuple[str, ...], template: Params) -> Sequence[str]:
    if isinstance(send, bool):
        return list(template) if send else []
    return [name for name in template if name.startswith(send)]


def _unlike(params: Params, names: Sequence[str], template: Params) -> str | None:
    if set(params) != set(names):
        odd = sorted(set(params) ^ set(names))
        return f"parameters missing or unasked for: {', '.join(odd[:3])}"
    for name, value in params.items():
        if value.shape != template[name].shape or value.dtype != template[name].dtype:
            return f"'{name}' is {value.dtype} {value.shape}, expected {template[name].dtype} {template[name].shape}"
        if unusable(value):
            return f"'{name}' holds a NaN, an infinity or a number beyond {LARGEST:g}"
    return None

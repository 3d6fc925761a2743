"""Signature: describe the training data by singular vectors."""

import math

import numpy as np

from coterie.client.request_handler import RequestHandler
from coterie.messages import Signature, SignatureReply
from coterie.similarity import error_in_signature_measure, signature, split_half_distance, vectors_per_label
from coterie.streams import stream


def answer(handler: RequestHandler, verb: Signature) -> SignatureReply:
    """Describe the training data, whole or per label, and say how far apart random halves of it are, if asked."""
    data = handler.data
    x, y = data.x[data.train], data.y[data.train]
    if verb.normalised:
        x = data.normalise(x)
    labels = y if verb.per_label else None
    by_label = {-1: signature(x, verb.p)}
    if verb.per_label:
        sizes = vectors_per_label(y, verb.p, verb.share, verb.budget)
        by_label = {label: signature(x[y == label], p) for label, p in sizes.items()}
    vectors = np.hstack([*by_label.values(), np.zeros((math.prod(x.shape[1:]), 0))]).astype(np.float32)
    whose = np.repeat(np.array([*by_label], np.int64), [part.shape[1] for part in by_label.values()])
    if not verb.halves:
        return SignatureReply(vectors, whose)
    rng = stream(handler.request.seed, "halves", handler.id)
    if error := error_in_signature_measure(verb.measure):
        raise ValueError(error)
    return SignatureReply(
        vectors, whose, split_half_distance(x, verb.p, rng, splits=verb.halves, measure=verb.measure, labels=labels)
    )

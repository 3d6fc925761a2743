"""Signature: describe the training data by singular vectors."""

import math
from collections.abc import Generator

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.releases import noise_of
from coterie.client.request_handler import RequestHandler
from coterie.messages import Array, Guarantee, Signature, SignatureReply
from coterie.privacy import Randomness, bounded_rows, leading_vectors, private_second_moments, public_map
from coterie.similarity import (
    MEASURES,
    Sketched,
    Sketching,
    error_in_signature_measure,
    projection,
    signature,
    split_half_distance,
    vectors_per_label,
)
from coterie.similarity.halves import FEWEST
from coterie.streams import stream
from coterie.training.job import Index

TOO_FEW = "there are too few samples for the vectors asked for"


def answer(handler: RequestHandler, verb: Signature) -> Generator[Sketching, Sketched, SignatureReply]:
    """Describe the training data, whole or per label, and say how far apart random halves of it are, if asked.

    A sketch is left to whoever asked, who may have others to make at the same time.
    """
    if verb.private is not None:
        return _noised(handler, verb, verb.private)
    data = handler.data
    x = data.x[data.train]
    if verb.normalised:
        x = data.normalise(x)
    if verb.sketch and not verb.per_label:
        return (yield from _sketched(handler, verb, verb.sketch, x))
    y = data.y[data.train]
    sizes = vectors_per_label(y, verb.p, verb.share, verb.budget) if verb.per_label else {-1: verb.p}
    kept = {label: p for label, p in sizes.items() if handler.protection.enough(_samples_of(label, y), p)}
    if sizes and not kept and len(y):
        handler.leave_out(np.unique(y))
        raise Withheld(TOO_FEW)
    if verb.halves and (error := error_in_signature_measure(verb.measure)):
        raise ValueError(error)
    if len(kept) < len(sizes) and len(y):
        told = np.isin(y, [*kept])
        x, y = x[told], y[told]
    by_label = {label: signature(x if label == -1 else x[y == label], p) for label, p in kept.items()}
    left_out = handler.leave_out(np.array([label for label in sizes if label not in kept]))
    vectors = np.hstack([*by_label.values(), np.zeros((math.prod(x.shape[1:]), 0))]).astype(np.float32)
    whose = np.repeat(np.array([*by_label], np.int64), [part.shape[1] for part in by_label.values()])
    apart = None
    if verb.halves:
        rng, labels = stream(handler.seed, "halves", handler.id), y if verb.per_label else None
        apart = split_half_distance(x, verb.p, rng, splits=verb.halves, measure=verb.measure, labels=labels)
    return SignatureReply(vectors, whose, apart, left_out)


def _sketched(
    handler: RequestHandler, verb: Signature, directions: int, x: Array
) -> Generator[Sketching, Sketched, SignatureReply]:
    """Describe samples by a sketch; too few are not halved."""
    if len(x) and not handler.protection.enough(len(x), verb.p):
        handler.leave_out(np.unique(handler.data.y[handler.data.train]))
        raise Withheld(TOO_FEW)
    if verb.halves and (error := error_in_signature_measure(verb.measure)):
        raise ValueError(error)
    splits = verb.halves if len(x) >= FEWEST else 0
    orders = np.zeros((0, len(x)), np.int64)
    if splits:  # random numbers in order: one call is faster than so many permutations
        orders = stream(handler.seed, "halves", handler.id).random((splits, len(x))).argsort(axis=1)
    across = projection(math.prod(x.shape[1:]), directions, handler.request.seed)
    made = yield Sketching(x, verb.p, across, orders, verb.measure)
    vectors = made.vectors.astype(np.float32)
    return SignatureReply(vectors, np.full(vectors.shape[1], -1), made.halves)


def _noised(handler: RequestHandler, verb: Signature, wanted: Guarantee) -> SignatureReply:
    """Describe the training data by noised second moments of halves, and say how far apart these are, if asked.

    All that is sent is made of these moments.
    """
    data, to = handler.data, verb.features
    if to is None or verb.normalised or verb.sketch or verb.share is not None or verb.budget is not None:
        raise ValueError("a private signature has features, and p vectors of raw samples: no share, budget or sketch")
    if error := error_in_signature_measure(verb.measure):
        raise ValueError(error)
    release, sigma = noise_of("signature per label" if verb.per_label else "signature", wanted, data)

    def make(randomness: Randomness) -> SignatureReply:
        rows = bounded_rows(public_map(data.x[data.train], to, handler.request.seed), exactly=True)
        labels = data.y[data.train] if verb.per_label else None
        classes = data.classes if verb.per_label else 1
        moments = private_second_moments(rows, sigma, randomness, labels, classes)
        first, second, whole = (
            np.hstack([leading_vectors(matrix, verb.p) for matrix in matrices])
            for matrices in (moments[:, 0], moments[:, 1], moments.sum(axis=1))
        )
        apart = MEASURES[verb.measure]([first], [second]).item() if verb.halves else None
        whose = np.repeat(np.arange(classes) if verb.per_label else [-1], verb.p).astype(np.int64)
        return SignatureReply(whole.astype(np.float32), whose, apart)

    return handler.release(verb, release, make)


def _samples_of(label: int, y: Index) -> int:
    """Count the samples of a label; -1 stands for all."""
    return len(y) if label == -1 else int((y == label).sum())

"""ClassCounts: count the training samples of each class."""

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.releases import noise_of
from coterie.client.request_handler import RequestHandler
from coterie.messages import ClassCounts, ClassCountsReply
from coterie.privacy import Randomness, private_label_counts


def answer(handler: RequestHandler, verb: ClassCounts) -> ClassCountsReply:
    """Count the training samples of each class; a class with too few of them counts as one with none."""
    data = handler.data
    if verb.private is not None:
        release, sigma = noise_of("label counts", verb.private, data)

        def make(randomness: Randomness) -> ClassCountsReply:
            counts = private_label_counts(data.y[data.train], data.classes, sigma, randomness)
            return ClassCountsReply(np.maximum(np.rint(counts), 0).astype(np.int64))

        return handler.release(verb, release, make)
    counts = np.bincount(data.y[data.train], minlength=data.classes)
    shown = handler.protection.shown(counts)
    if counts.any() and not shown.any():
        handler.leave_out(np.flatnonzero(counts))
        raise Withheld("no class has enough samples to be counted")
    return ClassCountsReply(shown, handler.leave_out(np.flatnonzero(counts != shown)))

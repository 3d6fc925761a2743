"""Moments: describe each label by the mean and the variance of its samples."""

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Moments, MomentsReply
from coterie.messages.verbs.moments import FEWEST
from coterie.similarity import class_moments


def answer(handler: RequestHandler, verb: Moments) -> MomentsReply:
    """Describe the labels of which there are enough training samples, as networks see these; others count 0."""
    data = handler.data
    x, y = data.load(data.train)
    there = np.bincount(y, minlength=data.classes)
    fewest = max(FEWEST, handler.protection.min_label_samples)
    means, variances, counts = class_moments(x, y, data.classes, verb.dimensions, fewest)
    hidden = handler.protection.shown(there) != there  # others have too few samples for a mean, which is no secret
    if there.any() and not counts.any() and hidden.any():
        handler.leave_out(np.flatnonzero(there))
        raise Withheld("no label has enough samples to be described")
    left_out = handler.leave_out(np.flatnonzero(hidden))
    return MomentsReply(means.astype(np.float32), variances.astype(np.float32), counts, left_out)

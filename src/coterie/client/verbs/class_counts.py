"""ClassCounts: count the training samples of each class."""

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import ClassCounts, ClassCountsReply


def answer(handler: RequestHandler, verb: ClassCounts) -> ClassCountsReply:
    """Count the training samples of each class; a class with too few of them counts as one with none."""
    data = handler.data
    counts = np.bincount(data.y[data.train], minlength=data.classes)
    shown = handler.protection.shown(counts)
    if counts.any() and not shown.any():
        handler.leave_out(np.flatnonzero(counts))
        raise Withheld("no class has enough samples to be counted")
    return ClassCountsReply(shown, handler.leave_out(np.flatnonzero(counts != shown)))

"""ClassCounts: count the training samples of each class."""

import numpy as np

from coterie.client.request_handler import RequestHandler
from coterie.messages import ClassCounts, ClassCountsReply


def answer(handler: RequestHandler, verb: ClassCounts) -> ClassCountsReply:
    """Count the training samples of each class."""
    data = handler.data
    return ClassCountsReply(np.bincount(data.y[data.train], minlength=data.classes))

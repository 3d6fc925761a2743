"""InputMoments: measure mean and variance of the training inputs."""

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import InputMoments, InputMomentsReply
from coterie.messages.standardisation import pooled

BLOCK = 4096
"""Samples that are looked at together."""


def answer(handler: RequestHandler, verb: InputMoments) -> InputMomentsReply:
    """Measure all training samples together, if there are enough; labels are not told apart."""
    data = handler.data
    handler.protection.check_count(len(data.train))
    if not len(data.train):
        raise Withheld("there are no samples to measure")
    counts, means, variances = [], [], []
    for begin in range(0, len(data.train), BLOCK):
        x = data.load(data.train[begin : begin + BLOCK])[0].astype(np.float64)
        x = x.reshape(-1) if verb.channels == 1 else x
        axes = (0, *range(2, x.ndim))
        counts.append(min(BLOCK, len(data.train) - begin))
        means.append(np.atleast_1d(x.mean(axes)))
        variances.append(np.atleast_1d(x.var(axes)))
    mean, variance = pooled(counts, means, variances)
    return InputMomentsReply(len(data.train), mean, variance)

"""Losses: compare models by their mean losses."""

import numpy as np

from coterie.client.request_handler import RequestHandler
from coterie.messages import Losses, LossesReply
from coterie.messages.verbs.losses import NOTHING_TOLD
from coterie.training import losses


def answer(handler: RequestHandler, verb: Losses) -> LossesReply:
    """Compare models; the winner is ``best`` for the verbs that follow."""
    x, y = handler.samples(verb.on, verb.share)
    handler.protection.check_count(len(y))
    spec = handler.request.spec
    outputs = [handler.trainer.logits(spec, handler.model(name), x) for name in verb.models]
    table = np.stack([losses(output, y, spec.loss) for output in outputs])
    means = table.mean(axis=1) if len(y) else np.zeros(len(table))
    wins = np.bincount(table.argmin(axis=0), minlength=len(table)) if len(y) else np.zeros(len(table), int)
    correct = tuple(int((output.argmax(axis=1) == y).sum()) if spec.target is None else 0 for output in outputs)
    reply = LossesReply(len(y), tuple(means.tolist()), tuple(wins.tolist()), correct)
    handler.chosen = verb.models[verb.winner(reply)]
    handler.made["best"] = handler.model(handler.chosen)
    return NOTHING_TOLD if verb.hidden else reply

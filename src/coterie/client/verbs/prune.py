"""Prune: prune what the training before it led to, if that pays."""

import math

import numpy as np

from coterie.client import pruning
from coterie.client.request_handler import RequestHandler
from coterie.messages import Params, Prune, PruneReply


def answer(handler: RequestHandler, verb: Prune) -> PruneReply:
    """Prune what the training led to; where that was kept, the new mask and the model under it are kept."""
    handler.protection.check_count(handler.count(verb.on, verb.share))
    last = handler.model("trained")
    mask = {**pruning.whole(last, verb.masked(last)), **handler.state.get("mask", {})}

    def accuracy(model: Params) -> float | None:
        x, y = handler.samples(verb.on, verb.share)
        if not len(y):
            return None
        outputs = handler.trainer.logits(handler.request.spec, model, x)
        return float(np.mean(outputs.argmax(axis=1) == y)) if np.isfinite(outputs).all() else math.nan

    mask, weights, channels = pruning.decide(verb, handler.made.get("epoch 1", last), last, mask, accuracy)
    handler.made["trained"] = model = pruning.under(last, mask)
    if handler.new_state is not None:
        handler.keep({"model": model, "mask": mask})
    return PruneReply.of(model, mask, verb.sent(model), weights, channels)

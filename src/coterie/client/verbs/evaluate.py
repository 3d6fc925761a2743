"""Evaluate: count the right answers of a model."""

from coterie.client.request_handler import RequestHandler
from coterie.messages import Evaluate, EvaluateReply
from coterie.training import evaluate


def answer(handler: RequestHandler, verb: Evaluate) -> EvaluateReply:
    """Count right answers; a model that other clients have too is scored once for all, where they share a test set."""
    names, data, spec = verb.models_needed(), handler.data, handler.request.spec
    params = handler.model(names[0]) if len(names) == 1 else handler.overlaid(names)
    handler.protection.check_count(handler.count(verb.on, verb.share))
    common = data.common_test if verb.on == "test" else None
    # No other client has these models; the winner of ``Losses`` usually is one that others received.
    personal = handler.made.keys() - {"best"} | ({"own"} if "model" in handler.state else set())
    if common is not None and len(names) == 1 and names[0] not in personal:
        return common.evaluate(handler.trainer, spec, params, data.test)
    return evaluate(handler.trainer, spec, params, *handler.samples(verb.on, verb.share))

"""Evaluate: count the right answers of a model."""

from dataclasses import replace

from coterie.client.request_handler import RequestHandler
from coterie.messages import Evaluate, EvaluateReply
from coterie.messages.params import with_own
from coterie.training import SampleScores, by_frequency, score
from coterie.training.job import Floats, Index

MOST_LACKING = 1000
"""Test samples of labels that a client lacks, on which it is tested at most."""


def answer(handler: RequestHandler, verb: Evaluate) -> EvaluateReply:
    """Count right answers; a model that other clients have too is scored once for all, where they share a test set."""
    offset, data = handler.label_offset(verb.label_offset), handler.data
    tests = data.test_part(verb.most, handler.seed, handler.id)
    handler.protection.check_count(len(tests) if verb.on == "test" else handler.count(verb.on, verb.share))
    scores = _on_test(handler, verb, tests, offset) if verb.on == "test" else _on_training(handler, verb, offset)
    reply = scores.summary()
    if verb.by_label is None:
        return reply
    labels = data.test_y[tests] if verb.on == "test" else handler.samples(verb.on, verb.share)[1]
    lacking = _on_test(handler, verb, data.tests_lacking(MOST_LACKING), offset).summary()
    return replace(
        reply,
        own=by_frequency(scores.correct, labels, data.counts, handler.protection.min_label_samples),
        lacking=lacking.correct / lacking.samples if lacking.samples else None,
    )


def _on_test(handler: RequestHandler, verb: Evaluate, part: Index, offset: Floats | None) -> SampleScores:
    """Score the model on samples of the test set."""
    names, data, spec = verb.models_needed(), handler.data, handler.request.spec
    measured = offset, verb.metric, handler.protection.min_label_samples
    params = handler.model(names[0]) if len(names) == 1 else handler.overlaid(names)
    # No other client has these models; the winner of ``Losses`` usually is one that others received.
    personal = handler.made.keys() - {"best"} | ({"own"} if "model" in handler.state else set())
    mixed = with_own(params, handler.state.get("model"), verb.own_share)
    if data.common_test is not None and len(names) == 1 and names[0] not in personal and mixed is params:
        return data.common_test.score(handler.trainer, spec, params, part, *measured)
    x, y = data.normalise(data.test_x[part]), data.test_y[part]
    return score(handler.trainer, spec, mixed, x, y, *measured)


def _on_training(handler: RequestHandler, verb: Evaluate, offset: Floats | None) -> SampleScores:
    """Score the model on training samples, or on those held out."""
    x, y = handler.samples(verb.on, verb.share)
    received = handler.overlaid(verb.models_needed())
    params = with_own(received, handler.state.get("model"), verb.own_share)
    fewest = handler.protection.min_label_samples
    return score(handler.trainer, handler.request.spec, params, x, y, offset, verb.metric, fewest)

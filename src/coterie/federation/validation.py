"""The one border where replies are checked; behind it they are trusted. What is valid, each verb says."""

from coterie.messages import Params, Reply, Request
from coterie.models import initial

ENVELOPE = 1 << 16
"""Bytes of a reply that are not the content of its answers, at most, besides the tensors' names and shapes."""


def error_in_reply(request: Request, reply: Reply, template: Params) -> str | None:
    """Say what is wrong with a reply, or None; `template` has the shapes of the model's parameters."""
    if reply.round != request.round:
        return f"answers round {reply.round}, asked was {request.round}"
    if len(reply.answers) != len(request.verbs):
        return f"{len(reply.answers)} answers to {len(request.verbs)} verbs"
    for verb, answer in zip(request.verbs, reply.answers, strict=True):
        asked = type(verb).__name__.lower()
        if type(answer) is not verb.answer_type:
            return f"{asked}: answered with {type(answer).__name__}, expected {verb.answer_type.__name__}"
        if error := verb.error_in(answer, request, template):
            return f"{asked}: {error}"
    return None


def largest_reply(request: Request) -> int:
    """Return how many bytes an honest reply can have at most, to refuse longer ones before they are read."""
    template = initial(request.spec, request.seed)
    answers = sum(verb.largest_answer(request, template) for verb in request.verbs)
    return ENVELOPE + 1024 * len(template) + answers

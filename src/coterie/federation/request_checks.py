"""What a method may ask, checked where it asks: a mistake is told at its line, not by a client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coterie.messages import ANSWERS, Evaluate, Losses, Params, Prune, Request, Train, Verb

ALWAYS = ("own", "initial")
"""The models that every client has."""
EARLIER = {"trained": "Train", "best": "Losses"}
"""The models that a verb before makes."""


def check_verbs(verbs: Sequence[Verb], models: Mapping[str, Params]) -> None:
    """Raise unless these are verbs, and the models that they name are sent, or made on the way."""
    for name, model in models.items():
        if not is_model(model):
            raise TypeError(f"the model '{name}' of a request is {described(model)}, not arrays by name")
    made: set[str] = set()
    for verb in verbs:
        if not isinstance(verb, tuple(ANSWERS)):
            raise TypeError(f"a request was given {described(verb)}, which is no verb: {_offered()}")
        for name in _named(verb):
            if name not in made and name not in models and name not in ALWAYS:
                raise ValueError(_unknown(type(verb).__name__, name, [*ALWAYS, *models, *sorted(made)]))
        for name in _sent_by_server(verb):
            if name not in models:
                raise ValueError(_unknown(f"the plan of {type(verb).__name__}", name, list(models)))
        if isinstance(verb, Train):
            made = {"trained", *(f"epoch {epoch}" for epoch in verb.plan.snapshots)} | made & {"best"}
        if isinstance(verb, Losses):
            made.add("best")


def check_requests(requests: Any) -> None:
    """Raise unless these are requests by client."""
    if not isinstance(requests, Mapping):
        raise TypeError(f"ask was given {described(requests)}: give it {{client: request}}")
    for client, request in requests.items():
        if not isinstance(request, Request):
            what, remedy = described(request), "give it what fed.request(...) returns"
            if isinstance(request, tuple(ANSWERS)):
                verb = type(request).__name__
                what, remedy = f"the verb {verb}", f"make a request of it, fed.request({verb}(...))"
            raise TypeError(f"ask was given {what} for client {client}: {remedy}")


def is_model(value: Any) -> bool:
    """Say whether a value is what models and parts of them are: arrays by name."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(array, np.ndarray) for name, array in value.items()
    )


def described(value: Any) -> str:
    """Say what a value is, in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__} (without brackets)"
    kind = with_article(value)
    if isinstance(value, Mapping):
        keys = ", ".join(repr(key) for key in list(value)[:3])
        inside = sorted({type(item).__name__ for item in value.values()})
        return f"{kind} with the keys {keys}{', ...' if len(value) > 3 else ''} and values of type {'/'.join(inside)}"
    return kind


def with_article(value: Any) -> str:
    """Return the name of a value's type, as part of a sentence."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _named(verb: Verb) -> Iterable[str]:
    """Return the models that a verb looks up by the names that all verbs share."""
    match verb:
        case Train():
            return (*_names("Train.start", verb.start), *(anchor.model for anchor in verb.plan.anchors))
        case Evaluate():
            return (verb.model,) if isinstance(verb.model, str) else verb.model
        case Losses():
            return _names("Losses.models", verb.models)
        case Prune():
            return ("trained",)
    return ()


def _sent_by_server(verb: Verb) -> Iterable[str]:
    """Return what a plan takes from the request and nowhere else."""
    plan = verb.plan if isinstance(verb, Train) else None
    wanted = () if plan is None else (plan.correction, None if plan.mask == "own" else plan.mask)
    return (name for name in wanted if name is not None)


def _names(field: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"{field} is a tuple of names: write ({names!r},)")
    return names


def _unknown(who: str, name: str, there: Sequence[str]) -> str:
    if name in EARLIER:
        remedy = f"put a {EARLIER[name]} before it into the same request"
    elif name.startswith("epoch "):
        remedy = f"let the plan of the Train before it have snapshots=({name.removeprefix('epoch ')},)"
    else:
        remedy = "send it with model=..." if name == "model" else f"send it with models={{{name!r}: ...}}"
    there = there or ["those sent (none)"]
    return f"{who} needs the model '{name}', which is not among {', '.join(there)}: {remedy}"


def _offered() -> str:
    return f"there are {', '.join(f'{verb.__name__}(...)' for verb in ANSWERS)}"

"""What a method may ask, checked where it asks: an error points at the line that is wrong, not at a client."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from coterie.errors import CoterieError, one_line
from coterie.messages import EVALUATION, VERBS, ModelSpec, Params, Request, Train, Verb
from coterie.messages.limits import error_in_tensors
from coterie.messages.plan import error_in_plan
from coterie.models import initial
from coterie.models.learning import learning

ALWAYS = ("own", "initial")
"""The models that every client has."""


def kind_of(verbs: Sequence[Verb]) -> str:
    """Name a request by its weightiest verb."""
    names = [type(verb).__name__.lower() for verb in verbs]
    return "train" if "train" in names else next((name for name in names if name != EVALUATION), EVALUATION)


def check_verbs(verbs: Sequence[Verb], models: Mapping[str, Params]) -> None:
    """Raise unless these are verbs, and the models they name are sent, or made along the way."""
    for name, model in models.items():
        if not is_model(model):
            raise TypeError(f"the model '{name}' of a request is {described(model)}, not arrays by name")
    made: AbstractSet[str] = frozenset()
    for verb in verbs:
        if not isinstance(verb, VERBS):
            offered = ", ".join(f"{offered.__name__}(...)" for offered in VERBS)
            raise TypeError(f"a request was given {described(verb)}, which is not a verb: use {offered}")
        for name in verb.models_needed():
            if name not in made and name not in models and name not in ALWAYS:
                raise ValueError(_missing_model(verb, name, [*ALWAYS, *models, *sorted(made)]))
        for name in verb.models_to_send():
            if name not in models:
                raise ValueError(_missing_model(verb, name, list(models)))
        made = verb.models_after(made)


def check_learning(verbs: Sequence[Verb], spec: ModelSpec) -> None:
    """Raise unless the network has what a training names, something of it learns, and its plan has a meaning."""
    for verb in verbs:
        if spec.target is not None and verb.of_labels():
            raise CoterieError(
                f"{type(verb).__name__} uses labels, which regression does not have: use a "
                "method, or an option of it, that does not ask for them"
            )
        if isinstance(verb, Train):
            if error := error_in_plan(verb.plan, spec.loss):
                raise CoterieError(error)
            learning(spec, verb.plan.train)


def check_requests(requests: Any, secure: bool = False) -> None:
    """Raise unless these are requests by client; where sums are `secure`, for no training that is sent as it is."""
    if not isinstance(requests, Mapping):
        raise TypeError(f"ask was given {described(requests)}: give it {{client: request}}")
    for client, request in requests.items():
        if not isinstance(request, Request):
            what, remedy = described(request), "give it what fed.request(...) returns"
            if isinstance(request, VERBS):
                verb = type(request).__name__
                what, remedy = f"the verb {verb}", f"turn it into a request, fed.request({verb}(...))"
            raise TypeError(f"ask was given {what} for client {client}: {remedy}")
        if secure and request.kind == "train" and any(type(verb) is Train and verb.send for verb in request.verbs):
            raise TypeError(
                "ask was given a training whose result is sent as it is, where sums are secure: give it to "
                "fed.replies, or let the method say by weighing = None that it looks at single updates"
            )


def error_in_models(request: Request) -> str | None:
    """Say why the models of a request that somebody sent are not those of its network, or are not all there."""
    try:
        check_verbs(request.verbs, request.models)
        check_learning(request.verbs, request.spec)
    except (TypeError, ValueError, CoterieError) as missing:
        return str(missing)
    template = initial(request.spec, request.seed)
    for name, model in request.models.items():
        if error := error_in_tensors(model, template.keys() & model.keys(), template):
            return f"model '{one_line(name, 100)}': {error}"
    return None


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


def _missing_model(verb: Verb, name: str, available: Sequence[str]) -> str:
    word, _, number = name.partition(" ")
    send = "send it with model=..." if name == "model" else f"send it with models={{{name!r}: ...}}"
    remedy = next((kind.makes[word].format(number) for kind in VERBS if word in kind.makes), send)
    listed = ", ".join(available) or "those sent (none)"
    return f"{type(verb).__name__} needs the model '{name}', which is not among {listed}: {remedy}"

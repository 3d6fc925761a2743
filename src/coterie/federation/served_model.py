"""What a client receives: one model, several from which it takes the best, or layers that replace its own."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from coterie.federation.request_checks import described, is_model
from coterie.messages import Losses, LossesReply, Params, Reply, Verb


@dataclass(frozen=True)
class CandidateModels:
    """Models from which a client takes the one that fits its own samples best (IFCA, FLIS-DC)."""

    models: tuple[Params, ...]
    on: Literal["train", "holdout", "test"] = "train"
    by: Literal["loss", "accuracy"] = "loss"
    last: int | None = None
    """Which of them this client took last, if known."""
    hidden: bool = False
    """Whether clients keep to themselves which one they take."""

    @property
    def verb(self) -> Losses:
        """The question by which the client finds the best."""
        return Losses(
            tuple(f"model{k}" for k in range(len(self.models))), self.on, by=self.by, hidden=self.hidden or None
        )

    def taken(self, reply: Reply) -> int:
        """Return which one the client took."""
        return self.verb.winner(reply.answer(LossesReply))


@dataclass(frozen=True)
class SharedLayers:
    """Layers that replace those of a client's own model (LG-FedAvg)."""

    params: Params


ServedModel: TypeAlias = Params | CandidateModels | SharedLayers


class RequestParts(NamedTuple):
    """How a request gives a client what it receives."""

    verbs: tuple[Verb, ...]
    """What the client does first, to choose among several models."""
    start: tuple[str, ...]
    """The model that it then has, as later verbs name it."""
    models: dict[str, Params]
    """The models that are sent."""


def as_request(served: ServedModel | None) -> RequestParts:
    """Return the parts of a request by which a client receives this; with None, it uses its own model."""
    if served is None:
        return RequestParts((), ("own",), {})
    if isinstance(served, CandidateModels):
        return RequestParts((served.verb,), ("best",), {f"model{k}": model for k, model in enumerate(served.models)})
    if isinstance(served, SharedLayers):
        return RequestParts((), ("own", "model"), {"model": served.params})
    return RequestParts((), ("model",), {"model": served})


def single(served: ServedModel | None) -> Params | None:
    """Return the whole model that a client receives, if the server knows it: of several, the one taken last."""
    if isinstance(served, CandidateModels):
        return None if served.last is None else served.models[served.last]
    return None if isinstance(served, SharedLayers) else served


def error_in_served_model(served: Any, template: Params) -> str | None:
    """Say why no client can receive this, given what models look like, or None."""
    wanted = "a model (arrays by name, as fed.initial() has them), CandidateModels, SharedLayers or None"
    if isinstance(served, tuple | list):
        return f"{described(served)}: where a client takes the best of several models, return CandidateModels(models)"
    for model in parts(served):
        if not is_model(model):
            return f"{described(model)}: it should be {wanted}"
        missing = [] if isinstance(served, SharedLayers) else [name for name in template if name not in model]
        odd = [name for name in model if name not in template]
        if missing or odd:
            what = f"lacks '{missing[0]}'" if missing else f"has '{odd[0]}', which the network lacks"
            return f"a model that {what}: it should be {wanted}"
        for name, array in model.items():
            if array.shape != template[name].shape:
                return f"a model with '{name}' of shape {array.shape}; the network's is {template[name].shape}"
    return None


def parts(served: ServedModel) -> tuple[Params, ...]:
    """Return the models that are sent."""
    if isinstance(served, CandidateModels):
        return served.models
    return (served.params,) if isinstance(served, SharedLayers) else (served,)

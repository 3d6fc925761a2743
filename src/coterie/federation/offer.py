"""What a client receives: one model, or several of which it takes the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from coterie.messages import Compared, Losses, Params, Reply, Verb


@dataclass(frozen=True)
class Several:
    """Models of which a client takes the one that suits its own samples best (IFCA, FLIS-DC)."""

    models: tuple[Params, ...]
    on: Literal["train", "holdout", "test"] = "train"
    by: Literal["loss", "accuracy"] = "loss"
    last: int | None = None
    """The one that this client took last, where that is known."""

    @property
    def verb(self) -> Losses:
        """The question by which the client finds out."""
        return Losses(tuple(f"model{k}" for k in range(len(self.models))), self.on, by=self.by)

    def taken(self, reply: Reply) -> int:
        """Return which one the client took."""
        return self.verb.winner(reply.answer(Compared))


Offer: TypeAlias = Params | Several


class Terms(NamedTuple):
    """An offer as a request has it."""

    verbs: tuple[Verb, ...]
    """What the client does first."""
    name: str
    """Under which later verbs find the model that it took."""
    models: dict[str, Params]
    """What travels."""


def terms(offer: Offer) -> Terms:
    """Return how a request makes an offer."""
    if isinstance(offer, Several):
        return Terms((offer.verb,), "best", {f"model{k}": model for k, model in enumerate(offer.models)})
    return Terms((), "model", {"model": offer})


def single(offer: Offer | None) -> Params | None:
    """Return the model behind an offer as far as the server knows it: that of a choice, the one taken last."""
    if isinstance(offer, Several):
        return None if offer.last is None else offer.models[offer.last]
    return offer

"""One request being answered: what the verbs have in common."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Literal

from coterie.client.data import LocalData
from coterie.client.peers import Peers
from coterie.client.protection import Protection
from coterie.client.releases import NO_TERMS, A, PrivacyTerms
from coterie.client.sessions import SecureSession
from coterie.client.store import State
from coterie.messages import Array, ClientId, LabelOffset, Params, Request, Verb
from coterie.messages.envelope import Part
from coterie.models import initial
from coterie.models.learning import frozen_part, with_frozen
from coterie.privacy import OpenRelease, Randomness, Release
from coterie.training.job import Floats, Index, Trainer
from coterie.training.label_offsets import label_offset

LOG = logging.getLogger("coterie")
PRIVATELY = "private"
"""What stands beside a model of its own that a client has trained by private steps alone."""


class RequestHandler:
    """What a client's verbs work with while it answers a request: its samples, its state, and models by name."""

    def __init__(
        self,
        id: ClientId,
        data: LocalData,
        trainer: Trainer,
        request: Request,
        state: State,
        protection: Protection,
        terms: PrivacyTerms = NO_TERMS,
        session: SecureSession | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.id, self.data, self.trainer, self.request, self.protection = id, data, trainer, request, protection
        self.terms, self.peers = terms, peers
        self.state = state
        """As the verbs so far have left it."""
        self.new_state: State | None = None
        """What the client keeps once all verbs are answered; None where nothing is to be kept."""
        self.made: dict[str, Params] = {}
        """The models that the verbs so far have made for later ones, by name."""
        self.chosen: str | None = None
        """Which of several models is the best of those that were compared last, by its name in the request."""
        self._session = session

    @property
    def session(self) -> SecureSession:
        """What the client keeps between the steps of a secure sum, where the request is one of these."""
        if self._session is None:
            raise TypeError("a verb that takes part in a secure sum is one of SECURE")
        return self._session

    def keep(self, changed: State) -> None:
        """Replace parts of the state, from now on and for good."""
        if not any(verb.keeps_state() for verb in self.request.verbs):
            raise TypeError("a verb that changes what a client keeps says so in keeps_state()")
        if "model" in changed and PRIVATELY in self.state:
            changed = {PRIVATELY: {}, **changed}
        self.state = self.new_state = {**self.state, **changed}

    def model(self, name: str) -> Params:
        """Find a model by the names that verbs use."""
        if name in self.made:
            return self.made[name]
        if name == "own" and "model" in self.state:
            return self.state["model"]
        if name in ("own", "initial"):
            return initial(self.request.spec, self.request.seed)
        return with_frozen(self.request.models[name], self.frozen)

    @cached_property
    def frozen(self) -> Params:
        """What the network freezes: it is part of every model, and of no message."""
        return frozen_part(self.request.spec, self.request.seed)

    def overlaid(self, names: tuple[str, ...]) -> dict[str, Array]:
        """Lay models over each other, the last on top."""
        result: dict[str, Array] = {}
        for name in names:
            result |= self.model(name)
        return result

    @property
    def seed(self) -> int:
        """What its hold-outs and shuffles are drawn from."""
        return self.protection.seed(self.request.seed)

    def training_part(self, share: float) -> tuple[Index, Index]:
        """Divide the training samples into those used and those held out, always the same ones."""
        return self.data.training_part(share, self.seed, self.id)

    def opened(self, verb: Verb, release: Release) -> AbstractContextManager[OpenRelease]:
        """Charge a verb whose answer is made in the block, and depends on the models that were sent."""
        return self.terms.opened(self.id, replace(self.request, verbs=(verb,), kind=""), release)

    def release(self, verb: Verb, release: Release, make: Callable[[Randomness], A]) -> A:
        """Answer a verb under differential privacy: as before, where it was asked before, else as `make` does.

        The question is the verb alone, with all that `make` depends on beside the samples.
        """
        alone = replace(self.request, verbs=(verb,), models={}, kind="")
        return self.terms.release(self.id, alone, release, make)

    def count(self, on: Part, share: float) -> int:
        """Count the samples of a part."""
        if on == "holdout":
            return len(self.training_part(share)[1])
        return len(self.data.test if on == "test" else self.data.train)

    def leave_out(self, labels: Index) -> Literal[True] | None:
        """Say in this client's own log which labels are left out of an answer; return what the answer says of it."""
        if not len(labels):
            return None
        listed = ", ".join(map(str, labels.tolist()))
        LOG.warning("client %d, round %d: too few samples of labels %s: left out", self.id, self.request.round, listed)
        return True

    def label_offset(self, kind: LabelOffset | None) -> Floats | None:
        """Return what is added to logits when a model is used, by the labels of the training samples; None: nothing."""
        if kind is None:
            return None
        offset = label_offset(self.data.counts, kind)
        return offset if offset.any() else None

    def samples(self, on: Part, share: float) -> tuple[Floats, Index]:
        """Return the samples of a part, normalised, and their labels; `share` is that of the hold-out."""
        if on == "test":
            return self.data.normalise(self.data.test_x[self.data.test]), self.data.test_y[self.data.test]
        return self.data.load(self.data.train if on == "train" else self.training_part(share)[1])

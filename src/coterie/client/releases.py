"""What a client tells under differential privacy: how much at most, what beside it, and where it keeps account."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from coterie.client.data import LocalData
from coterie.client.protection import Withheld
from coterie.messages import Answer, ClientId, Guarantee, Request, Verb, wire
from coterie.privacy import BudgetSpent, OpenRelease, PrivacyLimit, Randomness, Release, ReleaseLedger, gaussian_sigma
from coterie.privacy.ledger import question_digest
from coterie.streams import stream
from coterie.training.private_steps import TRAINING

A = TypeVar("A", bound=Answer)
PURPOSE = "simulated noise"
KEPT = 4
"""Trainings whose results are kept, to be sent again if they are asked for again: those of the last rounds."""


@dataclass(frozen=True)
class PrivacyTerms:
    """The terms under which a client, or each of many, answers; they are its own, whatever the server says."""

    limit: PrivacyLimit | None = None
    """The most that may ever be told of a sample."""
    unprotected: frozenset[str] = frozenset()
    """Where there is a limit: verbs, by name, that are answered as they are nevertheless."""
    ledgers: Path | None = None
    """The folder of ledgers; None: none is kept, as in simulations without a limit."""
    hides_samples: bool = False
    """Whether it declares no number of training samples, as where all trainings are private."""
    simulated: bool = True
    """Whether noise is drawn from the seed, and each client has a ledger of its own in the folder.

    Else noise comes from a secret, and the folder is the ledger of the one client that there is.
    """

    def tells(self, verb: str) -> bool:
        """Say whether what this verb tells goes out as it is."""
        return self.limit is None or verb in self.unprotected

    def told(self, verb: str, counts: Mapping[ClientId, int]) -> dict[ClientId, int]:
        """Return numbers of samples as clients declare them: a 1 where the verb that tells them is not answered."""
        hidden = not self.tells(verb) or (self.hides_samples and verb == "train")
        return dict.fromkeys(counts, 1) if hidden else dict(counts)

    def check(self, verb: Verb) -> None:
        """Refuse to answer without noise where there is a limit, unless nothing of samples is told."""
        names = verb.permissions()
        if names and not (verb.is_noised() or any(map(self.tells, names))):
            raise Withheld(
                f"{names[0]} is answered without noise, and this client has a privacy limit: its owner can name it as "
                "unprotected"
            )

    def release(self, client: ClientId, asked: Request, release: Release, make: Callable[[Randomness], A]) -> A:
        """Return the answer to a request of one verb: what was told before, or what `make` makes now, charged first."""
        with self.opened(client, asked, release) as opened:
            if opened.told is None:
                answer = make(opened.randomness)
                opened.keep(wire.pack(answer))
                return answer
            known: A = wire.unpack(opened.told)
            return known

    @contextmanager
    def opened(self, client: ClientId, asked: Request, release: Release) -> Iterator[OpenRelease]:
        """Charge a request of one verb, with the models on which the answer depends; the answer is made in the block.

        Simulated noise does not depend on the models, whose last digits depend on who computed them.
        """
        address = question_digest(wire.pack(replace(asked, models={})))
        simulated = stream(asked.seed, PURPOSE, client, int(address[:16], 16))
        if self.ledgers is None:
            yield OpenRelease(None, simulated, lambda made: made)
            return
        if self.limit is not None and self.limit.by == "gaussian" and release.rate < 1:
            raise Withheld(
                f"'{release.what}' draws samples by coins, which this client's limit does not count: its owner can "
                f'write limit = "epsilon={self.limit.epsilon:g},delta={self.limit.delta:g},by=renyi"'
            )
        folder = self.ledgers / str(client) if self.simulated else self.ledgers
        ledger = ReleaseLedger(folder, self.limit, (lambda digest: simulated) if self.simulated else None)
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(ledger.opened(wire.pack(asked), release))
            except BudgetSpent as reason:
                raise Withheld(str(reason)) from None
            yield opened
        if release.what == TRAINING and opened.told is None:  # of which there is one a round, as long as a model
            ledger.forget(KEPT, TRAINING)


NO_TERMS = PrivacyTerms()
"""As in simulations without a limit."""


def noise_of(what: str, wanted: Guarantee, data: LocalData) -> tuple[Release, float]:
    """Return what is charged for sums over training samples that one sample changes by up to 1, and the noise's σ.

    Where test samples are drawn from the same ones, one sample more may also put another one in its place among those
    for training, which changes sums by up to √2.
    """
    multiplier = gaussian_sigma(wanted.epsilon, wanted.delta)
    return Release(what, multiplier), multiplier * (math.sqrt(2) if data.drawn_tests else 1.0)

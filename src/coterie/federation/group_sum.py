"""The secure sum of one group: what its clients agree on, and what its mean is once the masks are off.

Nothing here asks a client: that is `coterie.federation.secure_sum`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coterie.federation.secure_options import SecureOptions
from coterie.federation.shared_secrets import SharedSecrets
from coterie.messages import (
    Array,
    ClientId,
    Losses,
    MaskedTrain,
    Masking,
    Params,
    Plan,
    Request,
    SumLayout,
    Tally,
    Train,
    Unmask,
    frozen,
    normaliser,
)
from coterie.messages.masking import LARGEST_STATISTIC, TALLY_BOUNDS, Floats, size, unflat
from coterie.messages.params import STATISTICS
from coterie.messages.plan import total_steps
from coterie.models import initial
from coterie.models.learning import frozen_part
from coterie.secure import Words, decode

SLACK = 2.0
"""Clients hold samples out, or leave some over: what follows from their numbers may be so many times larger."""
ROUNDING = 1e-3
"""By which share a sum may be longer than its summands allow."""


class ImpossibleSum(Exception):
    """A sum that no honest clients can have: somebody gave wrong shares, or did not keep to the limits."""


class GroupMean(NamedTuple):
    """What a sum says of a group's clients."""

    weight: float
    """Of all of them together."""
    steps: float
    loss: float
    cut: int
    """How many of their updates were cut."""
    params: Params
    control: Params
    """The mean change of their controls."""


class ChosenMean(NamedTuple):
    """The mean of those who chose one of several models, whoever they are."""

    clients: int
    params: Params


class ChoiceMeans(NamedTuple):
    """What a sum with a slot for each model says of its clients."""

    chosen: dict[int, ChosenMean]
    """By slot, of those that somebody chose."""
    loss: float
    cut: int


@dataclass
class GroupSum:
    """The clients of a group in one round, and how far its sum has come."""

    request: Request
    """The training: its verbs as they would be without masks, and the models that they name."""
    secrets: SharedSecrets
    """What clients advertised and shared for this sum."""
    asked: list[ClientId] = field(default_factory=list)
    """Who is in it, if that is known before keys are."""
    ahead: SharedSecrets | None = None
    """The same for the next round, where the same clients are expected again."""
    masking: Masking | None = None
    question: str = ""
    """What its clients were asked, as `question_of` names it."""
    total: Words | None = None
    survivors: list[ClientId] = field(default_factory=list)
    """Whose masked inputs are in the total (U3)."""
    signatures: dict[ClientId, str] = field(default_factory=dict)
    """Of the survivors that agreed on who survived, where clients have identities."""

    @cached_property
    def template(self) -> Params:
        """The shapes of the network, and its start."""
        return initial(self.request.spec, self.request.seed)

    @property
    def sending(self) -> Train:
        """The training whose result is summed."""
        return next(verb for verb in self.request.verbs if isinstance(verb, Train) and verb.send)

    @property
    def masked(self) -> MaskedTrain:
        """The same, with its answer masked."""
        assert self.masking is not None
        return MaskedTrain.of(self.sending, self.masking)

    @property
    def slots(self) -> tuple[str, ...] | None:
        """The models among which its clients choose and do not tell."""
        hidden = (verb.models for verb in self.request.verbs if isinstance(verb, Losses) and verb.hidden)
        return next(hidden, None)

    @cached_property
    def layout(self) -> SumLayout:
        """The order of the numbers in the sum."""
        return self.masked.layout(self.request, self.template, frozen_part(self.request.spec, self.request.seed))

    def last_question(self, received: Mapping[ClientId, str]) -> Unmask:
        """Return what a client is asked for its shares by, given what its neighbours encrypted for it."""
        signatures = tuple(self.signatures.get(j, "") for j in received) if self.secrets.signed else None
        return Unmask(tuple(self.survivors), tuple(received.values()), signatures)

    def mean(self, total: Words, exact: bool = False) -> GroupMean:
        """Return what a sum without masks says; refuse one that can't be.

        Models are rounded to their own types, unless they are to be `exact`.
        """
        masking, layout, m = self.masked.masking, self.layout, len(self.survivors)
        n, counted, learnt = len(masking.clients), size(layout.counted), size(layout.learnt)
        tally, update = self._sound(total, m)
        update /= tally.learnt
        if masking.weighing == "normalised":
            weight = tally.weight * masking.heaviest
            update *= tally.normaliser * masking.heaviest * tally.learnt * masking.largest / weight**2
        statistics = decode(total.wide[:counted], LARGEST_STATISTIC, n) / tally.weight
        control = decode(total.narrow[learnt:], masking.clip_control or 1.0, n) / m
        params = self._moved(unflat(update, layout.learnt) | unflat(statistics, layout.counted), exact)
        change = {name: np.asarray(v, self.template[name].dtype) for name, v in unflat(control, layout.control).items()}
        weight, cut = tally.weight * masking.heaviest, round(tally.cut)
        return GroupMean(weight, tally.steps / m, max(tally.loss / m, 0.0), cut, params, frozen(change))

    def choices(self, total: Words) -> ChoiceMeans:
        """Return what a sum without masks, with a slot for each model, says; refuse one that can't be.

        All count alike, so that the weight of a slot is the number of those who chose it.
        """
        slots, m, n = self.slots or (), len(self.survivors), len(self.masked.masking.clients)
        counted, found = size(self.layout.counted), dict[int, ChosenMean]()
        parts = [total.wide.reshape(len(slots), -1), total.narrow.reshape(len(slots), -1)]
        told = [Words(wide, narrow) for wide, narrow in zip(*parts, strict=True)]
        tallies = [Tally(*decode(part.wide[counted:], np.array(TALLY_BOUNDS), n).tolist()) for part in told]
        numbers = [round(tally.weight) for tally in tallies]
        uneven = any(abs(tally.weight - number) > ROUNDING for tally, number in zip(tallies, numbers, strict=True))
        if uneven or min(numbers) < 0 or sum(numbers) != m:
            raise ImpossibleSum(f"{m} clients chose one model each, and {numbers} is how often models were chosen")
        for slot, (part, number) in enumerate(zip(told, numbers, strict=True)):
            if number == 0 and (part.wide[:counted].any() or part.narrow.any()):
                raise ImpossibleSum("there is an update of a model that nobody chose")
            if number:
                tally, update = self._sound(part, number, tallies[0])
                statistics = decode(part.wide[:counted], LARGEST_STATISTIC, n) / tally.weight
                mean = unflat(update / tally.learnt, self.layout.learnt) | unflat(statistics, self.layout.counted)
                found[slot] = ChosenMean(number, self._moved(mean, exact=False, chosen=slots[slot]))
        return ChoiceMeans(found, max(tallies[0].loss / m, 0.0), round(tallies[0].cut))

    def _sound(self, total: Words, clients: int, common: Tally | None = None) -> tuple[Tally, Floats]:
        """Return the tally and the update of so many clients; refuse what can't be.

        `common` has the numbers that say nothing of a model, where these are not of `clients` alone.
        """
        masking, counted, learnt = self.masked.masking, size(self.layout.counted), size(self.layout.learnt)
        n = len(masking.clients)
        tally = Tally(*decode(total.wide[counted:], np.array(TALLY_BOUNDS), n).tolist())
        update = decode(total.narrow[:learnt], masking.clip, n)
        judged = tally if common is None else tally._replace(steps=common.steps, loss=common.loss, cut=0.0)
        if error := error_in_sum(judged, update, masking, clients):
            raise ImpossibleSum(error)
        return tally, update

    def _moved(self, mean: Mapping[str, Floats], exact: bool, chosen: str | None = None) -> Params:
        """Return the reference of a group's updates moved by their mean; variances stay above 0, and counters whole."""
        reference = self.masked.reference(self.request, self.template, chosen)

        def value(name: str) -> Array:
            start = reference[name]
            if name not in mean:
                return start
            moved = start.astype(np.float64) + mean[name]
            if name.endswith(STATISTICS) and not name.endswith(STATISTICS[0]):
                moved = np.maximum(moved, 0.0)
            return moved if exact else np.asarray(moved if start.dtype.kind == "f" else np.rint(moved), start.dtype)

        return frozen({name: np.array(value(name)) for name in self.sending.sent(self.template)})


def error_in_sum(tally: Tally, update: Floats, masking: Masking, clients: int) -> str | None:
    """Say why no so many honest clients can have this sum. Of wrong shares it is random words: no such passes.

    >>> agreed = Masking((2, 5, 9), 3, "samples", clip=10.0, heaviest=50.0, largest=50.0)
    >>> error_in_sum(Tally(2.0, 2.0, 2.0, 10.0, 1.5, 0.0), np.array([3.0, 4.0]), agreed, 3) is None
    True
    >>> error_in_sum(Tally(2.0, 2.0, 2.0, 10.0, 1.5, 0.0), np.array([30.0, 40.0]), agreed, 3)
    'its update is 50 long, where 20 is the most'
    """
    share, least = clients * (1 + ROUNDING), -ROUNDING * clients
    if not 0 < tally.weight <= share or not 0 < tally.learnt <= share:
        return f"the weights of {clients} clients add up to {tally.weight:g} and {tally.learnt:g} of the largest"
    if not -ROUNDING <= tally.cut <= share or min(tally.normaliser, tally.steps, tally.loss) < least:
        return "a number of its clients is below 0, or more updates were cut than there are"
    most, length = tally.learnt * masking.clip, float(np.linalg.norm(update))
    grid = masking.clip * len(masking.clients) / 2**30
    if not length <= most * (1 + ROUNDING) + clients * grid * np.sqrt(update.size):
        return f"its update is {length:g} long, where {most:g} is the most"
    return None


def limits(
    clients: Sequence[ClientId],
    declared: Mapping[ClientId, int],
    heaviest: float,
    plan: Plan,
    how: SecureOptions,
    slots: tuple[str, ...] | None = None,
) -> Masking:
    """Return the limits within which clients add to a sum, which follow from the samples that they declared.

    `heaviest` is the most samples that a client counts for.
    """
    samples = [max(declared.get(client, 1), 1) for client in clients]
    heaviest = 1.0 if how.weighing == "equal" else float(min(heaviest, max(samples)))
    largest = heaviest
    if how.weighing == "normalised":
        weights = [min(n, heaviest) / normaliser(max(total_steps(n, plan), 1), plan) for n in samples]
        largest = SLACK * max(weights)
    control = 0.0
    if plan.correction is not None:  # the control's change is an update over Σ η_s, less c
        control = SLACK * how.clip / plan.lr.path(max(total_steps(min(samples), plan), 1))
    return Masking(tuple(clients), how.minimum, how.weighing, how.clip, heaviest, largest, control, slots)

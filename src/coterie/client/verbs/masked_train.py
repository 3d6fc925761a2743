"""MaskedTrain: step 2 of a secure sum: local training, then the update clipped, weighed, rounded and masked."""

import math
from collections.abc import Generator

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.client.verbs import train
from coterie.messages import (
    MaskedReply,
    MaskedTrain,
    Masking,
    Params,
    Plan,
    SumLayout,
    Tally,
    TrainReply,
    normaliser,
    wire,
)
from coterie.messages.masking import LARGEST_STATISTIC, LEAST, OF_NO_MODEL, TALLY_BOUNDS, Floats, flat
from coterie.models import initial
from coterie.secure import Words, encode, masked_input, threshold, zeros
from coterie.training import Diverged, Job, Outcome


def answer(handler: RequestHandler, verb: MaskedTrain) -> Generator[Job, Outcome | Diverged, MaskedReply]:
    """Train, and send nothing in clear; a training that sends nothing adds nothing."""
    masking, session = verb.masking, handler.session
    if error := _error_in(handler, masking):
        raise Withheld(error)
    trained = yield from train.answer(handler, verb)
    if not verb.send:
        return MaskedReply(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
    template = initial(handler.request.spec, handler.request.seed)
    layout = verb.layout(handler.request, template, handler.frozen)
    reference = verb.reference(handler.request, template, handler.chosen)
    x = summand(trained, reference, layout, masking, verb.plan)
    if masking.slots is not None:
        x = in_slot(x, masking.slots.index(str(handler.chosen)), len(masking.slots))
    session.sharers, session.minimum = masking.clients, masking.minimum
    session.question = wire.question_of(handler.request)
    return MaskedReply(*masked_input(session.secrets, x, frozenset(masking.clients), session.question))


def _error_in(handler: RequestHandler, masking: Masking) -> str | None:
    """Say why this client takes no part in such a sum."""
    me, sharers = handler.session.secrets, frozenset(masking.clients)
    if not {me.id} <= sharers <= frozenset(handler.session.clients):
        return "who shared secrets in a secure sum has advertised keys, and this client is among them"
    if len(sharers) != len(masking.clients):  # of so many summands, updates would be rounded to nothing
        return "a secure sum that names a client twice"
    if len(sharers & {me.id, *me.neighbours}) < threshold(1 + len(me.neighbours)):
        return "too few of this client's neighbours have shared secrets"
    if not LEAST <= masking.minimum <= len(sharers):
        return f"a secure sum of {len(sharers)} clients, of at least {masking.minimum}: it takes {LEAST}"
    limits = masking.clip, masking.heaviest, masking.largest
    if not all(0 < limit < math.inf for limit in limits) or not 0 <= masking.clip_control < math.inf:
        return "a secure sum without limits, in which numbers could overflow"
    if masking.weighing == "equal" and masking.heaviest != 1:
        return f"a secure sum in which all count alike, for {masking.heaviest:g} samples each in place of one"
    return None if masking.slots is None else _error_in_slots(handler.chosen, masking, masking.slots)


def _error_in_slots(chosen: str | None, masking: Masking, slots: tuple[str, ...]) -> str | None:
    """Say why this client does not hide its choice in such slots."""
    if chosen not in slots or len({*slots}) != len(slots):
        return "a secure sum with slots that are not those of the models among which this client chose"
    if masking.weighing != "equal":
        return "by its weight a slot would tell who is in it: where choices are hidden, all count alike"
    return None


def summand(trained: TrainReply, reference: Params, layout: SumLayout, masking: Masking, plan: Plan) -> Words:
    """Return what a client adds to the sum, as `coterie.messages.masking` has it."""
    n = len(masking.clients)
    u = min(1 if masking.weighing == "equal" else trained.samples, masking.heaviest) / masking.heaviest
    a = normaliser(trained.steps, plan) if masking.weighing == "normalised" and trained.steps else 1.0
    w = min(u * masking.heaviest / a / masking.largest, 1.0)
    update = flat(trained.params, layout.learnt) - flat(reference, layout.learnt)
    counted = flat(trained.params, layout.counted) - flat(reference, layout.counted)
    update, cut = clipped(update, masking.clip - rounding_length(update.size, masking.clip, n))
    control, _ = clipped(flat(trained.control, layout.control), masking.clip_control)
    tally = np.array(Tally(u, w, u * a, trained.steps, trained.loss, float(cut)))
    wide = encode(u * counted, LARGEST_STATISTIC, n, np.uint64), encode(tally, np.array(TALLY_BOUNDS), n, np.uint64)
    narrow = encode(w * update, masking.clip, n, np.uint32), encode(control, masking.clip_control or 1.0, n, np.uint32)
    return Words(np.concatenate(wide), np.concatenate(narrow))


def in_slot(x: Words, slot: int, slots: int) -> Words:
    """Return what a client adds to a sum with a slot for each model: zeros, but in that of the model it chose.

    What says nothing of a model stands in the first.
    """
    whole = zeros(slots * len(x.wide), slots * len(x.narrow))
    wide, narrow = whole.wide.reshape(slots, -1), whole.narrow.reshape(slots, -1)
    wide[slot, :-OF_NO_MODEL], narrow[slot] = x.wide[:-OF_NO_MODEL], x.narrow
    wide[0, -OF_NO_MODEL:] = x.wide[-OF_NO_MODEL:]
    return whole


def rounding_length(numbers: int, clip: float, clients: int) -> float:
    """Return by how much rounding makes an update longer at most, for which its clip leaves room.

    >>> rounding_length(62_000, 1.0, 100) < 2e-5
    True
    """
    length = clip * math.sqrt(numbers) * clients / 2**31
    if length >= clip / 2:
        raise Withheld(f"of {numbers} numbers from {clients} clients little but rounding would be summed")
    return length


def clipped(update: Floats, longest: float) -> tuple[Floats, bool]:
    """Return an update that is at most so long, and whether it was longer.

    >>> clipped(np.array([3.0, 4.0]), 1.0)
    (array([0.6, 0.8]), True)
    """
    length = float(np.linalg.norm(update))
    return (update * (longest / length), True) if length > longest else (update, False)

"""Secure sums inside each group: SecAgg+ (Bell et al., CCS 2020) in four exchanges, for all groups at once.

The step names are the paper's, the steps themselves are in `coterie.secure.protocol`. Clients that train the same model
are a group: those that got it, or that chose it among several. A group that is too small, or of which too many drop
out, keeps its model. What methods see of the others is the mean of a group, in the name of each client in the sum: so
their own means, by samples or all alike, are means of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from coterie.federation.secure_options import SecureOptions
from coterie.messages import (
    Answer,
    Array,
    ClientId,
    Keys,
    KeysReply,
    Losses,
    LossesReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    Params,
    Reply,
    Request,
    Shares,
    SharesReply,
    SumLayout,
    Tally,
    Train,
    TrainReply,
    Unmask,
    UnmaskReply,
    Verb,
    frozen,
    normaliser,
)
from coterie.messages.masking import LARGEST_STATISTIC, TALLY_BOUNDS, Floats, size, unflat
from coterie.messages.params import STATISTICS
from coterie.messages.plan import total_steps
from coterie.models import initial
from coterie.models.learning import frozen_part
from coterie.secure import PublicKeys, TooFewShares, Words, decode, neighbours, remaining_masks, zeros

if TYPE_CHECKING:
    from coterie.federation.federation import Federation

SLACK = 2.0
"""Clients hold samples out, or leave some over: what follows from their numbers may be so many times larger."""
TOO_FEW, CLIPPED = "too few", "clipped"
"""Kinds of events."""


@dataclass
class GroupSum:
    """The clients of a group in one round, and how far its sum has come."""

    request: Request
    """The training: its verbs as they would be without masks, and the models that they name."""
    keys: dict[ClientId, PublicKeys] = field(default_factory=dict)
    """Of those that advertised some (U1), in order."""
    messages: dict[ClientId, dict[ClientId, str]] = field(default_factory=dict)
    """What those that shared secrets (U2) encrypted for their neighbours."""
    masking: Masking | None = None
    total: Words | None = None
    survivors: list[ClientId] = field(default_factory=list)
    """Whose masked inputs are in the total (U3)."""

    @cached_property
    def graph(self) -> dict[ClientId, tuple[ClientId, ...]]:
        """Who is whose neighbour."""
        return neighbours([*self.keys], self.request.seed, self.request.round)

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

    @cached_property
    def layout(self) -> SumLayout:
        """The order of the numbers in the sum."""
        return self.masked.layout(self.request, self.template, frozen_part(self.request.spec, self.request.seed))


def sends_update(request: Request) -> bool:
    """Say whether a client is to train and to send the result as it is."""
    return any(type(verb) is Train and verb.send for verb in request.verbs)


def secure_replies(fed: Federation, requests: Mapping[ClientId, Request], how: SecureOptions) -> Iterator[Reply]:
    """Have clients train what they are asked to, and yield the means of their groups in their names."""
    groups, heard = advertise_keys(fed, requests)
    share_keys(fed, _large(fed, groups, how.minimum))
    ready = [group for group in groups if group.messages]
    for group in _large(fed, ready, how.minimum, "have shared secrets"):
        group.masking = _masking(fed, group, how)
    collect_masked_inputs(fed, [group for group in ready if group.masking])
    answers: dict[ClientId, TrainReply] = {}
    begun = [group for group in ready if group.survivors]
    for means in unmask(fed, _large(fed, begun, how.minimum, "have sent what they trained")):
        answers |= means
    for client, answer in sorted(answers.items()):
        yield _in_the_name_of(client, requests[client], heard[client], answer)


def advertise_keys(
    fed: Federation, requests: Mapping[ClientId, Request]
) -> tuple[list[GroupSum], dict[ClientId, tuple[Answer, ...]]]:
    """Step 0: ask for keys, and for what comes before the training; form groups of those that train the same model."""
    asked: dict[int, Request] = {}
    for request in requests.values():
        if id(request) not in asked:
            before = [verb for verb in request.verbs if not isinstance(verb, Train)]
            asked[id(request)] = fed.request(*before, Keys(), models=_needed(before, request), kind="keys")
    replies = fed.ask({client: asked[id(request)] for client, request in requests.items()})
    groups: dict[object, GroupSum] = {}
    for client, reply in replies.items():
        training = _training(fed, requests[client], reply.answers)
        models = [(name, *map(id, model.values())) for name, model in training.models.items()]
        group = groups.setdefault((repr(training.verbs), *models), GroupSum(training))
        told = reply.answer(KeysReply)
        group.keys[client] = PublicKeys(bytes.fromhex(told.mask), bytes.fromhex(told.share))
    return [*groups.values()], {client: reply.answers for client, reply in replies.items()}


def share_keys(fed: Federation, groups: list[GroupSum]) -> None:
    """Step 1: let clients share their secrets with their neighbours, whose keys they are told."""
    requests = {}
    for group in groups:
        for client, near in group.graph.items():
            masks, shares = ([group.keys[j][which].hex() for j in near] for which in (0, 1))
            requests[client] = fed.request(Shares(tuple(group.keys), tuple(masks), tuple(shares)))
    replies = fed.ask(requests) if requests else {}
    for group in groups:
        for client, near in group.graph.items():
            if client in replies:
                group.messages[client] = dict(zip(near, replies[client].answer(SharesReply).messages, strict=True))


def collect_masked_inputs(fed: Federation, groups: list[GroupSum]) -> None:
    """Step 2: let clients train, and add up what they send."""
    requests: dict[ClientId, Request] = {}
    belongs: dict[ClientId, GroupSum] = {}
    for group in groups:
        assert group.masking is not None
        verbs = [MaskedTrain.of(verb, group.masking) for verb in group.request.verbs if isinstance(verb, Train)]
        request = fed.request(*verbs, models=group.request.models, kind=group.request.kind)
        requests |= dict.fromkeys(group.messages, request)
        belongs |= dict.fromkeys(group.messages, group)
    for reply in fed.replies(requests) if requests else ():
        group = belongs[reply.client]
        sent = next(part for part in reply.answers if isinstance(part, MaskedReply) and part.wide.size)
        if group.total is None:
            group.total = zeros(len(sent.wide), len(sent.narrow))
        group.total.add(Words(sent.wide, sent.narrow))
        group.survivors.append(reply.client)


def unmask(fed: Federation, groups: list[GroupSum]) -> Iterator[dict[ClientId, TrainReply]]:
    """Step 3: ask survivors for shares, take the masks away, and yield each mean in the names of its clients."""
    requests, near = {}, {}
    for group in groups:
        for client in group.survivors:
            near[client] = [j for j in group.graph[client] if j in group.messages]
            messages = tuple(group.messages[j][client] for j in near[client])
            requests[client] = fed.request(Unmask(tuple(group.survivors), messages))
    replies = fed.ask(requests) if requests else {}
    revealed = {}
    for client, reply in replies.items():
        shares = zip(sorted([client, *near[client]]), reply.answer(UnmaskReply).shares, strict=True)
        revealed[client] = {j: bytes.fromhex(share) for j, share in shares if share}
    for group in groups:
        assert group.total is not None
        keys, context = {j: group.keys[j] for j in group.messages}, f"{fed.seed} {fed.round}"
        sizes = group.layout.sizes
        try:
            masks = remaining_masks(group.graph, keys, context, {*group.survivors}, revealed, sizes)
        except TooFewShares as reason:
            fed.note(-1, TOO_FEW, f"a secure sum stays masked ({reason}): the group keeps its model")
            continue
        group.total.add(masks, -1)
        yield _means(fed, group, group.total)


def _large(fed: Federation, groups: list[GroupSum], least: int, did: str = "") -> list[GroupSum]:
    """Return the groups of which enough clients are left; note the others, which keep their models."""
    large = []
    for group in groups:
        left = len(group.survivors or group.messages or group.keys)
        if left >= least:
            large.append(group)
        else:
            clients = f"{left} client{'s' * (left != 1)} of a group {did or 'are there'}"
            fed.note(-1, TOO_FEW, f"{clients}, and a secure sum takes {least}: the group keeps its model")
    return large


def _training(fed: Federation, request: Request, answers: tuple[Answer, ...]) -> Request:
    """Return the training of a request as a request of its own; of several models, with the one that was chosen."""
    best = "best"
    for verb, answer in zip(request.verbs, answers, strict=False):
        if isinstance(verb, Losses) and isinstance(answer, LossesReply):
            best = verb.models[verb.winner(answer)]
    verbs = [
        replace(verb, start=tuple(best if name == "best" else name for name in verb.start))
        for verb in request.verbs
        if isinstance(verb, Train)
    ]
    return fed.request(*verbs, models=_needed(verbs, request), kind=request.kind)


def _needed(verbs: list[Verb] | list[Train], request: Request) -> dict[str, Params]:
    """Return the models of a request that some verbs of it need."""
    names = {name for verb in verbs for name in (*verb.models_needed(), *verb.models_to_send())}
    return {name: model for name, model in request.models.items() if name in names}


def _masking(fed: Federation, group: GroupSum, how: SecureOptions) -> Masking:
    """Return the limits within which clients add to a sum, which follow from what they declared."""
    clients, plan = tuple(group.messages), group.sending.plan
    declared = [max(fed.samples.get(client, 1), 1) for client in clients]
    heaviest = 1.0 if how.weighing == "equal" else float(min(fed.aggregator.heaviest(), max(declared)))
    largest = heaviest
    if how.weighing == "normalised":
        weights = [min(n, heaviest) / normaliser(max(total_steps(n, plan), 1), plan) for n in declared]
        largest = SLACK * max(weights)
    control = 0.0
    if plan.correction is not None:  # the control's change is an update over Σ η_s, less c
        control = SLACK * how.clip / plan.lr.path(max(total_steps(min(declared), plan), 1))
    return Masking(clients, how.minimum, how.weighing, how.clip, heaviest, largest, control)


def _means(fed: Federation, group: GroupSum, total: Words) -> dict[ClientId, TrainReply]:
    """Return what the sum of a group says, in the name of each survivor: the mean, and equal parts of the rest."""
    masking, layout, clients = group.masked.masking, group.layout, group.survivors
    n, m, counted, learnt = len(masking.clients), len(clients), size(layout.counted), size(layout.learnt)
    tally = Tally(*decode(total.wide[counted:], np.array(TALLY_BOUNDS), n).tolist())
    update = decode(total.narrow[:learnt], masking.clip, n) / tally.learnt
    if masking.weighing == "normalised":
        update *= (
            tally.normaliser
            * masking.heaviest
            * tally.learnt
            * masking.largest
            / (tally.weight * masking.heaviest) ** 2
        )
    statistics = decode(total.wide[:counted], LARGEST_STATISTIC, n) / tally.weight
    control = decode(total.narrow[learnt:], masking.clip_control or 1.0, n) / m
    params = _moved(group, unflat(update, layout.learnt) | unflat(statistics, layout.counted))
    change = {name: np.asarray(v, group.template[name].dtype) for name, v in unflat(control, layout.control).items()}
    if cut := round(tally.cut):
        fed.note(
            -1,
            CLIPPED,
            f"{cut} of {m} updates of a group were longer than {masking.clip:g}, and were cut by the client",
        )
    loss, steps = max(tally.loss / m, 0.0), max(round(tally.steps / m), 1)
    fed.training.note_sum(clients, loss)
    each, more = divmod(max(round(tally.weight * masking.heaviest), m), m)
    return {c: TrainReply(each + (i < more), steps, loss, params, frozen(change)) for i, c in enumerate(clients)}


def _moved(group: GroupSum, mean: Mapping[str, Floats]) -> Params:
    """Return the reference of a group's updates moved by their mean; variances stay above 0, and counters whole."""
    reference = group.masked.reference(group.request, group.template)

    def value(name: str) -> Array:
        start = reference[name]
        if name not in mean:
            return start
        moved = start.astype(np.float64) + mean[name]
        if name.endswith(STATISTICS) and not name.endswith(STATISTICS[0]):
            moved = np.maximum(moved, 0.0)
        return np.asarray(moved if start.dtype.kind == "f" else np.rint(moved), start.dtype)

    return frozen({name: np.array(value(name)) for name in group.sending.sent(group.template)})


def _in_the_name_of(client: ClientId, request: Request, heard: tuple[Answer, ...], answer: TrainReply) -> Reply:
    """Return a reply as the method expects it; of a training that sends nothing, nothing is known."""
    before = iter(heard)
    quiet = TrainReply(answer.samples, 0, 0.0)
    answers = [(answer if verb.send else quiet) if isinstance(verb, Train) else next(before) for verb in request.verbs]
    return Reply(client, request.round, tuple(answers))

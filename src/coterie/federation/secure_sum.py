"""Secure sums inside each group: SecAgg+ (Bell et al., CCS 2020), for all groups at once.

The step names are the paper's, the steps themselves are in `coterie.secure.protocol`. Clients that get the same request
are a group; where they choose among several models, those of them that chose the same one. Two groups may well get the
same model, as they do in a first round. A group that is too small, or of which too many drop out, keeps its model.
What methods see of the others is the mean of a group, in the name of each client in the sum: so their own means, by
samples or all alike, are means of groups.

Where clients keep their choices to themselves, all of them are one group, whose sum has a slot for each model. Then
methods see the means of slots, in nobody's name.

There are four exchanges. Where everybody takes part, and so will again, steps 2 and 3 have the first two of the next
round with them: that round has two then, if exactly the same clients are in the group. Clients with identities, as
sites have, agree on who survived in one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from coterie.federation.group_sum import ChosenMean, GroupMean, GroupSum, ImpossibleSum, limits
from coterie.federation.secure_options import SecureOptions
from coterie.federation.shared_secrets import SharedSecrets
from coterie.messages import (
    Agree,
    AgreeReply,
    Answer,
    ClientId,
    Keys,
    KeysReply,
    Losses,
    LossesReply,
    MaskedReply,
    MaskedTrain,
    Params,
    Reply,
    Request,
    SharesReply,
    Train,
    TrainReply,
    UnmaskReply,
    Verb,
    wire,
)
from coterie.secure import TooFewShares, Words, is_public_key, remaining_masks, zeros

if TYPE_CHECKING:
    from coterie.federation.federation import Federation

M = TypeVar("M")
TOO_FEW, CLIPPED, IMPOSSIBLE = "too few", "clipped", "invalid"
"""Kinds of events."""


def sends_update(request: Request) -> bool:
    """Say whether a client is to train and to send the result as it is."""
    return any(type(verb) is Train and verb.send for verb in request.verbs)


def secure_replies(fed: Federation, requests: Mapping[ClientId, Request], how: SecureOptions) -> Iterator[Reply]:
    """Have clients train what they are asked to, and yield the means of their groups in their names."""
    groups, heard = advertise_keys(fed, requests)
    answers: dict[ClientId, TrainReply] = {}
    exact = fed.settings.private_training is not None
    for group, mean in _sums(fed, groups, how, lambda group, total: group.mean(total, exact)):
        answers |= _answers(fed, group, mean)
    for client, answer in sorted(answers.items()):
        yield _in_the_name_of(client, requests[client], heard.get(client, ()), answer)


def means_of_choices(
    fed: Federation, requests: Mapping[ClientId, Request], how: SecureOptions
) -> dict[int, ChosenMean]:
    """Have clients train the model that each chooses, and return the mean for each model that was chosen."""
    groups, _ = advertise_keys(fed, requests)
    if len(groups) > 1 or not all(group.slots for group in groups):
        raise ValueError("clients whose choices are hidden are asked the same, and to choose among models")
    found: dict[int, ChosenMean] = {}
    for group, means in _sums(fed, groups, how, GroupSum.choices):
        _note_cut(fed, group, means.cut)
        fed.training.note_sum(group.survivors, means.loss)
        found = means.chosen
    return found


def _sums(
    fed: Federation, groups: Sequence[GroupSum], how: SecureOptions, read: Callable[[GroupSum, Words], M]
) -> Iterator[tuple[GroupSum, M]]:
    """Carry out all steps but the first, and yield what is read from each sum that is unmasked."""
    there = _large(fed, groups, how.minimum, "are there", lambda group: len(group.secrets.keys))
    share_keys(fed, [group for group in there if not group.secrets.messages])
    ready = _large(fed, there, how.minimum, "have shared secrets", lambda group: len(group.secrets.messages))
    for group in ready:
        clients, heaviest = [*group.secrets.messages], fed.aggregator.heaviest()
        group.masking = limits(clients, fed.samples, heaviest, group.sending.plan, how, group.slots)
    collect_masked_inputs(fed, ready)
    begun = _large(fed, ready, how.minimum, "have sent what they trained", lambda group: len(group.survivors))
    agree(fed, [group for group in begun if group.secrets.signed])
    yield from unmask(fed, begun, read)


def advertise_keys(
    fed: Federation, requests: Mapping[ClientId, Request]
) -> tuple[list[GroupSum], dict[ClientId, tuple[Answer, ...]]]:
    """Step 0: ask for keys, and for what comes before the training, by which some choose their groups.

    Who has shared secrets for this sum ahead, in the round before, is not asked.
    """
    groups, asked = GroupsOfSums(fed), dict[int, Request]()
    again = fed.round < fed.settings.rounds and requests.keys() >= {*fed.trainable}
    for client, request in requests.items():
        if id(request) not in asked:
            asked[id(request)] = _before_training(fed, request)
        if asked[id(request)].verbs == (Keys(),):
            groups.of(request, ()).asked.append(client)
    ready = {client for group in groups.all if _has_shared(fed, group) for client in group.asked}
    waiting = {client: asked[id(request)] for client, request in requests.items() if client not in ready}
    replies = fed.ask(waiting) if waiting else {}
    for client, reply in replies.items():
        _take_keys(fed, groups.of(requests[client], reply.answers).secrets, reply)
    for group in groups.all:
        if again and group.asked:
            group.ahead = SharedSecrets(fed.seed, fed.round + 1)
    return groups.all, {client: reply.answers for client, reply in replies.items()}


def share_keys(fed: Federation, groups: Sequence[GroupSum]) -> None:
    """Step 1: let clients share their secrets with their neighbours, whose keys they are told."""
    requests = {c: fed.request(group.secrets.question(c)) for group in groups for c in group.secrets.keys}
    replies = fed.ask(requests) if requests else {}
    for group in groups:
        for client in group.secrets.keys:
            if client in replies:
                group.secrets.note(client, replies[client].answer(SharesReply))


def collect_masked_inputs(fed: Federation, groups: Sequence[GroupSum]) -> None:
    """Step 2: let clients train, and add up what they send."""
    requests: dict[ClientId, Request] = {}
    belongs: dict[ClientId, GroupSum] = {}
    for group in groups:
        assert group.masking is not None
        verbs: list[Verb] = [
            MaskedTrain.of(verb, group.masking) if isinstance(verb, Train) else verb for verb in group.request.verbs
        ]
        verbs += [Keys(ahead=True)] if group.ahead else []
        request = fed.request(*verbs, models=group.request.models, kind=group.request.kind)
        group.question = wire.question_of(request)
        requests |= dict.fromkeys(group.masking.clients, request)
        belongs |= dict.fromkeys(group.masking.clients, group)
    for reply in fed.replies(requests) if requests else ():
        group = belongs[reply.client]
        sent = next(part for part in reply.answers if isinstance(part, MaskedReply) and part.wide.size)
        if group.total is None:
            group.total = zeros(len(sent.wide), len(sent.narrow))
        group.total.add(Words(sent.wide, sent.narrow))
        group.survivors.append(reply.client)
        if group.ahead:
            _take_keys(fed, group.ahead, reply)


def agree(fed: Federation, groups: Sequence[GroupSum]) -> None:
    """Between steps 2 and 3, where clients have identities: let survivors sign who survived."""
    requests: dict[ClientId, Request] = {}
    for group in groups:
        requests |= dict.fromkeys(group.survivors, fed.request(Agree(tuple(group.survivors))))
    replies = fed.ask(requests) if requests else {}
    for group in groups:
        group.signatures = {c: replies[c].answer(AgreeReply).signature for c in group.survivors if c in replies}


def unmask(
    fed: Federation, groups: Sequence[GroupSum], read: Callable[[GroupSum, Words], M]
) -> Iterator[tuple[GroupSum, M]]:
    """Step 3: ask survivors for shares, take the masks away, and yield what is read from each sum."""
    requests, received = {}, {}
    for group in groups:
        for client in group.signatures if group.secrets.signed else group.survivors:
            received[client] = group.secrets.received(client)
            verbs: list[Verb] = [group.last_question(received[client])]
            if group.ahead and client in group.ahead.keys:
                verbs.append(group.ahead.question(client, ahead=True))
            requests[client] = fed.request(*verbs)
    replies = fed.ask(requests) if requests else {}
    revealed = {}
    for client, reply in replies.items():
        shares = zip(sorted([client, *received[client]]), reply.answer(UnmaskReply).shares, strict=True)
        revealed[client] = {j: bytes.fromhex(share) for j, share in shares if share}
    for group in groups:
        if group.ahead:
            for client in group.survivors:
                if client in replies and client in group.ahead.keys:
                    group.ahead.note(client, replies[client].answer(SharesReply))
            fed.secrets_ahead.add(group.ahead)
        if (mean := _unmasked(fed, group, revealed, read)) is not None:
            yield group, mean


def _unmasked(
    fed: Federation,
    group: GroupSum,
    revealed: Mapping[ClientId, Mapping[ClientId, bytes]],
    read: Callable[[GroupSum, Words], M],
) -> M | None:
    """Take the masks off a group's sum; None where that fails, or it can't be the sum: the group keeps its model."""
    assert group.total is not None
    secrets, sizes = group.secrets, group.layout.sizes
    try:
        keys, survivors = secrets.public_keys, {*group.survivors}
        masks = remaining_masks(secrets.graph, keys, secrets.context, survivors, revealed, sizes, group.question)
        group.total.add(masks, -1)
        return read(group, group.total)
    except TooFewShares as reason:
        fed.note(-1, TOO_FEW, f"a secure sum stays masked ({reason}): the group keeps its model")
    except ImpossibleSum as reason:
        fed.note(-1, IMPOSSIBLE, f"a secure sum is wrong, as {reason}: the group keeps its model")
    return None


def _answers(fed: Federation, group: GroupSum, mean: GroupMean) -> dict[ClientId, TrainReply]:
    """Return what the sum of a group says, in the name of each survivor: the mean, and equal parts of the rest."""
    clients, m = group.survivors, len(group.survivors)
    _note_cut(fed, group, mean.cut)
    fed.training.note_sum(clients, mean.loss)
    each, more = divmod(max(round(mean.weight), m), m)
    steps = max(round(mean.steps), 1)
    return {
        client: TrainReply(each + (i < more), steps, mean.loss, mean.params, mean.control)
        for i, client in enumerate(clients)
    }


def _take_keys(fed: Federation, secrets: SharedSecrets, reply: Reply) -> None:
    """Take a client's keys, unless its neighbours would refuse them, and take no part in a sum with it."""
    keys = reply.answer(KeysReply)
    taken = any({keys.mask, keys.share} & {other.mask, other.share} for other in secrets.keys.values())
    if taken or not all(is_public_key(bytes.fromhex(key)) for key in (keys.mask, keys.share)):
        detail = "its keys for a secure sum are another's, or none: it is not in the sum"
        fed.note(reply.client, IMPOSSIBLE, detail)
        return
    secrets.keys[reply.client] = keys


def _note_cut(fed: Federation, group: GroupSum, cut: int) -> None:
    """Say how many updates of a group were cut."""
    if cut:
        many, longest = f"{cut} of {len(group.survivors)}", group.masked.masking.clip
        detail = f"{many} updates of a group were longer than {longest:g}, and were cut by the client"
        fed.note(-1, CLIPPED, detail)


def _large(
    fed: Federation, groups: Sequence[GroupSum], least: int, did: str, count: Callable[[GroupSum], int]
) -> list[GroupSum]:
    """Return the groups of which enough clients are left; note the others, which keep their models."""
    large = []
    for group in groups:
        if (left := count(group)) >= least:
            large.append(group)
        else:
            clients = f"{left} client{'s' * (left != 1)} of a group {did}"
            fed.note(-1, TOO_FEW, f"{clients}, and a secure sum takes {least}: the group keeps its model")
    return large


def _has_shared(fed: Federation, group: GroupSum) -> bool:
    """Say whether a group has shared secrets ahead, and take them.

    Clients that were killed with the server have lost theirs: they share anew. That counts for no bytes, as what was
    lost has been counted.
    """
    shared = fed.secrets_ahead.take(group.asked, fed.round)
    if shared is None:
        return False
    if not shared.lost:
        group.secrets = shared
        return True
    with fed.uncounted():
        replies = fed.ask(dict.fromkeys(group.asked, fed.request(Keys())))
        for reply in replies.values():
            _take_keys(fed, group.secrets, reply)
        share_keys(fed, [group])
    return True


class GroupsOfSums:
    """The groups of a round, by the request that their clients get, and by what they choose."""

    def __init__(self, fed: Federation) -> None:
        self._fed, self._found = fed, dict[tuple[int, str], GroupSum]()

    @property
    def all(self) -> list[GroupSum]:
        """Those that are known so far."""
        return [*self._found.values()]

    def of(self, request: Request, answers: Sequence[Answer]) -> GroupSum:
        """Return the group of a client that is asked for a training; of several models, it chose by its answers."""
        best = "best"
        for verb, answer in zip(request.verbs, answers, strict=False):
            if isinstance(verb, Losses) and isinstance(answer, LossesReply):
                best = verb.models[verb.winner(answer)]
        address = id(request), best
        if address not in self._found:
            secrets = SharedSecrets(request.seed, request.round)
            self._found[address] = GroupSum(_training(self._fed, request, best), secrets)
        return self._found[address]


def _before_training(fed: Federation, request: Request) -> Request:
    """Return what a client does before it trains, with its keys."""
    before = [verb for verb in request.verbs if not _is_of_training(verb)]
    return fed.request(*before, Keys(), models=_needed(before, request), kind="keys")


def _training(fed: Federation, request: Request, best: str) -> Request:
    """Return the training of a request as a request of its own; of several models, with the best, if that is known."""
    verbs = [
        replace(verb, start=tuple(best if name == "best" else name for name in verb.start))
        if isinstance(verb, Train)
        else verb
        for verb in request.verbs
        if _is_of_training(verb)
    ]
    return fed.request(*verbs, models=_needed(verbs, request), kind=request.kind)


def _is_of_training(verb: Verb) -> bool:
    """Say whether a verb goes with the masked input: a training, or a choice that is not told."""
    return isinstance(verb, Train) or (isinstance(verb, Losses) and bool(verb.hidden))


def _needed(verbs: Sequence[Verb], request: Request) -> dict[str, Params]:
    """Return the models of a request that some verbs of it need."""
    names = {name for verb in verbs for name in (*verb.models_needed(), *verb.models_to_send())}
    return {name: model for name, model in request.models.items() if name in names}


def _in_the_name_of(client: ClientId, request: Request, heard: Sequence[Answer], answer: TrainReply) -> Reply:
    """Return a reply as the method expects it; of a training that sends nothing, nothing is known."""
    before = iter(heard)
    quiet = TrainReply(answer.samples, 0, 0.0)
    answers = [(answer if verb.send else quiet) if isinstance(verb, Train) else next(before) for verb in request.verbs]
    return Reply(client, request.round, tuple(answers))

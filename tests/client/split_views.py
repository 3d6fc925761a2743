"""Clients of a secure sum, and a server that tells each of them what it likes and makes the most of the answers."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from coterie.client import Client, LocalData, MemoryStore, Peers
from coterie.client.verbs.masked_train import summand
from coterie.messages import (
    Agree,
    AgreeReply,
    Failure,
    Keys,
    KeysReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    ModelSpec,
    Plan,
    Reply,
    Request,
    Schedule,
    Shares,
    SharesReply,
    Train,
    TrainReply,
    Unmask,
    UnmaskReply,
    Verb,
    wire,
)
from coterie.messages.verbs.shares import MESSAGE_BYTES
from coterie.models import initial
from coterie.secure import Words, neighbours, threshold, zeros
from coterie.secure.keys import SecretKey
from coterie.secure.protocol import _mask_key
from coterie.secure.shamir import combine
from coterie.secure.signatures import identity_of
from coterie.secure.words import add_mask
from coterie.training import choose_trainer

SPEC, PLAN, CONTEXT = ModelSpec("mclr", (4,), 3), Plan(Schedule(0.1)), "0 1"
MODEL = {"model": initial(SPEC, 0)}
SIZE = (6, 15)
"""Of the words that a client sends."""


def client(id: int, peers: Peers | None = None) -> Client:
    rng = np.random.default_rng(id)
    x, y = rng.normal(size=(20, 4)).astype(np.float32), np.arange(20) % 3
    data = LocalData(x, y, np.arange(12), x, y, np.arange(12, 20), 3, lambda raw: raw)
    return Client(id, {0: data}, MemoryStore(), choose_trainer("torch", SPEC, "cpu"), peers=peers)


def request(*verbs: Verb) -> Request:
    return Request(1, 0, SPEC, verbs, MODEL if any(isinstance(verb, Train) for verb in verbs) else {})


def masking(sharers: Sequence[int], minimum: int, heaviest: float = 12.0) -> Masking:
    return Masking(tuple(sharers), minimum, "samples", 10.0, heaviest, heaviest)


def summed(clients: Collection[int], agreed: Masking) -> list[int]:
    """Return what these clients add to a sum, without masks."""
    verb, total = MaskedTrain(PLAN, masking=agreed), zeros(*SIZE)
    for i in clients:
        reply = client(i).answer(request(Train(PLAN)))
        assert isinstance(reply, Reply)
        layout = verb.layout(request(verb), MODEL["model"], frozenset())
        total.add(summand(reply.answer(TrainReply), MODEL["model"], layout, agreed, PLAN))
    return total.narrow.tolist()


class Attack:
    """What such a server has got so far; the clients have identities, all known to all of them, or none."""

    def __init__(self, folder: Path, views: Mapping[int, Sequence[int]], signed: bool) -> None:
        """Let clients advertise keys and share secrets, each with those of whom it is told."""
        self.views, self.signed, secrets = views, signed, {i: bytes([i + 1]) * 32 for i in views}
        listed = frozenset(map(identity_of, secrets.values()))
        self.clients = {
            i: client(i, Peers("f", secrets[i], folder / f"{i}.json", listed) if signed else None) for i in views
        }
        self.near = {i: neighbours(view, 0, 1)[i] for i, view in views.items()}
        self.keys = {i: self.reply(i, Keys()).answer(KeysReply) for i in views}
        self.sent = {i: dict(zip(self.near[i], self._shared(i).messages, strict=True)) for i in views}
        self.inputs: dict[int, tuple[Masking, str, Words]] = {}
        self.given: dict[int, dict[int, bytes]] = {}
        self.told: dict[int, Collection[int]] = {}
        self.refused: list[str] = []

    def answer(self, i: int, *verbs: Verb) -> Reply | Failure:
        asked = wire.decode(wire.encode(request(*verbs)))
        assert isinstance(asked, Request)
        return self.clients[i].answer(asked)

    def reply(self, i: int, *verbs: Verb) -> Reply:
        answer = self.answer(i, *verbs)
        assert isinstance(answer, Reply), answer
        return answer

    def _shared(self, i: int) -> SharesReply:
        near = [self.keys[j] for j in self.near[i]]
        masks, shares = tuple(keys.mask for keys in near), tuple(keys.share for keys in near)
        signers, signatures = (tuple(getattr(k, name) or "" for k in near) for name in ("signer", "signature"))
        by = (signers, signatures) if any(signers) else (None, None)
        return self.reply(i, Shares(tuple(self.views[i]), masks, shares, False, *by)).answer(SharesReply)

    def train(self, i: int, agreed: Masking) -> None:
        verb = MaskedTrain(PLAN, masking=agreed)
        sent = self.reply(i, verb).answer(MaskedReply)
        self.inputs[i] = agreed, wire.question_of(request(verb)), Words(sent.wide, sent.narrow)

    def agree(self, i: int, survivors: Collection[int]) -> str:
        return self.reply(i, Agree(tuple(sorted(survivors)))).answer(AgreeReply).signature

    def unmask(self, survivors: Mapping[int, Collection[int]]) -> None:
        """Ask each client for its shares, telling it of these survivors; before that for its agreement."""
        self.told = {**survivors}
        signatures = {i: self.agree(i, told) for i, told in survivors.items()} if self.signed else {}
        for i, told in survivors.items():
            near = [j for j in self.near[i] if j in self.inputs[i][0].clients]
            messages = tuple(self.sent[j].get(i, "00" * MESSAGE_BYTES) for j in near)
            by = tuple(signatures.get(j, "") for j in near) if self.signed else None
            answer = self.answer(i, Unmask(tuple(sorted(told)), messages, by))
            if isinstance(answer, Failure):
                self.refused.append(answer.detail)
                continue
            shares = zip(sorted([i, *near]), answer.answer(UnmaskReply).shares, strict=True)
            self.given[i] = {j: bytes.fromhex(share) for j, share in shares if share}

    def secret(self, owner: int, survived: bool) -> bytes | None:
        """Restore a mask of a client, from those who were told that it survived, or its key, from the others."""
        holders = sorted(self.views[owner])
        found = {
            position: self.given[i][owner]
            for position, i in enumerate(holders)
            if owner in self.given.get(i, {}) and (owner in self.told[i]) == survived
        }
        least = threshold(len(holders))
        return combine(dict([*found.items()][:least])) if len(found) >= least else None

    def opened(self, clients: Collection[int]) -> list[int] | None:
        """Return the sum of what some clients sent, without masks; None if a secret can't be restored."""
        total = zeros(*SIZE)
        for i in clients:
            agreed, question, sent = self.inputs[i]
            total.add(sent)
            if (seed := self.secret(i, survived=True)) is None:
                return None
            add_mask(total, seed, -1)
            for j in self.near[i]:
                if j in clients or j not in agreed.clients:
                    continue
                if (key := self.secret(j, survived=False)) is None:
                    return None
                public = bytes.fromhex(self.keys[i].mask)
                common = _mask_key(SecretKey(key), public, f"{CONTEXT} {question}", i, j)
                add_mask(total, common, -1 if i < j else 1)
        return total.narrow.tolist()

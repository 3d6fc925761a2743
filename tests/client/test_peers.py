"""Keys of secure sums that sites sign: a server that puts others in their place is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from coterie.client import Client, LocalData, MemoryStore, Peers
from coterie.errors import CoterieError
from coterie.federation.shared_secrets import SharedSecrets
from coterie.messages import Failure, Keys, KeysReply, ModelSpec, Reply, Request, Shares, Verb, wire
from coterie.training import choose_trainer

SPEC, CLIENTS = ModelSpec("mclr", (4,), 3), (2, 5, 9)
NONE = np.zeros(0, int)
DATA = LocalData(np.zeros((0, 4), np.float32), NONE, NONE, np.zeros((0, 4), np.float32), NONE, NONE, 3, lambda raw: raw)


def secret(i: int) -> bytes:
    return bytes([i]) * 32


class Sites:
    """Three sites, each with an identity, and what they advertised in a round."""

    def __init__(self, folder: Path, federation: str = "f", listed: frozenset[str] = frozenset()) -> None:
        self.peers = {i: Peers(federation, secret(i), folder / str(i) / "peers.json", listed) for i in CLIENTS}
        self.stores = {i: MemoryStore() for i in CLIENTS}

    def ask(self, i: int, round: int, *verbs: Verb) -> Reply | Failure:
        trainer = choose_trainer("torch", SPEC, "cpu")
        asked = wire.decode(wire.encode(Request(round, 0, SPEC, verbs)))
        assert isinstance(asked, Request)
        return Client(i, {0: DATA}, self.stores[i], trainer, peers=self.peers[i]).answer(asked)

    def advertise(self, round: int = 1) -> SharedSecrets:
        secrets = SharedSecrets(0, round)
        for i in CLIENTS:
            reply = self.ask(i, round, Keys())
            assert isinstance(reply, Reply)
            secrets.keys[i] = reply.answer(KeysReply)
        return secrets

    def refusal(self, secrets: SharedSecrets, **changed: Any) -> str | None:
        """Say why client 5 does not share its secrets with these."""
        answer = self.ask(5, secrets.round, replace(secrets.question(5), **changed))
        return answer.detail if isinstance(answer, Failure) else None


@pytest.mark.integration
def test_keys_in_place_of_anothers_are_refused(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    honest, server = sites.advertise(2), Sites(tmp_path / "server").advertise(2)
    for keys, why in (
        (replace(honest.keys[9], mask=server.keys[9].mask), "client 9 are not signed for this sum"),
        (replace(honest.keys[9], share=server.keys[9].share), "client 9 are not signed for this sum"),
        (honest.keys[2], "not those of this client's neighbours"),  # twice
        (server.keys[2], "not signed"),  # of another client
        (replace(honest.keys[9], signature="00" * 64), "not signed"),
        (Sites(tmp_path, "g").advertise(2).keys[9], "not signed"),  # in another federation
        (replace(honest.keys[9], signer=honest.keys[2].signer), "not signed"),
    ):
        assert why in str(sites.refusal(replace(honest, keys={**honest.keys, 9: keys}))), why
    assert "are none" in str(sites.refusal(honest, signers=None, signatures=None))
    assert not (tmp_path / "5" / "peers.json").exists()  # nothing of what was refused is kept
    assert sites.refusal(honest) is None


@pytest.mark.integration
def test_the_keys_of_an_earlier_round_are_refused(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    old = sites.advertise(1)
    new = sites.advertise(2)
    assert "not signed for this sum" in str(sites.refusal(replace(new, keys={**new.keys, 2: old.keys[2]})))


@pytest.mark.integration
def test_the_first_identity_of_a_client_is_the_only_one(tmp_path: Path) -> None:
    """Later nobody else comes under its number, and it under no other."""
    sites = Sites(tmp_path)
    assert sites.refusal(sites.advertise(1)) is None
    sites.peers[9] = replace(sites.peers[9], secret=secret(77))
    assert "client 9 are signed by another than before" in str(sites.refusal(sites.advertise(2)))
    sites.peers[9] = replace(sites.peers[9], secret=secret(2))
    fresh = Sites(tmp_path / "fresh")
    fresh.peers[9] = replace(fresh.peers[9], secret=secret(2))
    assert "client 9 are signed by one who is another client" in str(fresh.refusal(fresh.advertise(1)))
    fresh.peers[9] = replace(fresh.peers[9], secret=secret(5))
    assert "one who is another client" in str(fresh.refusal(fresh.advertise(2)))


@pytest.mark.integration
def test_only_listed_identities_are_taken(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    identities = {i: sites.peers[i].identity for i in CLIENTS}
    for listed, why in (([2, 9], None), ([2], f"client 9 are signed by {identities[9]}, which is not among peers")):
        chosen = Sites(tmp_path / str(listed), listed=frozenset(identities[i] for i in listed))
        told = chosen.refusal(chosen.advertise())
        assert told is None if why is None else why in str(told)
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "peers.json").write_text("[1]")
    with pytest.raises(CoterieError, match="is damaged"):
        sites.refusal(sites.advertise())


def test_without_identities_nothing_is_signed() -> None:
    """As in simulations: the bytes are those without signatures."""
    trainer = choose_trainer("torch", SPEC, "cpu")
    reply = Client(5, {0: DATA}, MemoryStore(), trainer).answer(Request(1, 0, SPEC, (Keys(),)))
    assert isinstance(reply, Reply)
    assert b"sign" not in wire.encode(reply)
    question = SharedSecrets(0, 1, dict.fromkeys(CLIENTS, reply.answer(KeysReply))).question(5)
    assert (question.signers, question.signatures) == (None, None)
    assert isinstance(question, Shares)

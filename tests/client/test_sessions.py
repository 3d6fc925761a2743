"""A client's part in a secure sum: each step answered once, the same again, and never so that both shares are out."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from coterie.client import Client, DiskStore, LocalData, MemoryStore, PrivacyTerms, Store, sessions
from coterie.client.releases import NO_TERMS
from coterie.client.sessions import OVER, SecureSession
from coterie.messages import (
    Evaluate,
    Failure,
    Keys,
    KeysReply,
    Losses,
    LossesReply,
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
    Unmask,
    UnmaskReply,
    Verb,
    wire,
)
from coterie.models import initial
from coterie.privacy import PrivacyLimit
from coterie.secure import neighbours
from coterie.training import choose_trainer

SPEC, CLIENTS = ModelSpec("mclr", (4,), 3), (2, 5, 9, 11)
MODEL = {"model": initial(SPEC, 0)}


def client(id: int, store: Store, shift: float = 0.0, terms: PrivacyTerms = NO_TERMS) -> Client:
    rng = np.random.default_rng(id)
    x, y = (rng.normal(size=(20, 4)) + shift).astype(np.float32), np.arange(20) % 3
    data = LocalData(x, y, np.arange(12), x, y, np.arange(12, 20), 3, lambda raw: raw)
    return Client(id, {0: data}, store, choose_trainer("torch", SPEC, "cpu"), terms=terms)


def request(*verbs: Verb, round: int = 1) -> Request:
    training = any(isinstance(verb, Train) for verb in verbs)
    return Request(round, 0, SPEC, verbs, MODEL if training else {})


def masking(clients: tuple[int, ...] = CLIENTS, minimum: int = 3) -> Masking:
    return Masking(clients, minimum, "samples", 10.0, 20.0, 20.0)


def trained(**changed: object) -> Request:
    return request(MaskedTrain(Plan(Schedule(0.1)), masking=replace(masking(), **changed)))


def reason(answer: Reply | Failure) -> str:
    assert isinstance(answer, Failure), answer
    assert answer.kind == "withheld"
    return answer.detail


class Sum:
    """Four clients that have advertised keys and shared secrets, in stores of their own."""

    def __init__(self, stores: dict[int, Store]) -> None:
        self.clients = {i: client(i, stores[i]) for i in CLIENTS}
        self.graph = neighbours(CLIENTS, 0, 1)
        keys = {i: self.reply(i, request(Keys())).answer(KeysReply) for i in CLIENTS}
        self.shares = {}
        for i in CLIENTS:
            near = [keys[j] for j in self.graph[i]]
            self.shares[i] = request(Shares(CLIENTS, tuple(k.mask for k in near), tuple(k.share for k in near)))
        self.messages = {i: self.reply(i, self.shares[i]).answer(SharesReply).messages for i in CLIENTS}

    def reply(self, i: int, asked: Request) -> Reply:
        answer = self.clients[i].answer(wire.decode(wire.encode(asked)))  # type: ignore[arg-type]
        assert isinstance(answer, Reply), answer
        return answer

    def unmask(self, i: int, survivors: tuple[int, ...], sharers: tuple[int, ...] = CLIENTS) -> Request:
        near = [j for j in self.graph[i] if j in sharers]
        return request(Unmask(survivors, tuple(self.messages[j][self.graph[j].index(i)] for j in near)))


@pytest.fixture(params=["memory", "disk"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[int, Store]:
    disk = request.param == "disk"
    return {i: DiskStore(tmp_path / str(i)) if disk else MemoryStore() for i in CLIENTS}


@pytest.mark.integration
def test_a_step_asked_again_is_answered_with_the_same_bytes_even_on_other_data(stores: dict[int, Store]) -> None:
    """Also by another process, after a kill; and its own model is as after the first time."""
    sums = Sum(stores)
    asked = [request(Keys()), sums.shares[5], trained(), sums.unmask(5, CLIENTS)]
    first = [wire.encode(sums.reply(5, each)) for each in asked]
    changed = client(5, stores[5], shift=3.0)
    assert [wire.encode(changed.answer(each)) for each in asked] == first
    assert stores[5].load(5, before=2)["model"].keys() == MODEL["model"].keys()


@pytest.mark.integration
def test_a_step_with_other_inputs_is_refused(stores: dict[int, Store]) -> None:
    sums, five = Sum(stores), client(5, stores[5])
    verb = sums.shares[5].verbs[0]
    assert isinstance(verb, Shares)
    other = request(replace(verb, masks=verb.shares, shares=verb.masks))
    sums.reply(5, trained())
    assert "other inputs" in reason(five.answer(other))
    assert "other inputs" in reason(five.answer(trained(clients=(2, 5, 9))))
    sums.reply(5, sums.unmask(5, CLIENTS))
    for survivors in ((2, 5, 9), (5, 9, 11)):  # which would give the key of one whose mask is out, or of another
        assert "other inputs" in reason(five.answer(sums.unmask(5, survivors)))


@pytest.mark.integration
def test_of_two_questions_at_the_same_time_one_is_answered(stores: dict[int, Store]) -> None:
    """Two processes of a site have seen that a step is not answered yet; both would open its input."""
    sums = Sum(stores)

    def at_once(*asked: Request) -> list[Reply | Failure]:
        """Let all of them look at the session before the first is answered."""
        begun = [client(5, stores[5]).answering(each) for each in asked]
        real, opening = sessions.opened, []
        for each in asked:
            opening.append(real(stores[5].sessions, 5, each))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("coterie.client.client.opened", lambda *_: opening.pop(0))
            return [finished(work) for work in begun]

    first, second = at_once(trained(), trained(clip=1.0))
    assert isinstance(first, Reply)
    assert "other inputs" in reason(second)
    keys = request(*sums.unmask(5, CLIENTS).verbs), request(*sums.unmask(5, (2, 5, 9)).verbs)
    first, second = at_once(*keys)
    assert isinstance(first, Reply)
    assert "other inputs" in reason(second)
    again = at_once(request(Keys(), round=2), request(Keys(), round=2))
    assert wire.encode(again[0]) == wire.encode(again[1])  # the same question has one answer


def finished(work: Generator[Any, Any, Reply | Failure]) -> Reply | Failure:
    """Let a client train, and return what it answers."""
    trainer, outcome = choose_trainer("torch", SPEC, "cpu"), None
    while True:
        try:
            job = work.send(outcome)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        outcome = trainer.train(job)


@pytest.mark.integration
def test_a_choice_is_hidden_in_slots_of_the_models_and_with_equal_weights_only() -> None:
    models = {f"model{k}": initial(SPEC, 0, k) for k in range(2)}

    def asked(slots: tuple[str, ...], weighing: str = "equal", compare: bool = True) -> Request:
        agreed = Masking(CLIENTS, 3, weighing, 10.0, 1.0, 1.0, slots=slots)  # type: ignore[arg-type]
        verb = MaskedTrain(Plan(Schedule(0.1)), start=("best",) if compare else ("model0",), masking=agreed)
        first = (Losses(("model0", "model1"), hidden=True),) if compare else ()
        return Request(1, 0, SPEC, (*first, verb), models)

    sums = Sum(dict.fromkeys(CLIENTS, MemoryStore()))
    five = sums.clients[5]
    for wrong in (asked(("other",)), asked(("model0", "model1", "model0")), asked(("model0", "model1"), compare=False)):
        assert "slots that are not those" in reason(five.answer(wrong))
    assert "all count alike" in reason(five.answer(asked(("model0", "model1"), "samples")))
    reply = sums.reply(5, asked(("model0", "model1")))
    assert reply.answers[0] == LossesReply(0, (), (), ())


@pytest.mark.integration
def test_after_the_last_step_no_secret_is_left(tmp_path: Path) -> None:
    stores: dict[int, Store] = {i: DiskStore(tmp_path / str(i)) for i in CLIENTS}
    sums = Sum(stores)
    path = tmp_path / "5" / "5" / "1.session"
    assert path.stat().st_mode & 0o077 == 0
    assert b"secrets" in path.read_bytes()
    sums.reply(5, trained())
    given = sums.reply(5, sums.unmask(5, CLIENTS)).answer(UnmaskReply).shares
    assert [len(share) for share in given] == [66] * 4
    assert b"secrets" not in path.read_bytes()
    sums.clients[9].answer(request(Train(Plan(Schedule(0.1))), round=2))  # who dropped out, in the next round
    assert (tmp_path / "9" / "9" / "1.session").read_bytes() == OVER
    assert "is over" in reason(sums.clients[9].answer(trained()))
    assert "is over" in reason(sums.clients[9].answer(request(Keys())))
    sums.reply(9, request(Keys(), round=3))
    assert [file.name for file in (tmp_path / "9" / "9").glob("*.session")] == ["3.session"]


@pytest.mark.integration
def test_what_a_killed_process_left_of_a_session_goes_with_the_next(tmp_path: Path) -> None:
    """It has secrets, and no answer was sent for it."""
    store, path = DiskStore(tmp_path), tmp_path / "5" / "1.session"
    left = path.with_name("1.session.part")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.files.DISK.rename", killed)
        with pytest.raises(KeyboardInterrupt):
            client(5, store).answer(request(Keys()))
    assert b"secrets" in left.read_bytes()
    assert not path.exists()
    assert isinstance(client(5, store).answer(request(Keys(), round=2)), Reply)
    assert [file.name for file in (tmp_path / "5").glob("*.session*")] == ["2.session"]


@pytest.mark.integration
def test_who_was_not_asked_for_the_last_step_keeps_no_secret_beyond_the_evaluation(stores: dict[int, Store]) -> None:
    """After the last round there is none that would end it. What it answered is answered again."""
    sums, five = Sum(stores), client(5, stores[5])
    first = wire.encode(sums.reply(5, trained()))
    assert b"secrets" in stores[5].sessions.load(5)
    measured = replace(request(Evaluate()), models=MODEL, kind="evaluate")
    assert isinstance(five.answer(measured), Reply)
    assert b"secrets" not in stores[5].sessions.load(5)
    assert wire.encode(five.answer(trained())) == first
    assert "is summed once" in reason(five.answer(sums.unmask(5, CLIENTS)))


def ahead(sums: Sum, i: int, keys: dict[int, KeysReply]) -> Request:
    near = [keys[j] for j in sums.graph[i]]
    shares = Shares(CLIENTS, tuple(k.mask for k in near), tuple(k.share for k in near), ahead=True)
    return request(*sums.unmask(i, CLIENTS).verbs, shares)


@pytest.mark.integration
def test_the_next_round_begins_where_this_one_ends(stores: dict[int, Store]) -> None:
    """Keys come with the input, shares with the last step; of what was for this round, no secret is left then."""
    sums, five = Sum(stores), client(5, stores[5])
    inputs = request(*trained().verbs, Keys(ahead=True))
    keys = {i: sums.reply(i, inputs).answer(KeysReply) for i in CLIENTS}
    assert isinstance(five.answer(inputs), Reply)  # the same again, by another process
    first = {i: sums.reply(i, ahead(sums, i, keys)) for i in CLIENTS}
    assert wire.encode(client(5, stores[5], shift=3.0).answer(ahead(sums, 5, keys))) == wire.encode(first[5])
    session = SecureSession.unpack(1, stores[5].sessions.load(5))
    assert session.me is None
    assert session.ahead is not None
    assert session.ahead.secrets.mask_key not in (b"", session.ahead.secrets.share_key)
    assert "other inputs" in reason(five.answer(sums.unmask(5, CLIENTS)))
    again = replace(trained(), round=2)
    masked = {i: sums.reply(i, again) for i in CLIENTS}
    assert wire.encode(client(5, stores[5], shift=3.0).answer(again)) == wire.encode(masked[5])
    messages = {i: first[i].answer(SharesReply).messages for i in CLIENTS}
    last = Unmask(CLIENTS, tuple(messages[j][sums.graph[j].index(5)] for j in sums.graph[5]))
    assert len(sums.reply(5, request(last, round=2)).answer(UnmaskReply).shares) == 4
    assert "no keys are made anew" in reason(five.answer(request(Keys(), round=2)))
    assert "is over" in reason(five.answer(trained()))


@pytest.mark.integration
def test_before_its_input_is_sent_a_client_begins_anew_and_not_after(stores: dict[int, Store]) -> None:
    sums, five = Sum(stores), client(5, stores[5])
    keys = {i: sums.reply(i, request(*trained().verbs, Keys(ahead=True))).answer(KeysReply) for i in CLIENTS}
    sums.reply(5, ahead(sums, 5, keys))
    old = SecureSession.unpack(1, stores[5].sessions.load(5)).ahead
    assert old is not None
    near = [keys[j] for j in sums.graph[5]]
    other = Shares(CLIENTS, tuple(k.mask for k in near), tuple(k.share for k in near))
    assert "this is done once" in reason(five.answer(request(other, round=2)))
    sums.reply(5, request(Keys(), round=2))
    new = SecureSession.unpack(2, stores[5].sessions.load(5))
    assert new.secrets.mask_key != old.secrets.mask_key
    assert new.clients == ()
    assert old.secrets.mask_key.hex().encode() not in stores[5].sessions.load(5)
    sums.reply(5, request(other, round=2))
    sums.reply(5, replace(trained(), round=2))
    assert "other inputs" in reason(five.answer(request(Keys(), Losses(("own",)), round=2)))


@pytest.mark.integration
def test_steps_ahead_go_with_certain_steps_only() -> None:
    sums = Sum(dict.fromkeys(CLIENTS, MemoryStore()))
    shares = replace(sums.shares[5].verbs[0], ahead=True)  # type: ignore[type-var]
    for asked in (
        request(Keys(ahead=True)),
        request(shares),
        request(*trained().verbs, shares),
        request(*trained().verbs, Keys(ahead=True), Keys(ahead=True)),
        request(*sums.unmask(5, CLIENTS).verbs, Keys(ahead=True)),
    ):
        assert "Keys go with MaskedTrain" in reason(sums.clients[5].answer(asked))
    sums.reply(5, trained())
    unasked = request(*sums.unmask(5, CLIENTS).verbs, shares)
    assert "no keys" in reason(sums.clients[5].answer(unasked))


@pytest.mark.integration
def test_what_a_client_takes_no_part_in() -> None:
    sums = Sum(dict.fromkeys(CLIENTS, MemoryStore()))
    five = sums.clients[5]
    new = client(5, MemoryStore())
    assert "has no keys" in reason(new.answer(trained()))
    assert "one step" in reason(new.answer(request(Keys(), Unmask((5,), ()))))
    twice = MaskedTrain(Plan(Schedule(0.1)), masking=masking())
    assert "one step" in reason(five.answer(request(twice, twice)))
    for changed, why in (
        ({"clients": (2, 9, 11)}, "is among them"),
        ({"clients": (*CLIENTS, 12)}, "has advertised keys"),
        ({"clients": (2, 5)}, "too few of this client's neighbours"),
        ({"clients": (*CLIENTS, 11)}, "names a client twice"),
        ({"minimum": 2}, "it takes 3"),
        ({"minimum": 5}, "it takes 3"),
        ({"clip": float("inf")}, "without limits"),
        ({"heaviest": 0.0}, "without limits"),
        ({"clip_control": float("nan")}, "without limits"),
    ):
        assert why in reason(five.answer(trained(**changed))), changed
    sums.reply(5, trained())
    for survivors, why in (
        ((2, 9, 11), "is among them"),
        ((2, 5, 9, 12), "shared secrets"),
        ((2, 5), "2 survivors"),
    ):
        assert why in reason(five.answer(sums.unmask(5, survivors))), survivors
    fewer = request(Unmask(CLIENTS, sums.unmask(5, CLIENTS).verbs[0].messages[:2]))  # type: ignore[attr-defined]
    assert "2 messages of 3 neighbours" in reason(five.answer(fewer))
    sums.reply(5, sums.unmask(5, (2, 5, 9)))  # nothing of what was refused counts as answered


@pytest.mark.integration
def test_a_masked_training_that_diverges_does_not_say_when() -> None:
    """At which step and loss depends on the samples."""
    five = Sum(dict.fromkeys(CLIENTS, MemoryStore())).clients[5]
    plan = Plan(Schedule(1e30), epochs=5)
    for verb, told in ((Train(plan), True), (MaskedTrain(plan, masking=masking()), False)):
        answer = five.answer(request(verb))
        assert isinstance(answer, Failure)
        assert (answer.kind, bool(answer.detail)) == ("diverged", told)


@pytest.mark.integration
@pytest.mark.parametrize("unprotected", [[], ["train"], ["maskedtrain"], ["evaluate"]])
def test_with_a_privacy_limit_only_masked_training_needs_permission(unprotected: list[str]) -> None:
    """All other steps depend on no sample. Whoever tells what it trained also adds it to a sum, and not vice versa."""
    sums = Sum(dict.fromkeys(CLIENTS, store := MemoryStore()))
    terms = PrivacyTerms(PrivacyLimit(1.0, 1e-5), frozenset(unprotected))
    five = sums.clients[5] = client(5, store, terms=terms)
    assert isinstance(five.answer(request(Keys(), round=2)), Reply)
    plain = five.answer(request(Train(Plan(Schedule(0.1))), round=2))
    assert isinstance(plain, Reply) == ("train" in unprotected)
    sums = Sum(dict.fromkeys(CLIENTS, store := MemoryStore()))
    five = client(5, store, terms=terms)
    if "train" in unprotected or "maskedtrain" in unprotected:
        assert isinstance(five.answer(trained()), Reply)
        assert isinstance(five.answer(sums.unmask(5, CLIENTS)), Reply)
    else:
        assert "maskedtrain is answered without noise" in reason(five.answer(trained()))


@pytest.mark.integration
def test_keys_that_are_not_the_neighbours_are_refused() -> None:
    store = MemoryStore()
    five = client(5, store)
    keys = [client(i, MemoryStore()).answer(request(Keys())) for i in (2, 9, 11)]
    mine = five.answer(request(Keys()))
    assert isinstance(mine, Reply)
    told = [reply.answer(KeysReply) for reply in keys if isinstance(reply, Reply)]
    masks, shares = tuple(k.mask for k in told), tuple(k.share for k in told)
    for clients, given in (((2, 9, 11), masks), ((2, 5), masks[:1]), ((2, 5, 9, 9), masks)):
        assert "it takes 3" in reason(five.answer(request(Shares(clients, given, given))))
    assert "neighbours" in reason(five.answer(request(Shares(CLIENTS, masks[:2], shares[:2]))))
    assert "neighbours" in reason(five.answer(request(Shares(CLIENTS, (masks[0],) * 3, (shares[0],) * 3))))
    for no_key in ("xy", "00", "00" * 32):  # no digits, too few, the point that leads to a known secret
        assert "are none" in reason(five.answer(request(Shares(CLIENTS, (no_key, *masks[1:]), shares))))

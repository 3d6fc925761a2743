"""Training whose update is hidden as a whole: what a client tells and keeps, what it charges, and the same again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from client_world import ID, SEED, SPEC, equal, local_data

from coterie.client import Client, LocalData, MemoryStore, PrivacyTerms, Protection, Store
from coterie.messages import Failure, Plan, PrivateSteps, Reply, Request, Schedule, Train, TrainReply, UpdateNoise, wire
from coterie.messages.limits import Limits
from coterie.messages.plan import error_in_plan
from coterie.models import initial
from coterie.privacy import PrivacyLimit, Release, ReleaseLedger, spent
from coterie.training.torch_trainer import TorchTrainer

PLAIN = Plan(Schedule(0.3), epochs=2, batch_size=7)
PLAN = replace(PLAIN, hidden=UpdateNoise(clip=0.5, noise=2.0))
START = initial(SPEC, 0)


def ask(
    verb: Train,
    terms: PrivacyTerms = PrivacyTerms(),  # noqa: B008  # it is frozen
    data: LocalData | None = None,
    round: int = 1,
    store: Store | None = None,
) -> Reply | Failure:
    """Ask a client as after a restart."""
    protection = Protection(min_samples=20, min_label_samples=20)
    client = Client(ID, {0: data or local_data()}, store or MemoryStore(), TorchTrainer(), protection, terms)
    return client.answer(Request(round, SEED, SPEC, (verb,), {"model": START}))


def told(answer: Reply | Failure) -> TrainReply:
    assert isinstance(answer, Reply), answer
    return answer.answer(TrainReply)


def of_samples(count: int) -> LocalData:
    data = local_data()
    return replace(data, train=data.train[:count])


def test_what_is_sent_is_of_one_size_cut_and_noised_and_what_is_kept_is_not() -> None:
    """Whatever the number of samples, also of few; nothing else is told."""
    replies = [ask(Train(PLAN), data=of_samples(n)) for n in (1, 5, 30)]
    assert {(told(r).samples, told(r).steps, told(r).loss) for r in replies} == {(1, 2, 0.0)}
    assert len({len(wire.pack(reply)) for reply in replies}) == 1
    request = Request(1, SEED, SPEC, (Train(PLAN),), {"model": START})
    assert all(Train(PLAN).error_in(told(r), request, Limits(START, samples=30)) is None for r in replies)
    own, plain = MemoryStore(), MemoryStore()
    still = replace(PLAN, hidden=UpdateNoise(0.01, 1e-7))
    sent, whole = told(ask(Train(still), store=own)), told(ask(Train(PLAIN), store=plain))
    assert equal(own.load(ID, before=2)["model"], plain.load(ID, before=2)["model"])
    moves = [np.concatenate([(r.params[n] - START[n]).ravel() for n in START]) for r in (sent, whole)]
    assert np.linalg.norm(moves[0]) == np.float32(0.01) or abs(np.linalg.norm(moves[0]) - 0.01) < 1e-5
    assert moves[0] @ moves[1] / np.linalg.norm(moves[0]) / np.linalg.norm(moves[1]) > 0.999


def test_a_training_that_diverged_sends_noise_like_any_other() -> None:
    wild = replace(PLAN, lr=Schedule(1e38), weight_decay=1e30)
    reply, store = told(ask(Train(wild), store=(kept := MemoryStore()))), kept
    assert all(np.isfinite(value).all() for value in reply.params.values())
    assert equal(store.load(ID, before=2)["model"], START)


def test_an_update_of_a_clients_own_model_is_not_told() -> None:
    """What is hidden is the change; the model that it begins with would be told as it is."""
    store = MemoryStore()
    told(ask(Train(PLAN), store=store))
    for start in (("own",), ("model", "own")):
        answer = ask(Train(PLAN, start=start), store=store, round=2)
        assert isinstance(answer, Failure)
        assert "the client's own model" in answer.detail
    protection = Protection(min_samples=0)
    client = Client(ID, {0: local_data()}, store, TorchTrainer(), protection)
    named = Request(2, SEED, SPEC, (Train(PLAN, start=("own",)),), {"own": START})  # a server's name for its model
    assert isinstance(client.answer(named), Failure)


def test_the_same_request_gets_the_same_bytes_and_the_limit_is_kept(tmp_path: Path) -> None:
    """Across restarts, and after samples have changed; it is charged as one Gaussian release."""
    release = Release("training", 2.0)
    most = spent({release: 2}, 9.0, 1e-5, "gaussian")
    for simulated in (False, True):
        terms = PrivacyTerms(PrivacyLimit(most, 1e-5), ledgers=tmp_path / str(simulated), simulated=simulated)
        first = ask(Train(PLAN), terms)
        assert wire.pack(ask(Train(PLAN), terms, of_samples(9))) == wire.pack(first)
        assert wire.pack(ask(Train(PLAN), terms, round=2)) != wire.pack(first)
        for _ in range(2):
            refused = ask(Train(PLAN), terms, round=3)
            assert isinstance(refused, Failure)
            assert refused.kind == "withheld"
    assert ReleaseLedger(tmp_path / "False", PrivacyLimit(most, 1e-5)).spent().epsilon == most


def test_what_is_not_sent_costs_nothing_and_tells_nothing(tmp_path: Path) -> None:
    terms = PrivacyTerms(PrivacyLimit(0.1, 1e-5), ledgers=tmp_path / "ledger", simulated=False)
    assert Train(PLAN, send=False).is_noised()
    assert told(ask(Train(PLAN, send=False), terms)) == TrainReply(1, 2, 0.0)
    assert not (tmp_path / "ledger").exists()


def test_plans_that_would_hide_nothing_are_refused() -> None:
    assert error_in_plan(PLAN) is None
    private = PrivateSteps(1.0, 1.0, 0.1)
    assert "leave hidden out" in str(error_in_plan(replace(PLAN, steps=3, private=private)))
    assert "correction" in str(error_in_plan(replace(PLAN, correction="c")))
    assert "greater than 0" in str(error_in_plan(replace(PLAN, hidden=UpdateNoise(1.0, 0.0))))

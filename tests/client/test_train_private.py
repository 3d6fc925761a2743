"""Training by private steps at a client: what it tells, what it charges, what it refuses, and the same again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from client_world import ID, SEED, SPEC, Recording, equal, local_data
from scipy.stats import kstest

from coterie.client import Client, LocalData, MemoryStore, PrivacyTerms, Protection, Store
from coterie.messages import (
    Failure,
    Losses,
    Params,
    Plan,
    PrivateSteps,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
    UpdateNoise,
    Verb,
    wire,
)
from coterie.models import initial
from coterie.privacy import PrivacyLimit, Release, ReleaseLedger, spent
from coterie.training.torch_trainer import TorchTrainer

COINS = PrivateSteps(clip=0.5, noise=1.5, rate=0.2)
PLAN = Plan(Schedule(0.3), steps=4, batch_size=7, private=COINS)
ONE_STEP = replace(PLAN, lr=Schedule(1.0), steps=1, batch_size=1, private=replace(COINS, rate=1.0))
START = initial(SPEC, 0)


def at_site(folder: Path, limit: float | None = None, by: str = "renyi") -> PrivacyTerms:
    most = None if limit is None else PrivacyLimit(limit, 1e-5, by)  # type: ignore[arg-type]
    return PrivacyTerms(most, ledgers=folder, simulated=False)


def ask(
    *verbs: Verb,
    terms: PrivacyTerms = PrivacyTerms(),  # noqa: B008  # it is frozen
    data: LocalData | None = None,
    round: int = 1,
    store: Store | None = None,
    model: Params = START,
    id: int = ID,
    protection: Protection = Protection(),  # noqa: B008
    trainer: TorchTrainer | None = None,
) -> Reply | Failure:
    """Ask a client as after a restart."""
    asked = Client(id, {0: data or local_data()}, store or MemoryStore(), trainer or TorchTrainer(), protection, terms)
    return asked.answer(Request(round, SEED, SPEC, verbs, {"model": model}))


def trained(answer: Reply | Failure) -> TrainReply:
    assert isinstance(answer, Reply), answer
    return answer.answer(TrainReply)


def flat(params: Params) -> np.ndarray:
    return np.concatenate([params[name].ravel() for name in START])


def of_samples(count: int) -> LocalData:
    data = local_data()
    return replace(data, train=data.train[:count])


def test_a_reply_is_of_one_size_and_tells_no_number_of_samples() -> None:
    """Also of a client with none, and where others with as few would not answer."""
    replies = [
        ask(Train(PLAN), data=of_samples(n), protection=Protection(min_samples=20, min_label_samples=20))
        for n in (0, 1, 5, 30)
    ]
    told = [trained(reply) for reply in replies]
    assert [(one.samples, one.steps, one.loss, one.control) for one in told] == [(1, 4, 0.0, {})] * 4
    assert len({len(wire.pack(reply)) for reply in replies}) == 1
    assert len({flat(one.params).tobytes() for one in told}) == 4
    request = Request(1, SEED, SPEC, (Train(PLAN),), {"model": START})
    from coterie.messages.limits import Limits

    assert all(Train(PLAN).error_in(one, request, Limits(START, samples=1)) is None for one in told)


def test_the_noise_in_an_update_has_the_stated_variance() -> None:
    """A client without samples sends noise alone: z C in each number, of one step at rate 1 that is divided by 1."""
    none = of_samples(0)
    moved = np.concatenate(
        [flat(trained(ask(Train(ONE_STEP), data=none, id=k)).params) - flat(START) for k in range(60)]
    )
    assert kstest(moved / (1.5 * 0.5), "norm").pvalue > 0.001
    drawn = replace(none, drawn_tests=True)  # one sample more may put another in its place
    more = np.concatenate(
        [flat(trained(ask(Train(ONE_STEP), data=drawn, id=k)).params) - flat(START) for k in range(60)]
    )
    assert kstest(more / (2 * 1.5 * 0.5), "norm").pvalue > 0.001


def test_neighbours_differ_by_the_clip_beside_the_noise() -> None:
    """Of hardly any noise, one sample moves what is sent by at most C, and some do by C."""
    plan, data = replace(ONE_STEP, private=PrivateSteps(0.5, 1e-7, 1.0)), local_data()
    without = [replace(data, train=np.delete(data.train, left)) for left in range(30)]
    everyone, *others = (flat(trained(ask(Train(plan), data=part)).params) for part in (data, *without))
    moved = [np.linalg.norm(other - everyone) for other in others]
    assert max(moved) <= 0.5 * (1 + 1e-4)
    assert max(moved) > 0.49


def test_it_is_charged_what_it_costs_and_refused_beyond_the_limit_across_restarts(tmp_path: Path) -> None:
    release = Release("training", 1.5, 4, 0.2)
    limit = next(
        most
        for most in np.arange(1.0, 9.0, 0.05).tolist()
        if spent({release: 2}, most, 1e-5, "renyi") <= most < spent({release: 3}, most, 1e-5, "renyi")
    )
    for simulated in (False, True):
        terms = replace(at_site(tmp_path / str(simulated), limit), simulated=simulated)
        assert all(isinstance(ask(Train(PLAN), terms=terms, round=t), Reply) for t in (1, 2))
        for _ in range(2):
            refused = ask(Train(PLAN), terms=terms, round=3)
            assert isinstance(refused, Failure)
            assert (refused.kind, "'training' would bring" in refused.detail) == ("withheld", True)
    ledger = ReleaseLedger(tmp_path / "False", PrivacyLimit(limit, 1e-5, "renyi"))
    assert ledger.spent().epsilon == spent({release: 2}, limit, 1e-5, "renyi")
    weak = replace(PLAN, private=replace(COINS, noise=0.01))  # it is the client that says what it costs
    assert isinstance(ask(Train(weak), terms=at_site(tmp_path / "new", limit)), Failure)


def test_shuffled_epochs_are_charged_as_gaussian_releases(tmp_path: Path) -> None:
    shuffled = replace(PLAN, steps=5, private=replace(COINS, shuffled=True))  # 5 steps are an epoch
    terms = at_site(tmp_path, 3.5, "gaussian")
    assert isinstance(ask(Train(shuffled), terms=terms), Reply)
    assert ReleaseLedger(tmp_path, terms.limit).spent().epsilon == pytest.approx(
        spent({Release("training", 1.5): 1}, 3.5, 1e-5, "gaussian")
    )
    refused = ask(Train(PLAN), terms=terms, round=2)
    assert isinstance(refused, Failure)
    assert refused.kind == "withheld"
    assert "by=renyi" in refused.detail


@pytest.mark.parametrize("where", ["site", "simulation with a limit", "simulation"])
def test_the_same_request_gets_the_same_model_and_leaves_the_same_state(tmp_path: Path, where: str) -> None:
    """Also where only a part of it was sent, and samples have changed since; but for a simulation without a ledger."""
    terms = {
        "site": at_site(tmp_path),
        "simulation with a limit": replace(at_site(tmp_path, 50.0), simulated=True),
        "simulation": PrivacyTerms(),
    }[where]
    other = local_data() if where == "simulation" else of_samples(3)
    verb = Train(PLAN, send=("fc.bias",))
    stores = MemoryStore(), MemoryStore()
    first, again = (ask(verb, terms=terms, store=s, data=d) for s, d in zip(stores, (local_data(), other), strict=True))
    assert wire.pack(first) == wire.pack(again)
    own, kept = (store.load(ID, before=2)["model"] for store in stores)
    assert equal(own, kept)
    assert np.array_equal(own["fc.bias"], trained(first).params["fc.bias"])
    assert trained(first).params.keys() == {"fc.bias"}
    assert wire.pack(ask(verb, terms=terms, round=2)) != wire.pack(first)
    moved = ask(verb, terms=terms, model={name: value + 1 for name, value in START.items()})
    assert wire.pack(moved) != wire.pack(first)  # another question


def test_noise_comes_from_a_secret(tmp_path: Path) -> None:
    told = [flat(trained(ask(Train(PLAN), terms=terms)).params) for terms in (at_site(tmp_path / "a"), PrivacyTerms())]
    told.append(flat(trained(ask(Train(PLAN), terms=at_site(tmp_path / "b"))).params))
    assert not any(np.allclose(told[i], told[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_only_the_last_results_are_kept(tmp_path: Path) -> None:
    terms = at_site(tmp_path)
    answers = {t: ask(Train(PLAN), terms=terms, round=t) for t in range(1, 7)}
    assert len([*(tmp_path / "answers").iterdir()]) == 4
    assert wire.pack(ask(Train(PLAN), terms=terms, round=6)) == wire.pack(answers[6])
    gone = ask(Train(PLAN), terms=terms, round=1)
    assert isinstance(gone, Failure)
    assert "no longer kept" in gone.detail


def test_that_a_training_diverged_is_kept_too(tmp_path: Path) -> None:
    """Else it would be told of one draw of noise, and the result of another, at the cost of one."""
    terms, wild = at_site(tmp_path), replace(PLAN, lr=Schedule(1e38), weight_decay=1e30)
    first = ask(Train(wild), terms=terms)
    assert isinstance(first, Failure)
    assert first.kind == "diverged"
    trainer = Recording()
    again = ask(Train(wild), terms=terms, trainer=trainer)
    assert isinstance(again, Failure)
    assert again.kind == "diverged"
    assert not trainer.jobs


def test_what_no_step_was_made_of_costs_nothing(tmp_path: Path) -> None:
    terms = at_site(tmp_path)
    assert equal(trained(ask(Train(replace(PLAN, steps=0)), terms=terms)).params, START)
    assert not (tmp_path / "releases.jsonl").exists()


def test_a_start_that_the_samples_chose_is_refused() -> None:
    refused = ask(Losses(("model", "initial")), Train(PLAN, start=("best",)))
    assert isinstance(refused, Failure)
    assert "chosen by the samples" in refused.detail


@pytest.mark.parametrize("steps", [0, 4])
def test_with_a_limit_private_steps_begin_with_nothing_that_was_trained_otherwise(tmp_path: Path, steps: int) -> None:
    """Of an update that is hidden the client keeps all: by no or few steps it would be told at their cost."""
    terms, hidden = at_site(tmp_path, 9.0), Plan(Schedule(0.3), hidden=UpdateNoise(0.5, 9.0))
    again = Train(replace(PLAN, steps=steps), start=("own",))
    for first, allowed in ((Train(PLAN), True), (Train(hidden), False), (Train(hidden, send=False), False)):
        store = MemoryStore()
        trained(ask(Train(PLAN), terms=terms, store=store, round=1))
        trained(ask(first, terms=terms, store=store, round=2))
        answer = ask(again, terms=terms, store=store, round=3)
        assert isinstance(answer, Reply if allowed else Failure)
        assert allowed or "'own', which was not trained by private steps" in str(answer)
    both = ask(Train(hidden, keep=False, send=False), replace(again, start=("trained",)), terms=terms, round=4)
    assert "'trained', which was not" in str(both)
    open_to_all = replace(terms, unprotected=frozenset({"train"}))
    assert isinstance(ask(again, terms=open_to_all, store=store, round=5), Reply)


@pytest.mark.parametrize("hides", [True, False])
def test_who_trains_privately_declares_no_number_of_training_samples(hides: bool) -> None:
    told: Callable[..., dict[int, int]] = PrivacyTerms(hides_samples=hides).told
    assert told("train", {0: 30, 1: 0}) == ({0: 1, 1: 1} if hides else {0: 30, 1: 0})
    assert told("evaluate", {0: 30}) == {0: 30}

"""The client curriculum against brute force: who is asked, who is in the pool, who is drawn (ALGORITHMS 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie import testing
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.curriculum import ClientCurriculum
from coterie.federation.evaluation import Evaluator
from coterie.federation.loop import rounds
from coterie.federation.sampling import UniformSampler
from coterie.messages import MEASUREMENTS, Params, Train
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine, outcome, small_run
from coterie.training import losses, one_thread

PACINGS = ("exponential", "step", "root", "linear", "quadratic")
TWELVE = {**SMALL, "clients": 12, "fraction": 0.25, "rounds": 6, "dataset": "digits", "partition": "label-skew:rho=0.3"}
METHODS = ("fedavg", "fedprox", "fednova", "scaffold", "pacfl", "ifca", "lg-fedavg", "fedgroup", "flis-dc")


class Noting(ClientCurriculum):
    """Notes its pools."""

    pools: list[list[int]]

    def pool(self, fed: Any, algorithm: Any) -> list[int]:
        found = super().pool(fed, algorithm)
        self.__dict__.setdefault("pools", []).append(found)
        return found


class World:
    """A run that is watched: every request, and the cohorts."""

    def __init__(self, run: Session, data: Any, store: MemoryStore) -> None:
        self.run, self.data, self.store = run, data, store
        self.engine = run.fed.wrap_engine(RecordingEngine)
        self.cohorts: list[tuple[int, list[int]]] = []
        self.before: Callable[[], None] = lambda: None
        act = run.algorithm.round

        def round(fed: Any, cohort: Sequence[int]) -> None:
            self.cohorts.append((fed.round, list(cohort)))
            act(fed, cohort)

        run.algorithm.round = round  # type: ignore[method-assign]

    def go(self) -> World:
        for _ in rounds(self.run.fed, self.run.algorithm, self.run.evaluator, every=0):
            self.before()
        return self

    def who(self, kind: str, round: int) -> list[int]:
        return self.engine.asked(round, kind)

    def loss(self, client: int, model: Params) -> float:
        """Mean cross-entropy of a model on a client's training samples."""
        part, fed = self.data.train_parts[client], self.run.fed
        outputs = fed.trainer.logits(fed.spec, model, self.data.normalise(self.data.train.x[part]))
        return float(losses(outputs, self.data.train.y[part]).mean())


@contextmanager
def world(selection: Any = None, method: str = "fedavg", **settings: Any) -> Iterator[World]:
    config = settings_to_config(None, {"algorithm": method, **TWELVE, **settings})
    data = load_data(config)
    config, store = completed(config, data), MemoryStore()
    trainer = make_trainer(config, make_spec(config, data), Progress())
    with one_thread(), session(config, data, store, trainer) as run:
        if selection is not None:
            fed = Federation(run.fed.engine, trainer, run.fed.settings, selection)
            run = replace(run, fed=fed, evaluator=Evaluator(fed, run.algorithm))
        yield World(run, data, store)


def paced(pacing: str, N: int, a: float, b: float, t: int, T: int) -> float:
    """K before clipping, as printed in ALGORITHMS 6."""
    if t >= a * T - 1e-9:
        return N
    share = t / (a * T)
    return {
        "exponential": N * b + N * (1 - b) * (math.exp(10 * share) - 1) / (math.exp(10) - 1),
        "step": N * b + N * math.floor(share),
        "root": N * b + N * (1 - b) * math.sqrt(share),
        "linear": N * b + N * (1 - b) * share,
        "quadratic": N * b + N * (1 - b) * share**2,
    }[pacing]


@pytest.mark.parametrize("pacing", PACINGS)
def test_the_pool_grows_with_the_rounds(pacing: Any) -> None:
    for N, a, b, R in ((100, 0.8, 0.2, 100), (100, 0.5, 0.0, 40), (7, 0.3, 0.5, 11), (1, 0.8, 0.2, 5)):
        sizes = [ClientCurriculum(pacing, a, b).size(r, R, N) for r in range(1, R + 1)]
        for r, size in enumerate(sizes, start=1):
            exact = paced(pacing, N, a, b, r - 1, R)
            assert size in {max(1, math.floor(exact - 1e-7)), max(1, math.floor(exact + 1e-7))}
        assert all(now <= later for now, later in pairwise(sizes))
        assert set(sizes[math.ceil(a * R) :]) == {N}
    for everything in (ClientCurriculum(pacing, a=0), ClientCurriculum(pacing, b=1)):
        assert {everything.size(r, 10, 33) for r in range(1, 11)} == {33}


@pytest.mark.integration
@pytest.mark.parametrize("order", ["curriculum", "anti"])
def test_the_pool_holds_the_easiest_or_the_hardest_for_the_model_of_the_moment(order: Any) -> None:
    with world(Noting(order=order)) as w:
        truths: list[dict[int, float]] = []
        w.before = lambda: truths.append({c: w.loss(c, w.run.algorithm.model_for(c)) for c in range(12)})  # type: ignore[arg-type]
        w.go()
        selection = w.run.fed.sampler
        for r in range(1, 7):
            truth, size = truths[r - 1], math.floor(paced("linear", 12, 0.8, 0.2, r - 1, 6) + 1e-9)
            best = sorted(truth, key=lambda c: truth[c], reverse=order == "anti")[:size]
            assert selection.pools[r - 1] == sorted(best), r  # type: ignore[attr-defined]
            assert w.who("losses", r) == (list(range(12)) if size < 12 else [])
        last = max(r for r in range(1, 7) if w.who("losses", r))
        assert selection.losses == pytest.approx(truths[last - 1], rel=1e-5)  # type: ignore[attr-defined]


@pytest.mark.integration
def test_an_expert_ranks_clients_once_and_for_all() -> None:
    with world(client_curriculum="score=E,order=anti", expert_epochs=2) as w:
        expert = w.run.fed.settings.expert
        assert expert is not None
        truth = {c: w.loss(c, expert) for c in range(12)}
        w.go()
        assert w.run.fed.sampler.losses == pytest.approx(truth, rel=1e-5)  # type: ignore[attr-defined]
        assert [w.who("losses", r) for r in range(1, 7)] == [list(range(12)), *[[]] * 5]
        for r, cohort in w.cohorts:
            hardest = sorted(truth, key=lambda c: -truth[c])[
                : max(1, int(paced("linear", 12, 0.8, 0.2, r - 1, 6) + 1e-9))
            ]
            assert set(cohort) <= set(hardest)


def test_the_cohort_is_drawn_from_the_pool() -> None:
    with world(Noting(a=1.0)) as w:
        w.go()
        pools = w.run.fed.sampler.pools  # type: ignore[attr-defined]
        assert [len(pool) for pool in pools] == [2, 4, 5, 7, 8, 10]
        for (t, cohort), pool in zip(w.cohorts, pools, strict=True):
            assert len(cohort) == min(3, len(pool))
            assert set(cohort) <= set(pool)
            assert w.who("train", t) == cohort
        again = [w.run.fed.batches(t, pool)[0] for t, pool in enumerate(pools, start=1)]
        assert again == [cohort for _, cohort in w.cohorts]
        assert len({tuple(w.run.fed.batches(t, range(10))[0]) for t in range(50)}) > 30


@pytest.mark.integration
def test_everyone_in_the_pool_is_as_without_a_curriculum() -> None:
    """The very cohorts; and nobody is asked for a loss, since no order matters."""
    plain = outcome(small_run("fedavg", **TWELVE))
    for text in ("a=0", "b=1", "order=vanilla", "a=0,order=anti,refresh_every=3"):
        assert outcome(small_run("fedavg", **TWELVE, client_curriculum=text)) == plain
    with world(ClientCurriculum(a=0.0)) as w, world() as other:
        assert w.go().cohorts == other.go().cohorts
        assert not [kind for _, _, kind in w.engine.requests if kind == "losses"]


def test_from_the_round_on_in_which_all_are_in_the_pool_cohorts_are_the_usual_ones() -> None:
    with world(ClientCurriculum(a=0.5)) as w, world() as other:
        w.go(), other.go()
        assert w.cohorts[3:] == other.cohorts[3:]
        assert w.cohorts[:3] != other.cohorts[:3]


@pytest.mark.integration
def test_a_random_order_grows_by_who_stands_next_and_asks_nobody() -> None:
    with world(Noting(order="random", a=1.0)) as w:
        w.go()
        pools = w.run.fed.sampler.pools  # type: ignore[attr-defined]
        assert all(set(now) < set(later) for now, later in pairwise(pools))
        assert not w.run.fed.ledger.by_kind.get("losses")
    firsts = set()
    for seed in range(6):
        with world(Noting(order="random"), seed=seed) as w:
            w.run.fed.start_round(1)
            firsts.add(tuple(w.run.fed.sampler.pool(w.run.fed, w.run.algorithm)))  # type: ignore[attr-defined]
    assert len(firsts) > 3


def test_old_losses_are_used_until_it_is_time_to_ask_again() -> None:
    with world(Noting(a=1.0, refresh_every=3)) as w:
        known: list[dict[int, float]] = []
        w.before = lambda: known.append(dict(w.run.fed.sampler.losses))  # type: ignore[attr-defined]
        w.go()
        assert [len(w.who("losses", r)) for r in range(1, 7)] == [12, 0, 0, 12, 0, 0]
        assert known[1] == known[2] == known[3] != known[4] == known[5]


def test_traffic_is_that_of_a_model_down_and_a_few_numbers_up() -> None:
    result = small_run("fedavg", **TWELVE, client_curriculum="a=0.5")
    model = 4 * (64 * 16 + 16 + 16 * 10 + 10)
    spent = result.traffic["by_kind"]["losses"]
    assert 3 * 12 * model < spent["down"] < 3 * 12 * (model + 1500)
    assert 0 < spent["up"] < 3 * 12 * 400
    kinds = result.traffic["by_kind"]
    assert result.traffic["down_bytes"] == sum(kinds[kind]["down"] for kind in kinds if kind not in MEASUREMENTS)


def test_all_batches_go_through_the_pool_one_after_the_other() -> None:
    with world(Noting(all_batches=True)) as w:
        w.go()
        for t, pool in enumerate(w.run.fed.sampler.pools, start=1):  # type: ignore[attr-defined]
            cohorts = [cohort for now, cohort in w.cohorts if now == t]
            assert sorted(client for cohort in cohorts for client in cohort) == pool
            assert [len(cohort) for cohort in cohorts[:-1]] == [3] * (len(cohorts) - 1)
            assert len(cohorts) == -(-len(pool) // 3)
            sent = [w.engine.requests[t, client, "train"].models["model"] for client in w.engine.asked(t, "train")]
            assert len({id(model) for model in sent}) == len(cohorts), "each goes on from where the one before ended"
        assert [len([1 for now, _ in w.cohorts if now == t]) for t in (1, 6)] == [1, 4]


def test_all_batches_without_hiding_anybody_is_a_pass_over_all_clients() -> None:
    result = small_run("fedavg", **{**TWELVE, "rounds": 2}, client_curriculum="a=0,all_batches=true")
    model = 4 * (64 * 16 + 16 + 16 * 10 + 10)
    assert 24 * model < result.traffic["by_kind"]["train"]["up"] < 24 * (model + 1000)


@pytest.mark.integration
@pytest.mark.parametrize("method", METHODS)
def test_the_loss_is_that_of_what_the_client_would_receive(method: str) -> None:
    """Of one model, of a group's, of the best of several, of layers over one's own; or of one's own without any."""
    with world(ClientCurriculum(a=1.0), method, groups=2 if method in ("ifca", "fedgroup") else None) as w:
        truth: dict[int, float] = {}

        def measure() -> None:
            truth.clear()
            for client in range(12):
                served: Any = w.run.algorithm.model_for(client)
                own = w.store.load(client, before=99).get("model", w.run.fed.initial())
                if hasattr(served, "models"):
                    each = [w.loss(client, model) for model in served.models]
                    truth[client] = min(each) if served.last is None else each[served.last]
                elif served is None:
                    truth[client] = w.loss(client, own)
                else:
                    truth[client] = w.loss(client, {**own, **getattr(served, "params", served)})

        for t, _ in rounds(w.run.fed, w.run.algorithm, w.run.evaluator, every=0):
            if t:
                assert w.run.fed.sampler.losses == pytest.approx(truth, rel=1e-4)  # type: ignore[attr-defined]
            measure()


@pytest.mark.parametrize("method", ["solo", "mtl"])
def test_without_a_model_at_the_server_nobody_is_easy(method: str) -> None:
    with pytest.raises(CoterieError, match=r"no server model .* leave out client_curriculum="):
        small_run(method, client_curriculum="")
    assert small_run(method, client_curriculum="score=E", expert_epochs=1).accuracy["L"] is not None


def test_a_method_that_selects_clients_itself_takes_no_curriculum() -> None:
    with pytest.raises(CoterieError, match=r"'fedsoft' draws its clients itself.*leave out client_curriculum="):
        small_run("fedsoft", client_curriculum="order=anti")
    with pytest.raises(CoterieError, match="unknown data set"):  # else it goes on to the data
        small_run("fedsoft", algorithm_options={"selection": False}, client_curriculum="", dataset="there-is-none")


def test_who_did_not_answer_stands_last_and_is_asked_again() -> None:
    with world(Noting(a=1.0, refresh_every=10), drop=0.3, rounds=5) as w:
        selection: Any = w.run.fed.sampler
        missing = set(range(12))
        for t, _ in rounds(w.run.fed, w.run.algorithm, w.run.evaluator, every=0):
            if t == 0:
                continue
            assert w.who("losses", t) == sorted(missing)
            missing = set(range(12)) - set(selection.losses)
            pool = selection.pools[-1]
            assert not missing & set(pool) or set(selection.losses) <= set(pool)
        assert len(w.who("losses", 2)) in range(1, 8)


@pytest.mark.parametrize("refresh", [1, 4])
def test_newcomers_are_asked_when_they_have_come_and_enter_the_pool(refresh: int) -> None:
    late = {"newcomers": 0.25, "newcomer_draw": "last", "join_at": 2}
    with world(Noting(a=1.0, refresh_every=refresh), **late) as w:
        w.go()
        assert [set(w.who("losses", t)) & {9, 10, 11} for t in (1, 2)] == [set(), set()]
        assert w.who("losses", 3) == (list(range(12)) if refresh == 1 else [9, 10, 11])
        sizes = [len(pool) for pool in w.run.fed.sampler.pools]  # type: ignore[attr-defined]
        whole = [9, 9, 12, 12, 12, 12]
        assert sizes == [math.floor(paced("linear", N, 1.0, 0.2, t, 6) + 1e-9) for t, N in enumerate(whole)]


def test_after_a_drift_the_losses_are_out_of_date() -> None:
    with world(ClientCurriculum(a=1.0, refresh_every=9), partition="rotated:groups=2,drift_at=3") as w:
        w.go()
        assert [len(w.who("losses", t)) for t in range(1, 7)] == [12, 0, 12, 0, 0, 0]


def test_no_clients_at_all_and_one_alone() -> None:
    with world(ClientCurriculum()) as w:
        w.engine.present = lambda round: {}  # type: ignore[method-assign]
        w.run.fed.start_round(1)
        assert list(w.run.fed.sampler.cohorts(w.run.fed, w.run.algorithm)) == [[]]
    assert UniformSampler().save() == {}


BOTH = {"curriculum": "score=LG,order=anti", "client_curriculum": "a=0.9,refresh_every=2"}
CHECKS = [check for check in testing.BATTERY if check is not testing.learns]


@pytest.mark.integration
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_battery_with_both_curricula(check: Callable[..., None], tmp_path: Path) -> None:
    """Also resumed, with clients that drop out, answer nonsense, or come late."""
    check("pacfl", tmp_path, **BOTH)


@pytest.mark.integration
@pytest.mark.parametrize("method", ["ifca", "lg-fedavg"])
@pytest.mark.parametrize("text", ["all_batches=true,a=0.5", "order=anti,refresh_every=3"])
def test_interruptions_change_nothing(method: str, text: str, tmp_path: Path) -> None:
    testing.goes_on_after_an_interruption(method, tmp_path, client_curriculum=text, drop=0.3)


@pytest.mark.integration
def test_both_curricula_together_differ_from_each_alone() -> None:
    results = [
        small_run("fedavg", **TWELVE, curriculum=data, client_curriculum=clients).per_client["L"]
        for data in (None, "")
        for clients in (None, "")
    ]
    assert len({tuple(result) for result in results}) == 4


def test_training_still_learns_with_both() -> None:
    testing.learns("fedavg", Path(), **{**BOTH, "client_curriculum": ""})


def test_the_question_trains_nobody() -> None:
    with world(ClientCurriculum()) as w:
        w.go()
        asked = [request for (_, _, kind), request in w.engine.requests.items() if kind == "losses"]
        assert asked
        assert not any(isinstance(verb, Train) for request in asked for verb in request.verbs)
        assert {c for c in range(12) if w.store.load(c, before=99)} == {c for _, cohort in w.cohorts for c in cohort}


def test_what_is_saved_is_what_later_rounds_need() -> None:
    one, other = ClientCurriculum(), ClientCurriculum()
    one.losses = {3: 0.5, 11: float(np.float32(1.25))}
    other.load(one.save())
    assert other.losses == one.losses

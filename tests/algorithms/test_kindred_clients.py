"""Kindred and clients that can't be compared, do not answer, or change."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms.kindred import Kindred
from coterie.federation import Federation
from coterie.messages import Failure, Moments, MomentsReply, Reply, Request, Train
from coterie.run.progress import Progress
from coterie.similarity import class_moments
from coterie.testing import RecordingEngine, difference, outcome, small_federation

ROTATED = {"dataset": "digits-rotated", "partition": None, "clients": 12, "fraction": 1.0, "rounds": 6, "seed": 0}
TRUE = [client % 4 for client in range(12)]
pytestmark = pytest.mark.integration


@contextmanager
def federation(change: Callable[[Reply, Request], Reply | Failure]) -> Iterator[tuple[Federation, Any]]:
    """Clients whose replies are changed; groups are formed."""
    with small_federation("kindred", **ROTATED) as (run, _):
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, change))
        run.algorithm.begin(run.fed)
        yield run.fed, run.algorithm


def rounds(fed: Federation, method: Any, *numbers: int) -> None:
    for round in numbers:
        fed.start_round(round)
        method.round(fed, fed.cohort(round))


def with_moments(reply: Reply, change: Callable[[MomentsReply], MomentsReply]) -> Reply:
    return replace(reply, answers=tuple(change(a) if isinstance(a, MomentsReply) else a for a in reply.answers))


def blank(told: MomentsReply) -> MomentsReply:
    return replace(told, **{name: np.zeros_like(getattr(told, name)) for name in ("means", "variances", "counts")})


def alike(method: Any) -> bool:
    """Whether all clients are with those who see labels as they do."""
    return len({(TRUE[c], group) for c, group in method.member.items()}) == len({*TRUE}) and len(method.member) == 12


def test_who_has_too_few_samples_of_each_label_joins_the_largest_group_then_takes_the_best_model() -> None:
    lost = [0, 1]
    with federation(lambda reply, _: with_moments(reply, blank) if reply.client in lost else reply) as (fed, method):
        sizes = np.bincount([method.member[c] for c in range(12) if c not in lost])
        assert all(method.member[client] == sizes.argmax() for client in lost)
        rounds(fed, method, 1, 2, 3, 4, 5, 6)
        del method.by_loss[0], method.member[0]
        method.place(fed, [0])
        assert method.member[0] == method.member[4]


def test_who_does_not_answer_at_first_is_placed_when_it_does() -> None:
    """By how its labels look, not with the largest group for good."""

    def silent_at_first(reply: Reply, request: Request) -> Reply | Failure:
        gone = request.round == 0 and reply.client in (2, 7)
        return Failure(reply.client, request.round, "dropped") if gone else reply

    with federation(silent_at_first) as (fed, method):
        assert {*range(12)} - {*method.member} == {2, 7}
        rounds(fed, method, 1)
        assert alike(method)
        assert not method.by_loss


def test_who_holds_back_how_its_labels_look_trains_and_is_not_asked_again() -> None:
    asked = []

    def reticent(reply: Reply, request: Request) -> Reply | Failure:
        if reply.client == 3 and any(isinstance(verb, Moments) for verb in request.verbs):
            asked.append(request.round)
            return Failure(3, request.round, "withheld", "no label has enough samples to be described")
        return reply

    with federation(reticent) as (fed, method):
        before = method.model_for(3)
        rounds(fed, method, 1, 2)
        assert asked == [0]
        assert method.model_for(3) is not before
        assert method.by_loss.keys() == {3}


def test_who_comes_to_have_enough_samples_is_placed_by_them() -> None:
    def few_at_first(reply: Reply, request: Request) -> Reply:
        return with_moments(reply, blank) if request.round < 2 and reply.client < 3 else reply

    with federation(few_at_first) as (fed, method):
        rounds(fed, method, 1)
        assert method.by_loss.keys() == {0, 1, 2}
        rounds(fed, method, 2)
        assert alike(method)
        assert not method.by_loss


def test_groups_are_formed_late_where_nobody_could_be_compared_at_first() -> None:
    with federation(lambda r, request: with_moments(r, blank) if request.round < 2 else r) as (fed, method):
        rounds(fed, method, 1)
        assert method.grouping is None
        one = method.models[0]
        assert {*method.member.values()} == {0}
        rounds(fed, method, 2)
        assert alike(method)
        assert all(model is one for model in method.models)  # groups go on with the model that all had


def test_a_few_more_samples_are_no_change() -> None:
    """They move means by less than chance: what is trained counts, and groups stay."""
    rng = np.random.default_rng(0)

    def grown(told: MomentsReply) -> MomentsReply:
        noise = rng.normal(size=told.means.shape) * np.sqrt(told.variances / told.means.shape[1])[:, None]
        means = told.means + (0.3 * noise / np.sqrt(np.maximum(told.counts, 1))[:, None]).astype(np.float32)
        return replace(told, means=np.where(told.counts[:, None] > 0, means, 0), counts=told.counts)

    with federation(lambda r, request: with_moments(r, grown) if request.round else r) as (fed, method):
        first = method.grouping
        for round in (1, 2):
            before = list(method.models)
            rounds(fed, method, round)
            assert method.grouping is first
            assert all(new is not old for new, old in zip(method.models, before, strict=True))


@pytest.mark.parametrize("labels", [1, 5])
@pytest.mark.parametrize("samples", [8, 40, 200])
def test_labels_of_one_distribution_seldom_differ_from_before(labels: int, samples: int) -> None:
    """Other samples of it, not only more of them."""
    rng, method = np.random.default_rng(0), Kindred()
    y = np.repeat(np.arange(labels), samples)

    def told(shift: float = 0.0) -> MomentsReply:
        means, variances, counts = class_moments(rng.normal(size=(len(y), 16)) + shift, y, labels)
        return MomentsReply(means.astype(np.float32), variances.astype(np.float32), counts)

    differ = [method.differs(told(), told()) for _ in range(200)]
    assert np.mean(differ) < 0.02
    assert all(method.differs(told(1.5), told()) for _ in range(20))
    assert method.differs(told(), None)


class StopsIn(Progress):
    """Breaks a run off in a round."""

    def __init__(self, round: int) -> None:
        self.last = round

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        if round == self.last:
            raise KeyboardInterrupt


def test_a_run_broken_off_after_drift_goes_on_as_it_would_have(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**ROTATED, "dataset": "digits-rotated:drift_at=2", "rounds": 4, "epochs": 1}
    whole = coterie.run(algorithm="kindred", **settings)
    assert "Grouped anew in round 2" in whole.grouping["reason"]
    assert whole.ari == 1
    with pytest.raises(KeyboardInterrupt):
        coterie.run(algorithm="kindred", **settings, out=str(tmp_path / "run"), progress=StopsIn(2))
    resumed = coterie.resume(tmp_path / "run")
    assert difference(outcome(resumed), outcome(whole)) is None


def test_without_any_client_to_compare_there_is_one_group() -> None:
    result = coterie.run(algorithm="kindred", dataset="digits", clients=80, fraction=0.2, rounds=2, epochs=1)
    assert set(result.groups) == {0}


def test_clients_that_change_are_placed_anew_and_models_stay_with_what_labels_look_like() -> None:
    """From round 4 on client i sees what client i + 1 saw."""
    with small_federation("kindred", **{**ROTATED, "dataset": "digits-rotated:drift_at=4"}) as (
        run,
        _,
    ):
        fed, method = run.fed, run.algorithm
        method.begin(fed)
        for round in (1, 2, 3):
            fed.start_round(round)
            method.round(fed, fed.cohort(round))
        before = {client: method.model_for(client) for client in fed.clients}
        fed.start_round(4)
        method.round(fed, fed.cohort(4))
        assert "Grouped anew in round 4" in method.grouping.reason
        for client in range(11):
            assert method.model_for(client) is before[client + 1]
        fed.start_round(5)
        method.round(fed, fed.cohort(5))
        assert "round 4" in method.grouping.reason


def test_who_no_longer_tells_how_its_labels_look_trains_on() -> None:
    """It was described; later too few samples of each label are left."""
    trained = []

    def reticent_later(reply: Reply, request: Request) -> Reply | Failure:
        if reply.client == 3 and request.round > 0:
            if any(isinstance(verb, Moments) for verb in request.verbs):
                return Failure(3, request.round, "withheld", "no label has enough samples to be described")
            trained.append(request.round)
        return reply

    with federation(reticent_later) as (fed, method):
        rounds(fed, method, 1, 2, 3)
        assert trained == [2, 3]
        assert alike(method)


def test_who_holds_back_a_training_is_asked_how_its_labels_look_again() -> None:
    """In round 1 too few samples would enter the training; the description of its labels is no secret."""
    told = []

    def trains_later(reply: Reply, request: Request) -> Reply | Failure:
        if reply.client == 3 and any(isinstance(verb, Train) for verb in request.verbs):
            if request.round == 1:
                return Failure(3, 1, "withheld", "the answer would stand on fewer than 10 samples")
            told.append(any(isinstance(verb, Moments) for verb in request.verbs))
        return reply

    with federation(trains_later) as (fed, method):
        rounds(fed, method, 1, 2, 3)
        assert told == [True, True]
        assert not method.reticent


def test_what_else_was_held_back_is_no_withheld_description() -> None:
    """A client whose test samples are too few, and that does not answer in time when it is to describe itself."""

    def late(reply: Reply, request: Request) -> Reply | Failure:
        return Failure(3, request.round, "late") if reply.client == 3 and request.round == 0 else reply

    with small_federation("kindred", **ROTATED) as (run, _):
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, late))
        run.fed.events.note(Failure(3, 0, "withheld", "3 test samples are fewer than 10"))
        run.algorithm.begin(run.fed)
        assert not run.algorithm.mute
        rounds(run.fed, run.algorithm, 1)
        assert alike(run.algorithm)


def test_nobody_who_cannot_be_compared_joins_a_group_of_one() -> None:
    with federation(lambda reply, _: with_moments(reply, blank) if reply.client == 0 else reply) as (fed, method):
        mates = [client for client in range(1, 12) if method.member[client] == method.member[4]]
        rounds(fed, method, 1, 2, 3, 4, 5, 6)
        method.place(fed, [0])
        assert method.member[0] == method.member[4]  # the model that fits it best
        elsewhere = next(group for group in method.member.values() if group != method.member[4])
        method.described = {client: told for client, told in method.described.items() if client not in mates[1:]}
        method.member = {c: elsewhere if c in mates[1:] else group for c, group in method.member.items() if c}
        method.place(fed, [0])
        assert method.member[0] != method.member[mates[0]]


def test_who_cannot_be_compared_keeps_its_model_when_newcomers_renumber_the_groups() -> None:
    absent = {11}

    def change(reply: Reply, _: Request) -> Reply | Failure:
        if reply.client in absent:
            return Failure(reply.client, reply.round, "dropped", "")
        return with_moments(reply, blank) if reply.client == 0 else reply

    with small_federation("kindred", **ROTATED, algorithm_options={"assign": "recluster"}) as (run, _):
        method: Any = run.algorithm
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, change))
        method.begin(run.fed)
        last = method.grouping.n_groups - 1  # as if groups had been numbered the other way round
        method.grouping = replace(method.grouping, labels=last - method.grouping.labels)
        method.models = [dict(method.start) for _ in range(last + 1)]
        method.by_loss[0] = last
        served = method.models[last]
        absent.clear()
        method.place(run.fed, [11])
        assert method.models[last] is not served
        assert method.models[method.member[0]] is served

"""FedDrift and FIELDING follow planted drifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from drift_world import agreement, drifting, play, turned

from coterie.algorithms.feddrift import APART, FedDrift
from coterie.algorithms.fielding import Fielding
from coterie.data import FederatedData, Samples
from coterie.federation.loop import rounds
from coterie.messages import Failure, LossesReply, Reply, Request
from coterie.testing import RecordingEngine, small_federation

ISOLATED = {"isolated": 20}
pytestmark = pytest.mark.integration


def test_feddrift_finds_the_groups_before_and_after_all_drift() -> None:
    settings = {"clients": 8, "fraction": 1.0, "rounds": 5, "algorithm_options": ISOLATED, "epochs": 3}
    with small_federation("feddrift", **settings, dataset_options={"drift_at": 4}) as (run, data):
        for t, _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            if t:
                truth = data.true_groups if t < 4 else data.final_groups
                assert truth is not None
                assert agreement(run.algorithm, truth.tolist()) == 1.0, t


def test_feddrift_isolates_clients_that_see_what_nobody_has_seen_and_merges_them() -> None:
    """Clients 0 and 2 turn images as no group did: they leave, find that they are alike, and share a model."""
    settings = {"clients": 6, "dataset_options": {"groups": 2}, "epochs": 3, "algorithm_options": ISOLATED}
    with drifting("feddrift", [0, 2], 4, turned(2), **settings) as run:
        play(run, 1, 2, 3)
        assert agreement(run.algorithm, [0, 1, 0, 1, 0, 1]) == 1.0
        play(run, 4, 5)
        assert agreement(run.algorithm, [2, 1, 2, 1, 0, 1]) == 1.0
        assert isinstance(run.algorithm, FedDrift)
        assert run.algorithm.drifted == 2
        assert "2 times one drifted away" in (run.algorithm.reason or "")


def test_who_drifts_and_does_not_answer_drifts_again() -> None:
    silent: set[int] = set()

    def change(reply: Reply, request: Request) -> Reply | Failure:
        lost = request.kind == "isolated" and reply.client in silent
        return Failure(reply.client, reply.round, "dropped", "") if lost else reply

    with small_federation("feddrift", fraction=1.0, algorithm_options={"isolated": 1}) as (run, _):
        method = run.algorithm
        assert isinstance(method, FedDrift)
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, change))
        method.begin(run.fed)
        play(run, 1)
        silent.add(0)
        method.last[0] = before = -10.0  # so that what it has now is a rise
        play(run, 2)
        assert (method.last[0], method.drifted) == (before, 0)
        silent.clear()
        play(run, 3)
        assert method.last[0] > 0
        assert method.drifted == 1


def test_distances_of_feddrift_by_hand() -> None:
    method = FedDrift()
    method.models, method.member = [{}, {}, {}], {0: 0, 1: 1, 2: 1}
    answers = {
        0: LossesReply(10, (0.2, 0.9, 3.0), (10, 0, 0), (10, 0, 0)),
        1: LossesReply(30, (1.0, 0.4, 3.0), (0, 30, 0), (0, 30, 0)),
        2: LossesReply(10, (2.0, 0.8, 3.0), (0, 10, 0), (0, 10, 0)),
    }
    apart = method.distances(answers)
    loss_of_0_on_1, loss_of_1_on_1 = (30 * 1.0 + 10 * 2.0) / 40, (30 * 0.4 + 10 * 0.8) / 40
    assert apart[0, 1] == apart[1, 0] == pytest.approx(max(loss_of_0_on_1 - loss_of_1_on_1, 0.9 - 0.2))
    assert apart[0, 2] == apart[2, 1] == APART  # of which nobody is in the cohort
    assert not apart.diagonal().any()


# --- FIELDING: clients with an even number have the labels 0 to 4, the others 5 to 9


HALVES = {"dataset": "digits", "clients": 8}


def by_labels(data: FederatedData) -> FederatedData:
    """Each client keeps the samples of its labels."""
    parts = [
        [part[(samples.y[part] < 5) == (client % 2 == 0)] for client, part in enumerate(those)]
        for samples, those in ((data.train, data.train_parts), (data.test, data.test_parts))
    ]
    return replace(data, train_parts=parts[0], test_parts=parts[1])


def relabelled(by: int) -> Callable[[Samples], Samples]:
    """Samples as if a client had got those of other labels."""
    return lambda samples: Samples(samples.x, (samples.y + by) % 10)


def test_fielding_moves_a_client_whose_labels_drift() -> None:
    with drifting("fielding", [0], 2, relabelled(5), by_labels, **HALVES) as run:
        assert isinstance(run.algorithm, Fielding)
        assert agreement(run.algorithm, [0, 1] * 4) == 1.0
        first = run.algorithm.grouping
        play(run, 1)
        assert run.algorithm.grouping is first  # nothing has changed
        play(run, 2)
        assert agreement(run.algorithm, [1, 1, 0, 1, 0, 1, 0, 1]) == 1.0
        assert run.algorithm.grouping is not None
        assert "Grouped anew" not in run.algorithm.grouping.reason


def test_fielding_groups_all_anew_when_a_centre_moves_far() -> None:
    """Three of four come to have the labels 3 to 7, like nobody before."""
    options = {"tau": 0.1}
    with drifting("fielding", [0, 2, 4], 2, relabelled(3), by_labels, **HALVES, algorithm_options=options) as run:
        assert isinstance(run.algorithm, Fielding)
        play(run, 1, 2)
        assert agreement(run.algorithm, [2, 1, 2, 1, 2, 1, 0, 1]) == 1.0
        assert run.algorithm.grouping is not None
        assert "Grouped anew in round 2: label frequencies of 3 clients" in run.algorithm.grouping.reason
        assert len(run.algorithm.models) == len(run.algorithm.centres) == 3
        play(run, 3)


def test_fielding_groups_all_anew_when_a_group_is_left_by_all() -> None:
    with drifting("fielding", [0, 2, 4, 6], 2, relabelled(5), by_labels, **HALVES) as run:
        assert isinstance(run.algorithm, Fielding)
        play(run, 1, 2)
        assert run.algorithm.grouping is not None
        assert "Grouped anew in round 2" in run.algorithm.grouping.reason
        assert len(run.algorithm.models) == len(run.algorithm.centres) == run.algorithm.grouping.n_groups

"""FeSEM: who is nearest to which centre, against a direct loop; and its known weakness, shown and avoided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.algorithms.fesem import FeSEM
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.messages import Failure, Params, Reply, Request, TrainReply
from coterie.testing import (
    RecordingEngine,
    goes_on_after_an_interruption,
    needs_nothing_but_messages,
    repeats_itself,
    small_federation,
    small_run,
    takes_newcomers,
    takes_one_client,
)

DIGITS = {"clients": 20, "fraction": 1.0, "rounds": 6, "epochs": 5, "lr": 0.02, "model_options": {}, "eval_every": 0}
K_MEANS, RANDOM = {"init": "k-means"}, {"init": "random"}


@contextmanager
def federation(**settings: Any) -> Iterator[tuple[FeSEM, Federation]]:
    with small_federation("fesem", **settings) as (run, _):
        yield run.algorithm, run.fed  # type: ignore[misc]


def flat(params: Params, prefix: str = "") -> np.ndarray:
    return np.concatenate([v.ravel() for name, v in params.items() if name.startswith(prefix)]).astype(np.float64)


def distances(theta: Params, centres: list[Params], prefix: str) -> list[float]:
    return [float(((flat(theta, prefix) - flat(centre, prefix)) ** 2).sum()) for centre in centres]


def test_with_one_centre_at_the_start_of_fedavg_it_is_fedavg_bit_for_bit() -> None:
    settings = {"dataset": "digits", "partition": "label-skew:rho=0.4"}
    with (
        federation(**settings, groups=1, algorithm_options=RANDOM) as (fesem, fed),
        small_federation("fedavg", **settings) as (other, _),
    ):
        fesem.begin(fed)
        other.algorithm.begin(other.fed)
        fesem.models = [fed.initial()]
        for t in (1, 2, 3):
            for method, its in ((fesem, fed), (other.algorithm, other.fed)):
                its.start_round(t)
                method.round(its, its.cohort(t))
        assert np.array_equal(flat(fesem.models[0]), flat(other.algorithm.model_for(0)))
        assert set(fesem.groups().values()) == {0}


def test_by_default_it_is_not_fedavg() -> None:
    """With random centres, of which one was θ⁰, every client fell to that: FedAvg to the last digit."""
    result, fedavg = (small_run(method, **DIGITS) for method in ("fesem", "fedavg"))
    assert len({*result.groups}) > 1
    assert result.accuracy["C"] != fedavg.accuracy["C"]


def test_no_random_centre_is_the_common_start() -> None:
    with federation(groups=3, algorithm_options=RANDOM) as (method, fed):
        method.begin(fed)
        assert all(np.linalg.norm(flat(model) - flat(fed.initial())) > 1 for model in method.models)


@pytest.mark.integration
@pytest.mark.parametrize("layer", ["all", "last"])
@pytest.mark.parametrize("weights", ["samples", "equal"])
def test_against_a_direct_loop(layer: str, weights: str) -> None:
    """The E-step goes by the centres before the round; the M-step takes who answered in it.

    Training alone hardly moves a client to another centre, so that each third one is carried there: in what
    distances are taken over, and nothing else.
    """
    options = {"layer": layer, "weights": weights, "init": "k-means"}
    uneven = {"dataset": "digits", "partition": "dirichlet:alpha=0.6", "clients": 12, "lr": 0.3}
    prefix, moves = "fc2" if layer == "last" else "", 0
    with federation(**uneven, algorithm_options=options, groups=3, fraction=0.7, drop=0.2) as (method, fed):

        def carried(reply: Reply, request: Request) -> Reply:
            if fed.round == 1 or (reply.client + fed.round) % 3 or not method.groups().get(reply.client):
                return reply
            answer, z = reply.answer(TrainReply), method.groups()[reply.client]
            params = dict(answer.params)
            for name in params:
                if name.startswith(prefix):
                    params[name] = params[name] + method.models[z - 1][name] - method.models[z][name]
            return Reply(reply.client, reply.round, (replace(answer, params=params),))

        engine = fed.wrap_engine(lambda inner: RecordingEngine(inner, carried))
        method.begin(fed)
        fed.start_round(1)
        method.round(fed, fed.cohort(1))
        for t in range(2, 9):
            member, before = dict(method.groups()), list(method.models)
            fed.start_round(t)
            method.round(fed, fed.cohort(t))
            first = {c: a for (when, c), a in engine.answers(TrainReply, "place").items() if when == t}
            assert not first.keys() & member.keys()
            member |= {c: nearest(a.params, before, prefix) for c, a in first.items()}
            now = {c: a for (when, c), a in engine.answers(TrainReply).items() if when == t}
            for client, answer in now.items():
                assert engine.requests[t, client, "train"].models["model"] is before[member[client]]
                moves += member[client] != nearest(answer.params, before, prefix)
                member[client] = nearest(answer.params, before, prefix)
            assert method.groups() == member
            for group, centre in enumerate(method.models):
                own = [answer for client, answer in now.items() if member[client] == group]
                n = [answer.samples if weights == "samples" else 1 for answer in own]
                if own:
                    mean = sum(k * flat(answer.params) for k, answer in zip(n, own, strict=True)) / sum(n)
                    assert np.allclose(flat(centre), mean, rtol=1e-5, atol=1e-6)
                else:
                    assert centre is before[group]
        assert len(method.models) == 3
    assert moves > 3


def nearest(theta: Params, centres: list[Params], prefix: str = "") -> int:
    apart = [((flat(theta, prefix) - flat(centre, prefix)) ** 2).sum() for centre in centres]
    return int(np.argmin(apart))


def test_who_never_trained_is_nearest_by_the_common_start() -> None:
    """Centres that are set by hand: the second is the one nearest to θ⁰."""
    with federation(groups=3, algorithm_options=RANDOM) as (method, fed):
        engine = fed.wrap_engine(RecordingEngine)
        method.begin(fed)
        method.models = [method.models[2], fed.initial(), method.models[1]]
        centre = method.models[1]
        fed.start_round(1)
        method.round(fed, [3, 4])
        assert all(engine.requests[1, client, "train"].models["model"] is centre for client in (3, 4))
        assert method.groups() == {3: 1, 4: 1}
        assert method.models[1] is not centre


def test_of_centres_equally_far_the_first_is_taken() -> None:
    with federation(groups=3, algorithm_options=RANDOM) as (method, fed):
        method.begin(fed)
        method.models = [method.models[1], method.start, method.start]
        assert method.nearest(method.start) == 1


def test_random_centres_collapse_and_it_says_so() -> None:
    with federation(**DIGITS, groups=4, algorithm_options=RANDOM) as (method, fed):
        method.begin(fed)
        before = list(method.models)
        fed.start_round(1)
        method.round(fed, fed.cohort(1))
        (taken,) = set(method.groups().values())
        assert method.reason == "All clients fell to one of 4 centres, as if there were no groups: try init=k-means."
        assert [a is b for a, b in zip(method.models, before, strict=True)] == [k != taken for k in range(4)]


def test_one_centre_or_one_client_is_no_collapse() -> None:
    for settings in ({"groups": 1}, {"groups": 3, "clients": 1, "dataset": "digits"}):
        with federation(**settings, fraction=1.0, algorithm_options=RANDOM) as (method, fed):
            method.begin(fed)
            fed.start_round(1)
            method.round(fed, fed.cohort(1))
            assert method.reason.startswith("Each client is nearest to one of")


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(5))
def test_k_means_finds_the_rotations(seed: int) -> None:
    result = small_run("fesem", **DIGITS, groups=4, seed=seed, algorithm_options=K_MEANS)
    assert result.ari == 1


def test_the_first_centres_are_means_of_what_a_cohort_trained_from_the_common_start() -> None:
    with federation(**DIGITS, groups=4, algorithm_options=K_MEANS) as (method, fed):
        engine = fed.wrap_engine(RecordingEngine)
        method.begin(fed)
        assert method.model_for(0) is method.start
        fed.start_round(1)
        method.place(fed, fed.cohort(1))
        assert all(request.verbs[0].start == ("initial",) for request in engine.requests.values())
        assert all(not request.models for request in engine.requests.values())  # nothing travels down
        trained = engine.answers(TrainReply, "place")
        thetas = {client: flat(answer.params) for (_, client), answer in trained.items()}
        for group, centre in enumerate(method.models):
            own = [thetas[client] for client, z in method.groups().items() if z == group]
            assert np.allclose(flat(centre), np.mean(own, axis=0), rtol=1e-5, atol=1e-6)
        assert method.groups() == {c: nearest(trained[1, c].params, method.models) for c in thetas}


def test_k_means_waits_for_a_cohort_in_which_enough_answer() -> None:
    with federation(fraction=1.0, groups=4, algorithm_options=K_MEANS) as (method, fed):
        silent = {1: {0, 1, 2}, 2: set(range(6)), 3: {5}}

        def late(reply: Reply, request: Request) -> Reply | Failure:
            return Failure(reply.client, reply.round, "late") if reply.client in silent[fed.round] else reply

        fed.wrap_engine(lambda inner: RecordingEngine(inner, late))
        method.begin(fed)
        for t in (1, 2):
            fed.start_round(t)
            method.round(fed, range(6))
            assert method.groups() == {}
            assert method.models == []
            assert method.model_for(3) is method.start
            assert method.reason.startswith("In no round have enough clients answered")
        fed.start_round(3)
        method.round(fed, range(6))
        assert set(method.groups()) == set(range(5))
        assert set(method.groups().values()) == {0, 1, 2, 3}
        assert method.model_for(5) is method.models[0]


def test_k_means_needs_as_many_clients_as_groups() -> None:
    with pytest.raises(CoterieError, match=r"can't find 4 groups in a first cohort of 3: raise fraction=, lower gr"):
        small_run("fesem", groups=4, algorithm_options=K_MEANS)
    takes_one_client("fesem", Path(), algorithm_options=K_MEANS)  # if the number was not asked for, there are fewer


def test_equal_clients_make_fewer_groups() -> None:
    with federation(fraction=1.0, groups=3, algorithm_options=K_MEANS) as (method, fed):
        same: list[TrainReply] = []

        def copied(reply: Reply, request: Request) -> Reply:
            same.append(reply.answer(TrainReply))
            return Reply(reply.client, reply.round, (same[0],))

        fed.wrap_engine(lambda inner: RecordingEngine(inner, copied))
        method.begin(fed)
        fed.start_round(1)
        method.round(fed, range(6))
        assert len(method.models) == 1
        assert set(method.groups().values()) == {0}


@pytest.mark.integration
@pytest.mark.parametrize("join_at", [3, None])
def test_newcomers_find_their_rotation(join_at: int | None) -> None:
    late = {"newcomers": 0.3, "join_at": join_at, "newcomer_epochs": 1}
    result = small_run("fesem", **DIGITS, **late, groups=4, algorithm_options=K_MEANS)
    assert len(result.newcomers["clients"]) == 6
    assert result.ari == 1
    assert result.newcomers["founded"] == []


def test_newcomers_move_no_centre() -> None:
    with federation(**DIGITS, groups=4, algorithm_options=K_MEANS) as (method, fed):
        method.begin(fed)
        fed.start_round(1)
        method.round(fed, range(12))
        before = list(method.models)
        method.admit(fed, [12, 13])
        assert {12, 13} <= set(method.groups())
        assert all(a is b for a, b in zip(method.models, before, strict=True))


@pytest.mark.integration
def test_with_30_percent_missing_in_every_round_groups_are_found_all_the_same() -> None:
    result = small_run("fesem", **DIGITS, groups=4, drop=0.3, seed=1, algorithm_options=K_MEANS)
    assert result.ari == 1
    assert None not in result.groups


@pytest.mark.parametrize("init", ["random", "k-means"])
def test_nonsense_takes_no_part_and_zero_updates_do_no_harm(init: str) -> None:
    with federation(fraction=1.0, groups=2, algorithm_options={"init": init}) as (method, fed):

        def change(reply: Reply, request: Request) -> Reply:
            answer = reply.answer(TrainReply)
            if reply.client == 5:
                params = {name: np.full_like(value, np.nan) for name, value in answer.params.items()}
            elif reply.client in (0, 1) and request.kind == "train":
                params = dict(request.models["model"])
            else:
                params = dict(answer.params)
            return Reply(reply.client, reply.round, (replace(answer, params=params),))

        fed.wrap_engine(lambda inner: RecordingEngine(inner, change))
        method.begin(fed)
        for t in (1, 2, 3):
            fed.start_round(t)
            before = dict(method.groups())
            method.round(fed, range(6))
            assert all(np.isfinite(flat(model)).all() for model in method.models)
            assert all(
                method.groups()[c] == before.get(c, method.groups()[c]) for c in (0, 1)
            )  # they are at their centre
        assert sum(event["count"] for event in fed.events.save()) >= 3


@pytest.mark.integration
@pytest.mark.parametrize(
    "check",
    [
        repeats_itself,
        goes_on_after_an_interruption,
        needs_nothing_but_messages,
        takes_newcomers,
    ],
    ids=lambda check: check.__name__,
)
def test_the_battery_holds_with_k_means(check: Callable[..., None], tmp_path: Path) -> None:
    check("fesem", tmp_path, algorithm_options=K_MEANS)


@pytest.mark.integration
def test_the_server_keeps_no_model_of_a_client(tmp_path: Path) -> None:
    """What a checkpoint holds is θ⁰, the K centres, and the clients' groups; and that is enough to go on."""
    path = tmp_path / "checkpoint.safetensors"
    with federation(**DIGITS, groups=4, algorithm_options=K_MEANS) as (method, fed):
        method.begin(fed)
        for t in (1, 2):
            fed.start_round(t)
            method.round(fed, range(16))
        save_checkpoint(path, method.save())
        model = sum(value.nbytes for value in method.start.values())
        assert path.stat().st_size < 5 * model + 4000
        assert [*tmp_path.iterdir()] == [path]
        restored = FeSEM(**K_MEANS)
        restored.load(load_checkpoint(path))
        fed.start_round(3)
        for each in (method, restored):
            each.round(fed, range(12, 20))
            fed.start_round(fed.round)  # so that clients may be asked by both
        assert restored.groups() == method.groups()
        assert all(np.array_equal(flat(a), flat(b)) for a, b in zip(restored.models, method.models, strict=True))

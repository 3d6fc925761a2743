"""FLAG: its matrices from what clients really sent, the search for the cut, newcomers by the old scales."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms.flag import FLAG
from coterie.data import load
from coterie.errors import CoterieError
from coterie.messages import ModelSpec, Train, TrainReply, distance, update
from coterie.run.building import Session
from coterie.similarity import principal_angles, signature
from coterie.testing import SMALL, small_federation, small_run


@contextmanager
def federation(**settings: Any) -> Iterator[tuple[Session, FLAG]]:
    with small_federation("flag", **settings) as (run, _):
        assert isinstance(run.algorithm, FLAG)
        yield run, run.algorithm


def proximity(**settings: Any) -> np.ndarray:
    found = coterie.cluster(algorithm="flag", **{**SMALL, "groups": 2, **settings})
    assert found.grouping.proximity is not None
    return found.grouping.proximity


@pytest.mark.integration
def test_without_weights_and_gradients_it_is_the_mean_of_class_angles() -> None:
    """δ = 0, β = 1: V_ij is the plain mean over classes of Θ₁ between the first singular vectors, scaled."""
    found = proximity(algorithm_options={"delta": 0.0, "beta": 1.0, "share": 0.02})
    data = load("digits-rotated", clients=6)
    expected = np.zeros((6, 6))
    for c in range(10):
        own = []
        for part in data.train_parts:
            x = data.train.x[part][data.train.y[part] == c]
            own.append(signature(x, max(1, round(0.02 * len(x)))).astype(np.float32))
        expected += principal_angles(own) / 10
    assert found == pytest.approx(expected / expected.max(), abs=1e-6)


def test_the_gradients_are_those_of_the_local_training_from_the_common_start() -> None:
    """β = 0: angles of Δ_i after the warm-up epochs, divided by the largest."""
    found = proximity(algorithm_options={"beta": 0.0, "warmup": 3})
    with federation(algorithm_options={"warmup": 3}) as (run, method):
        method.start = run.fed.initial()
        sent = method.describe(run.fed, [0, 1, 2, 3, 4, 5])
    updates = np.stack([sent[client]["update"] for client in sent]).astype(np.float64)
    units = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    angles = np.degrees(np.arccos(np.clip(units @ units.T, -1, 1)))
    np.fill_diagonal(angles, 0)
    assert found == pytest.approx(angles / angles.max(), abs=1e-6)


def test_the_warm_up_ends_for_each_client_when_an_epoch_moves_its_model_by_less_than_epsilon() -> None:
    """‖Δ‖ < ε as the stopping point, against epochs asked for one by one."""
    with federation(clients=4, algorithm_options={"warmup": 6}) as (run, _):
        walks = []
        for client in range(4):
            model, walk = run.fed.initial(), [run.fed.initial()]
            for epoch in range(1, 7):
                plan = replace(run.fed.plan, epochs=1)
                verb = Train(plan, keep=False, purpose="warm-up" if epoch == 1 else f"warm-up {epoch}")
                reply = run.fed.ask({client: run.fed.request(verb, model=model)})[client]
                walk.append(model := reply.answer(TrainReply).params)
            walks.append(walk)
    norms = np.array([[distance(b, a) for a, b in pairwise(walk)] for walk in walks])
    epsilon = float(np.median(norms[:, 4]))  # half of them are there after five epochs
    ends = [int(np.flatnonzero(row < epsilon)[0]) + 1 if (row < epsilon).any() else 6 for row in norms]
    assert len(set(ends)) > 1
    with federation(clients=4, algorithm_options={"warmup": 6, "warmup_until": epsilon}) as (run, method):
        method.start = run.fed.initial()
        sent = method.describe(run.fed, [0, 1, 2, 3])
        for client, end in enumerate(ends):
            assert np.array_equal(sent[client]["update"], update(walks[client][end], method.start))


def test_half_of_each_is_the_mean_of_both() -> None:
    one, other = (proximity(algorithm_options={"beta": beta, "warmup": 3}) for beta in (0.0, 1.0))
    assert proximity(algorithm_options={"beta": 0.5, "warmup": 3}) == pytest.approx((one + other) / 2)


def test_a_cut_at_one_is_one_group_and_fedavg_bit_for_bit() -> None:
    flag, fedavg = small_run("flag", threshold=1.0), small_run("fedavg")
    assert flag.groups == [0] * 6
    assert flag.per_client == fedavg.per_client
    assert [row["loss"] for row in flag.history] == [row["loss"] for row in fedavg.history]


@pytest.mark.integration
def test_the_trial_finds_the_groups_that_turned_digits_have() -> None:
    found = coterie.cluster(algorithm="flag", dataset="digits-rotated", clients=20)
    assert (found.grouping.rule, found.ari) == ("trial", 1.0)
    assert "groups: score" in found.grouping.reason


@pytest.mark.integration
def test_the_trial_leaves_alike_clients_together() -> None:
    assert coterie.cluster(algorithm="flag", dataset="digits", clients=20).grouping.n_groups == 1


@pytest.mark.integration
def test_it_sees_permuted_labels_where_data_alone_cannot() -> None:
    """FLAG's claim: clients for whom labels mean something else have the same images."""
    permuted = {"dataset": "digits-permuted", "clients": 20, "groups": 4}
    assert coterie.cluster(algorithm="flag", **permuted).ari == 1.0
    assert (coterie.cluster(algorithm="pacfl", **permuted).ari or 0.0) < 0.5
    assert coterie.cluster(algorithm="flag", **permuted, algorithm_options={"beta": 0.0}).ari == 1.0


def test_newcomers_are_measured_by_the_scales_of_those_who_were_there() -> None:
    with federation(clients=12, groups=4) as (run, method):
        method.start = run.fed.initial()
        method.place(run.fed, [0, 1, 2, 3, 4, 5, 6, 7])
        scales, first = method.scales, dict(method.member)
        method.place(run.fed, [8, 9, 10, 11])
        assert method.scales == scales
        assert {client: method.member[client] for client in first} == first
        assert [method.member[client] for client in (8, 9, 10, 11)] == [first[client] for client in (0, 1, 2, 3)]


def test_a_newcomer_with_unseen_classes_founds_its_own_group() -> None:
    """Three clients have digits 0 to 4 only; the fourth comes with 5 to 9."""

    @coterie.partition("odd-one-out")
    def odd_one_out(data, clients, rng):  # type: ignore[no-untyped-def]
        """The last client has other classes."""
        from coterie.data import Partition

        low, high = np.flatnonzero(data.train.y < 5), np.flatnonzero(data.train.y >= 5)
        return Partition([*np.array_split(low, clients - 1), high])

    from coterie.data import PARTITIONS

    try:
        result = small_run(
            "flag",
            dataset="digits",
            partition="odd-one-out",
            clients=4,
            threshold=0.99,
            newcomers=0.25,
            newcomer_draw="last",
        )
    finally:
        del PARTITIONS._items["odd-one-out"]
    assert result.newcomers is not None
    assert result.newcomers["clients"] == result.newcomers["founded"] == [3]
    assert result.newcomers["groups"] == [1]


@pytest.mark.integration
def test_the_trial_uses_its_own_light_network_and_trains_each_group_once() -> None:
    with federation(clients=8, dataset="digits-rotated") as (run, method):
        asked: list[tuple[str, ModelSpec, int]] = []
        plain = run.fed.ask

        def ask(requests: Any) -> Any:
            asked.extend((request.kind, request.spec, client) for client, request in requests.items())
            return plain(requests)

        run.fed.ask = ask  # type: ignore[method-assign]
        method.begin(run.fed)
        trials = [(spec, client) for kind, spec, client in asked if kind == "trial"]
        assert {spec.options["hidden"] for spec, _ in trials} == {64}
        assert method.grouping is not None
        cuts = method.grouping.reason.count(": 0.")
        assert cuts > 2
        assert len(trials) < cuts * 8 * (method.trial_rounds + 1), "a group that occurs in two cuts is trained once"
        assert run.fed.training.replies == 0, "a trial is not training"


def test_drop_outs_in_every_round() -> None:
    result = small_run("flag", drop=0.3, rounds=6, clients=8, groups=4)
    assert result.accuracy["C"] is not None
    assert result.accuracy["C"] > 0.3
    assert {event["kind"] for event in result.events} == {"dropped"}


def test_without_warm_up_only_the_data_count() -> None:
    """Updates of 0 are all at 90° from each other, which moves no two clients nearer than others."""
    found, data_only = (
        coterie.cluster(algorithm="flag", **{**SMALL, "clients": 12, "groups": 4}, algorithm_options=options)
        for options in ({"warmup": 0}, {"beta": 1.0, "warmup": 1})
    )
    assert found.grouping.labels.tolist() == data_only.grouping.labels.tolist()


def test_a_threshold_is_a_share() -> None:
    with pytest.raises(CoterieError, match=r"0 to 1, got 42: write 0\.6"):
        small_run("flag", threshold=42.0)

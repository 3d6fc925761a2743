"""Which of FedGroup's groups a client joins that did not found one, and when."""

from __future__ import annotations

import numpy as np
import pytest
from fedgroup_world import begun, cosine, flat, trained

from coterie.federation.loop import admit
from coterie.streams import stream


def test_lazy_and_eager_give_the_same_groups() -> None:
    """Whole batches, so that the order of samples, which depends on the round, does not matter."""
    settings = {"clients": 16, "groups": 4, "alpha_pre": 2, "batch_size": 10_000, "pretrain_steps": 20}
    with begun(**settings, fraction=0.25) as lazy, begun(**settings, eager=True) as eager:
        assert len(lazy.method.member) == 8
        assert len(eager.method.member) == 16
        assert set(lazy.method.member.items()) < set(eager.method.member.items())
        for t in range(1, 4):
            new = [c for c in lazy.fed.cohort(t) if c not in lazy.method.member]
            lazy.requests.clear()
            lazy.play(t)
            assert sorted(lazy.requests[0]) == new or not new
            assert {*new} <= lazy.method.member.keys()
        assert len(lazy.method.member) > 10
        assert set(lazy.method.member.items()) <= set(eager.method.member.items())


def test_who_does_not_answer_before_round_1_is_not_asked_twice() -> None:
    with begun(clients=20, groups=3, alpha_pre=3, eager=True, drop=0.4) as run:
        first, others = run.requests
        assert len(first) == 9
        assert {*first} | {*others} == {*range(20)}
        assert not {*first} & {*others}
        assert 0 < len(run.method.cold) == run.fed.events.kinds["dropped"]["count"]
        assert run.method.cold == {*range(20)} - run.method.groups().keys()


@pytest.mark.parametrize("direction", ["cold-start", "latest"])
def test_newcomers_join_the_group_of_nearest_direction(direction: str) -> None:
    with begun(clients=12, groups=4, newcomers=0.34, join_at=3, fraction=1.0, direction=direction) as run:
        first = [*run.method.directions]
        run.play(1)
        before = [flat(model) for model in run.method.models]
        run.play(2)
        changes = [flat(model) - old for model, old in zip(run.method.models, before, strict=True)]
        run.fed.start_round(3)
        run.method.round(run.fed, [])
        for ours, cold, latest in zip(run.method.directions, first, changes, strict=True):
            assert np.allclose(ours, cold if direction == "cold-start" else latest, atol=1e-7)
        newcomers = run.fed.newcomers
        assert len(newcomers) == 4
        admit(run.fed, run.algorithm)
        deltas = run.first_updates(3)
        for client in newcomers:
            cosines = [cosine(deltas[client], d.astype(np.float64)) for d in run.method.directions]
            assert run.method.member[client] == int(np.argmax(cosines))
            assert run.fed.joined[client] == run.fed.round


def test_a_group_without_direction_is_never_chosen_and_ties_go_to_the_first() -> None:
    with begun(alpha_pre=1, groups=3) as run:
        delta = run.first_updates()[next(c for c in range(6) if c not in run.method.member)].astype(np.float32)
        run.method.models = [run.method.start] * 3
        run.method.directions = [np.zeros_like(delta), -delta, delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {2}
        run.method.directions = [-delta, delta, delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {1}
        run.method.directions = [np.zeros_like(delta), -delta, -delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {1}


def test_random_centres_are_one_client_each() -> None:
    with begun(clients=12, groups=3, centres="random", eager=True) as run:
        deltas, start = run.first_updates(), flat(run.fed.initial())
        founders = sorted(run.requests[0])
        assert len(founders) == 3
        assert [run.method.member[c] for c in founders] == [0, 1, 2]
        for group, client in enumerate(founders):
            assert np.allclose(flat(run.method.models[group]), start + deltas[client], atol=1e-6)
        for client in range(12):
            assert run.method.member[client] == np.argmax([cosine(deltas[client], deltas[f]) for f in founders])
        assert run.method.grouping is not None
        assert run.method.grouping.reason == "3 groups of 3 first updates, each of a client drawn at random."


def test_random_assignment_is_drawn_once_without_pre_training() -> None:
    cold = {"clients": 40, "groups": 3, "alpha_pre": 2}
    settings = {**cold, "assignment": "random-once", "fraction": 0.2}
    with (
        begun(**settings) as lazy,
        begun(**settings, eager=True) as eager,
        begun(**cold) as plain,
    ):
        assert lazy.method.member == plain.method.member  # the founders', by EDC
        lazy.play(*range(1, 9))
        assert set(lazy.method.member.items()) < set(eager.method.member.items())
        assert len(eager.method.member) == 40
        assert np.bincount([*eager.method.member.values()]).min() > 5
        assert sum(len(r) for r in eager.requests) == 6
        assert all(trained(r).purpose == "train" for r in lazy.requests[1:])


def test_random_assignment_at_every_selection_spares_the_founders() -> None:
    with begun(clients=12, groups=3, alpha_pre=2, assignment="random-each", fraction=0.5) as run:
        founders, seen = dict(run.method.member), []
        for t in range(1, 7):
            before = dict(run.method.member)
            run.play(t)
            cohort, now = run.fed.cohort(t), run.method.member
            assert {c: now[c] for c in founders} == founders
            assert all(now[c] == before[c] for c in before if c not in cohort)
            for client in set(cohort) - founders.keys():
                assert now[client] == stream(run.fed.seed, "random group", client, t).integers(3)
                seen.append((client, now[client]))
            assert run.method.grouping is not None
            assert run.method.grouping.labels.tolist() == [*now.values()]
        assert len({client for client, _ in seen}) < len(set(seen))

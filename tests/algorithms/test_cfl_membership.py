"""Who goes where when CFL splits a group or a client comes later, and that only this round's updates move a model."""

from __future__ import annotations

import pytest
from steered_cfl import OPPOSED, federation, flat, play, steered

from coterie.algorithms.cfl import CFL
from coterie.federation import Federation

# The two bugs of the authors' code, and who goes where


def test_parts_of_a_part_are_clients_and_not_positions() -> None:
    """The odd clients are split off, then divided: positions in that group are 0 … 5, its clients 1, 3 … 11."""

    def delta(client: int, t: int) -> tuple[float, ...]:
        if t == 1:
            return (2, 0) if client % 2 else (-2, 0)
        if client % 2:
            return (0, 2) if client < 7 else (0, -2)
        return (3, 0)

    with federation(clients=12, algorithm_options={"min_round": 0}) as (method, fed):
        steered(fed, delta)
        play(method, fed, [range(12)] * 2)
        assert len(method.splits) == 2
        parts = [{c for c, z in method.groups().items() if z == group} for group in range(3)]
        assert parts == [{0, 2, 4, 6, 8, 10}, {1, 3, 5}, {7, 9, 11}]


def test_updates_of_earlier_rounds_never_move_a_model_nor_count_in_norms() -> None:
    """Client 0 pulls hard in round 1 and is then away: it is no part of any later mean."""
    pulls = {1: {0: (50.0,), 1: (0.0,)}, 2: {2: (0.1,), 3: (0.3,)}, 3: {2: (-0.2,)}}
    with federation(algorithm_options={"min_round": 0}) as (method, fed):
        steered(fed, lambda client, t: pulls[t][client])
        method.begin(fed)
        at = flat(method.models[0])[0]
        for t, mean in {1: 25.0, 2: 0.2, 3: -0.2}.items():
            fed.start_round(t)
            method.round(fed, [*pulls[t]])
            at += mean
            assert flat(method.models[0])[0] == pytest.approx(at, abs=1e-5)
            assert method.norms[0][0] == pytest.approx(abs(mean), abs=1e-5)


def test_after_a_split_each_group_moves_by_the_plain_mean_of_its_own_participants() -> None:
    with federation(algorithm_options={"min_round": 0}) as (method, fed):
        steered(fed, lambda client, t: OPPOSED[client])
        method.begin(fed)
        before = flat(method.models[0])
        fed.start_round(1)
        method.round(fed, [0, 1, 2, 3])
        first, second = (flat(model) - before for model in method.models)
        assert first[:3] == pytest.approx([2, 0.05, 0], abs=1e-5)
        assert second[:3] == pytest.approx([-2, 0.05, 0], abs=1e-5)


def test_who_was_away_follows_its_last_known_update_and_who_has_none_stands_at_the_split() -> None:
    """Clients 4 and 5 were seen in round 1; of 6 and 7 nothing is known until 7 is asked, in round 3."""
    seen = {4: (-0.3, 0.1), 5: (0.3, 0.1)}

    def delta(client: int, t: int) -> tuple[float, ...] | None:
        if client in (6, 7):
            return (-1.0, 0.1) if t > 2 else None
        return {1: seen, 2: OPPOSED, 3: OPPOSED}[t].get(client)

    with federation(clients=8, algorithm_options={"min_round": 1}) as (method, fed):
        engine = steered(fed, delta)
        play(method, fed, [[4, 5], [0, 1, 2, 3]])
        before = method.splits[0].then.value["model"]
        assert method.groups() == {0: 0, 1: 1, 2: 0, 3: 1, 4: 1, 5: 0}
        assert method.standing == {6: 0, 7: 0}
        assert method.model_for(7) is method.model_for(0)  # of equally large groups, the first

        fed.start_round(3)
        method.member[0] = 1  # now the second is larger
        assert method.model_for(7) is method.models[1]
        method.round(fed, [7])
        assert method.groups()[7] == 1
        assert method.standing == {6: 0}
        (walk, train) = [requests[7] for requests in engine.exchanges if 7 in requests]
        assert (walk.kind, walk.verbs[0].keep, walk.verbs[0].purpose) == ("walk", False, "walk")
        assert walk.models["model"] is before
        assert train.verbs[0].keep


# The walk down the tree


def two_levels(method: CFL, fed: Federation) -> None:
    """Split 0 | 1 along the first axis, and then 1 into 1 | 2 along the second."""

    def delta(client: int, t: int) -> tuple[float, ...]:
        if t == 1:
            return (2, 0) if client < 4 else (-2, 0)
        return (3, 0) if client < 4 else (0, 2) if client < 6 else (0, -2)

    steered(fed, delta)
    play(method, fed, [range(8)] * 2)
    assert [split.groups for split in method.splits] == [(0, 1), (1, 2)]
    fed.wrap_engine(lambda engine: engine.inner)


@pytest.mark.parametrize(
    ("pull", "group", "walks"),
    [((1, 5), 0, 1), ((-1, 5), 1, 2), ((-1, -5), 2, 2), ((0, 0), 0, 1), ((0, 5), 0, 1)],
)
def test_newcomers_walk_down_the_tree(pull: tuple[float, ...], group: int, walks: int) -> None:
    """At each split from the model of then; of equal cosines the first side is taken."""
    with federation(clients=10, algorithm_options={"min_round": 0}) as (method, fed):
        two_levels(method, fed)
        engine = steered(fed, lambda client, t: pull)
        fed.start_round(3)
        del method.standing[9]  # who is then a newcomer
        method.admit(fed, [9])
        assert method.groups()[9] == group
        models = [request.models["model"] for requests in engine.exchanges for request in requests.values()]
        assert len(models) == walks
        assert all(model is split.then.value["model"] for model, split in zip(models, method.splits, strict=False))


def test_what_was_learnt_on_the_walk_serves_at_the_next_split() -> None:
    """Client 9 walks to group 0 and never trains there; when that is split it follows what it walked by."""
    with federation(clients=10, algorithm_options={"min_round": 0}) as (method, fed):
        two_levels(method, fed)
        steered(fed, lambda client, t: (1, -5) if client == 9 else (0, 2) if client < 2 else (0, -2))
        fed.start_round(3)
        method.place(fed, [9])
        fed.start_round(4)
        method.round(fed, range(4))
        assert [split.groups for split in method.splits] == [(0, 1), (1, 2), (0, 3)]
        assert [method.groups()[client] for client in (0, 1, 2, 3, 9)] == [0, 0, 3, 3, 3]
        assert method.standing == {8: 0}


def test_who_falls_silent_on_the_way_stays_there_and_goes_on_later() -> None:
    with federation(clients=10, algorithm_options={"min_round": 0}) as (method, fed):
        two_levels(method, fed)
        del method.standing[9]
        answers = [(-1, -5), None, None]
        steered(fed, lambda client, t: answers.pop(0) if answers else (-1, -5))
        fed.start_round(3)
        method.admit(fed, [9])
        assert method.standing[9] == 1
        assert 9 not in method.groups()
        assert method.model_for(9) is method.models[1]
        fed.start_round(4)
        method.round(fed, [9])
        assert method.standing[9] == 1  # silent again: it neither walks nor trains
        fed.start_round(5)
        method.round(fed, [9])
        assert method.groups()[9] == 2


def test_a_client_at_a_split_receives_the_largest_group_that_came_of_it() -> None:
    with federation(clients=10, algorithm_options={"min_round": 0}) as (method, fed):
        two_levels(method, fed)
        assert method.standing == {8: 0, 9: 0}
        for sizes, largest in (((3, 2, 4), 2), ((3, 3, 3), 0), ((1, 5, 2), 1)):
            labels = [group for group, size in enumerate(sizes) for _ in range(size)]
            method.member = dict(enumerate(labels))
            assert method.model_for(9) is method.models[largest]
        method.standing[9] = 1
        method.member = dict.fromkeys(range(6), 0) | {6: 2}
        assert method.model_for(9) is method.models[2]

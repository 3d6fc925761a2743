"""CFL: when groups are split and how, who goes where, and that only this round's updates move a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

import coterie
from coterie.algorithms.cfl import CFL
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.messages import Params, Request, TrainReply
from coterie.testing import RecordingEngine, ScriptedEngine, outcome, small_federation, small_run
from coterie.testing import does_not_depend_on_workers as workers
from coterie.testing import goes_on_after_an_interruption as interruption
from coterie.testing import needs_nothing_but_messages as messages

SPLITTING = {"eps1": 0.4, "eps2": 0.6, "min_round": 5}
"""For twenty clients of digits-rotated and the network `mlp`."""
DIGITS = {"clients": 20, "fraction": 1.0, "rounds": 12, "epochs": 5, "lr": 0.02, "model_options": {}, "eval_every": 0}


@contextmanager
def federation(**settings: Any) -> Iterator[tuple[CFL, Federation]]:
    with small_federation("cfl", **settings) as (run, _):
        yield run.algorithm, run.fed  # type: ignore[misc]


def flat(params: Params) -> np.ndarray:
    return np.concatenate([value.ravel() for value in params.values()]).astype(np.float64)


def moved(model: Params, delta: Sequence[float]) -> dict[str, np.ndarray]:
    """Add to the first entries of a model."""
    name, value = next(iter(model.items()))
    changed = value.copy().ravel()
    changed[: len(delta)] += np.asarray(delta, np.float32)
    return {**model, name: changed.reshape(value.shape)}


def play(method: CFL, fed: Federation, cohorts: Sequence[Sequence[int]]) -> None:
    """Run rounds 1, 2, … with these cohorts."""
    method.begin(fed)
    for t, cohort in enumerate(cohorts, start=1):
        fed.start_round(t)
        method.round(fed, cohort)


def steered(fed: Federation, delta: Callable[[int, int], Any]) -> ScriptedEngine:
    """Let clients answer with the updates that a test decides; None is silence."""

    def script(client: int, request: Request) -> TrainReply | None:
        update = delta(client, request.round)
        return None if update is None else TrainReply(10, 1, 1.0, moved(request.models["model"], update))

    return fed.wrap_engine(lambda inner: ScriptedEngine(inner, script))


class Recorded(RecordingEngine):
    """What clients trained, before and after, by round and client; walks apart."""

    @property
    def trained(self) -> dict[int, dict[int, tuple[np.ndarray, np.ndarray]]]:
        pairs: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        for (t, client), answer in self.answers(TrainReply).items():
            before = flat(self.requests[t, client, "train"].models["model"])
            pairs.setdefault(t, {})[client] = before, flat(answer.params)
        return pairs

    @property
    def walked(self) -> list[int]:
        return [client for _, client, kind in self.replies if kind == "walk"]


# When there is no split


def test_without_splits_it_is_the_plain_mean_of_the_cohort() -> None:
    """Against a loop in float64, with clients of unequal size."""
    unequal = {"dataset": "digits", "partition": "dirichlet:alpha=0.5", "rounds": 4, "model": "mclr"}
    with federation(**unequal, model_options={}) as (method, fed):
        engine = fed.wrap_engine(Recorded)
        method.begin(fed)
        for t in range(1, 5):
            fed.start_round(t)
            method.round(fed, fed.cohort(fed.round))
            thetas = [after for _, after in engine.trained[fed.round].values()]
            assert len(thetas) == 3
            assert np.allclose(flat(method.model_for(0)), np.mean(thetas, axis=0), rtol=1e-6, atol=1e-8)
        assert len({fed.samples[client] for client in range(6)}) > 1
        assert method.groups() == dict.fromkeys(range(6), 0)
        assert method.reason.startswith("No group was split. At last ‖mean Δ‖ and max ‖Δ‖ were ")


def test_without_splits_and_with_equal_clients_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(240) % 4
    x = (rng.normal(0, 1, (240, 12)) + np.eye(4, 12)[y] * 3).astype(np.float32)
    np.savez(tmp_path / "equal.npz", x_train=x, y_train=y, x_test=x[:40], y_test=y[:40])
    settings = {"dataset": str(tmp_path / "equal.npz"), "model": "mclr", "model_options": {}, "rounds": 6}
    cfl, fedavg = outcome(small_run("cfl", **settings)), outcome(small_run("fedavg", **settings))
    for row in (*cfl["history"], *fedavg["history"]):
        del row["groups"]
    assert cfl["history"] == fedavg["history"]
    assert cfl["accuracy"]["G"] is not None


OPPOSED = {0: (2, 0), 1: (-2, 0), 2: (2, 0.1), 3: (-2, 0.1), 4: (0, 0.1), 5: (0.1, 0)}


@pytest.mark.parametrize(
    ("options", "cohort", "splits"),
    [
        ({}, [0, 1, 2, 3], True),
        ({"min_round": 1}, [0, 1, 2, 3], False),  # in round 1
        ({"eps1": 0.04}, [0, 1, 2, 3], False),  # ‖mean‖ is 0.05
        ({"eps1": 0.06}, [0, 1, 2, 3], True),
        ({"eps2": 2.1}, [0, 1, 2, 3], False),  # the longest is 2.002
        ({}, [0, 1], False),  # two are not split
        ({}, [0, 2, 4], False),  # as a whole they move
        ({}, [4, 5, 3], False),
    ],
)
def test_a_group_is_split_if_it_stands_still_while_its_clients_do_not(
    options: dict[str, Any], cohort: list[int], splits: bool
) -> None:
    with federation(algorithm_options={"min_round": 0, **options}) as (method, fed):
        steered(fed, lambda client, t: OPPOSED[client])
        play(method, fed, [cohort])
        assert len(method.splits) == splits
        rows = np.array([OPPOSED[client] for client in cohort], float)
        norms = np.linalg.norm(rows.mean(axis=0)), np.linalg.norm(rows, axis=1).max()
        assert method.norms[0] == pytest.approx(norms, abs=1e-5)
        if splits:
            groups = method.groups()
            assert [groups[client] for client in cohort] == [0, 1, 0, 1]
            assert method.reason.startswith("Groups were split in rounds 1.")


def test_a_run_in_which_nobody_answers_says_so() -> None:
    result = small_run("cfl", drop=1.0)
    assert result.grouping["reason"].startswith("No group was split. At last ‖mean Δ‖ and max ‖Δ‖ were not known")


def test_no_split_up_to_min_round() -> None:
    with federation(algorithm_options={"min_round": 2}) as (method, fed):
        steered(fed, lambda client, t: OPPOSED[client])
        play(method, fed, [[0, 1, 2, 3]] * 3)
        assert [split.round for split in method.splits] == [3]


@pytest.mark.integration
def test_relative_thresholds_are_multiples_of_the_first_mean_length() -> None:
    """The same run, with absolute thresholds that are those multiples, splits in the same rounds."""
    relative = {"relative": True, "eps1": 0.4, "eps2": 0.5, "min_round": 2}
    runs = []
    for options in (relative, None):
        unit = runs[0].unit if runs else 0
        given = options or {"eps1": 0.4 * unit, "eps2": 0.5 * unit, "min_round": 2}
        with federation(**DIGITS, algorithm_options=given) as (method, fed):
            engine = fed.wrap_engine(Recorded)
            play(method, fed, [range(20)] * 9)
            runs.append(method)
    first = [np.linalg.norm(after - before) for before, after in engine.trained[1].values()]
    assert runs[0].unit == pytest.approx(np.mean(first), rel=1e-5)
    assert runs[1].unit == 1
    assert len(runs[0].splits) > 1
    assert [split.round for split in runs[0].splits] == [split.round for split in runs[1].splits]
    assert runs[0].groups() == runs[1].groups()


def test_a_round_without_updates_is_no_measure() -> None:
    with federation(algorithm_options={"relative": True, "min_round": 0}) as (method, fed):
        steered(fed, lambda client, t: (0.0,) if t == 1 else None if t == 2 else (2.0 * client,))
        play(method, fed, [range(1, 4)] * 3)
        assert method.unit == pytest.approx(4)
        assert not method.splits


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


# Against an independent implementation


def reference(engine: Recorded, clients: int, options: dict[str, Any]) -> list[tuple[list[Any], list[np.ndarray]]]:
    """Play CFL on recorded training, in float64 and with SciPy; return groups and models after each round."""
    member: list[Any] = [0] * clients
    last: dict[int, np.ndarray] = {}
    n, after_rounds, models = 1, [], list[np.ndarray]()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        return float(a @ b / lengths) if lengths else 0.0

    for t, trained in sorted(engine.trained.items()):
        delta = {client: after - before for client, (before, after) in sorted(trained.items())}
        last |= delta
        for group in range(n):
            own = [client for client in delta if member[client] == group]
            if len(own) <= 2 or t <= options["min_round"]:
                continue
            mean = np.linalg.norm(sum(delta[client] for client in own) / len(own))
            if mean >= options["eps1"] or max(np.linalg.norm(delta[client]) for client in own) <= options["eps2"]:
                continue
            apart = [1 - cosine(delta[a], delta[b]) for i, a in enumerate(own) for b in own[i + 1 :]]
            found = fcluster(linkage(apart, "complete"), 2, "maxclust")
            sides = [
                [c for c, f in zip(own, found, strict=True) if bool(f == found[0]) is first] for first in (True, False)
            ]
            means = [sum(delta[client] for client in side) / len(side) for side in sides]
            for client in range(clients):
                if member[client] != group:
                    continue
                if client in own:
                    member[client] = group if client in sides[0] else n
                elif client in last:
                    member[client] = group if cosine(last[client], means[0]) >= cosine(last[client], means[1]) else n
                else:
                    member[client] = None
            n += 1
        models += [None] * (n - len(models))  # type: ignore[list-item]
        for group in range(n):
            own = [client for client in delta if member[client] == group]
            if own:
                models[group] = sum(trained[client][1] for client in own) / len(own)
        after_rounds.append((list(member), list(models)))
    return after_rounds


@pytest.mark.integration
@pytest.mark.parametrize(
    ("dataset", "fraction", "drop"),
    [("digits-rotated", 1.0, 0.0), ("digits-permuted", 0.7, 0.0), ("digits-rotated", 0.8, 0.3)],
)
def test_against_a_direct_loop(dataset: str, fraction: float, drop: float) -> None:
    settings = {**DIGITS, "dataset": dataset, "fraction": fraction, "drop": drop, "rounds": 13}
    ours = []
    with federation(**settings, algorithm_options=SPLITTING) as (method, fed):
        engine = fed.wrap_engine(Recorded)
        method.begin(fed)
        for t in range(1, 14):
            fed.start_round(t)
            method.round(fed, fed.cohort(fed.round))
            ours.append(([method.groups().get(c) for c in range(20)], [flat(m) for m in method.models]))
        assert not engine.walked  # else clients would come in that the loop does not know of
        theirs = reference(engine, 20, SPLITTING)
    assert max(max(groups) for groups, _ in ours) >= 3
    for t, ((our_groups, our_models), (their_groups, their_models)) in enumerate(zip(ours, theirs, strict=True), 1):
        assert our_groups == their_groups, f"round {t}"
        for a, b in zip(our_models, their_models, strict=True):
            assert np.allclose(a, b, rtol=1e-5, atol=1e-6), f"round {t}"


# On real data


@pytest.mark.integration
@pytest.mark.parametrize(("fraction", "seed"), [(1.0, 0), (1.0, 1), (0.5, 0), (0.5, 2)])
def test_it_finds_the_rotations(fraction: float, seed: int) -> None:
    settings = {**DIGITS, "fraction": fraction, "seed": seed, "rounds": 14}
    result = small_run("cfl", **settings, algorithm_options=SPLITTING)
    assert result.ari == 1
    assert result.history[-1]["groups"] == 4


@pytest.mark.integration
@pytest.mark.parametrize("join_at", [4, 12, None])
def test_newcomers_find_their_rotation(join_at: int | None) -> None:
    """Before the splits they are in the group of all; later they walk; also when training is over."""
    late = {"newcomers": 0.3, "join_at": join_at, "rounds": 12, "newcomer_epochs": 1}
    result = small_run("cfl", **{**DIGITS, **late}, algorithm_options=SPLITTING)
    assert len(result.newcomers["clients"]) == 6
    assert result.ari == 1
    assert ("walk" in result.traffic["by_kind"]) is (join_at != 4)


@pytest.mark.integration
def test_with_30_percent_missing_in_every_round_groups_are_found_all_the_same() -> None:
    result = small_run("cfl", **{**DIGITS, "rounds": 16}, drop=0.3, algorithm_options=SPLITTING)
    assert result.ari == 1
    assert sum(event["count"] for event in result.events) > 60


@pytest.mark.parametrize("nonsense", [np.nan, np.inf])
def test_nonsense_takes_no_part(nonsense: float) -> None:
    with federation(algorithm_options={"min_round": 0}) as (method, fed):
        steered(fed, lambda client, t: (nonsense,) if client == 5 else OPPOSED[client])
        play(method, fed, [[0, 1, 2, 3, 5]])
        assert sum(event["count"] for event in fed.events.save()) == 1
        assert 5 in method.standing
        assert all(np.isfinite(flat(model)).all() for model in method.models)


def test_updates_of_zero_have_no_direction() -> None:
    """They neither fail nor split, and at a split they go to some side."""
    with federation(algorithm_options={"min_round": 0}) as (method, fed):
        steered(fed, lambda client, t: (0.0,) if t == 1 or client > 3 else OPPOSED[client])
        play(method, fed, [range(6), range(4), range(6)])
        assert len(method.splits) == 1
        assert set(method.groups()) == set(range(6))
        assert not method.standing


@pytest.mark.parametrize("clients", [1, 2])
def test_one_client_or_two_are_never_split(clients: int) -> None:
    settings = {"dataset": "digits", "clients": clients, "fraction": 1.0}
    result = small_run("cfl", **settings, algorithm_options={"eps1": 9.0, "eps2": 1e-9, "min_round": 0})
    assert result.groups == [0] * clients


# What is kept

EAGER = {"eps1": 50.0, "eps2": 1e-6, "min_round": 1}
"""Splits whenever three clients of a group train."""


@pytest.mark.integration
@pytest.mark.parametrize("check", [workers, interruption, messages], ids=lambda check: check.__name__)
def test_the_battery_holds_with_splits_in_every_round(check: Callable[..., None], tmp_path: Path) -> None:
    check("cfl", tmp_path, clients=9, fraction=0.6, newcomers=0.3, join_at=3, algorithm_options=EAGER)


def test_a_state_that_was_saved_goes_on_as_the_one_that_was_not(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    settings = {**DIGITS, "clients": 12, "fraction": 0.5, "rounds": 8, "epochs": 2}
    options = {**EAGER, "relative": True}
    with federation(**settings, algorithm_options=options) as (method, fed):
        play(method, fed, [fed.cohort(t) for t in range(1, 5)])
        assert method.splits
        assert method.standing
        save_checkpoint(path, method.save())
        restored = CFL(**options)
        restored.load(load_checkpoint(path))
        assert (restored.standing, restored.norms) == (method.standing, method.norms)
        assert restored.unit == method.unit != 1
        waiting = next(iter(method.standing))
        assert np.array_equal(flat(restored.model_for(waiting)), flat(method.model_for(waiting)))
        for t in (5, 6, 7):
            fed.start_round(t)
            method.round(fed, fed.cohort(t))
            fed.start_round(fed.round)  # each client is asked by both
            restored.round(fed, fed.cohort(t))
            fed.start_round(fed.round)
        assert restored.groups() == method.groups()
        assert restored.standing == method.standing
        assert restored.norms == method.norms
        assert restored.reason == method.reason
        for a, b in zip(restored.models, method.models, strict=True):
            assert np.array_equal(flat(a), flat(b))


def test_a_checkpoint_writes_only_the_updates_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with federation(rounds=3) as (method, fed):
        method.begin(fed)
        files: set[str] = set()
        for t, cohort in ((1, [0, 1, 2]), (2, [2, 3])):
            fed.start_round(t)
            method.round(fed, cohort)
            save_checkpoint(path, method.save())
            before, files = files, {file.name for file in tmp_path.glob("checkpoint-*")}
        assert len(files) == 4
        assert len(files & before) == 2  # those of clients 0 and 1


def test_it_takes_no_wishes() -> None:
    with pytest.raises(CoterieError, match=r"'cfl' .* leave out the keys of \[grouping\]"):
        coterie.run(algorithm="cfl", dataset="digits", groups=4)

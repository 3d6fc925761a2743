"""When CFL splits a group and when it does not, in which case it is the plain mean of the cohort."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steered_cfl import DIGITS, OPPOSED, Recorded, federation, flat, play, steered

from coterie.testing import outcome, small_run


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

"""PACFL and FLAG look at groups again: who has moved goes where it belongs, and where nobody has, nothing changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drift_world import agreement, drifting, play, turned

from coterie.testing import goes_on_after_an_interruption, small_run

TURNED = [0, 1, 2, 3, 0, 1, 2, 3]
METHODS: dict[str, dict[str, Any]] = {
    "pacfl": {"redescribe": 1},
    "flag": {"redescribe": 1, "warmup": 3},
}
pytestmark = pytest.mark.integration


@pytest.mark.parametrize("method", METHODS)
def test_a_client_whose_samples_are_turned_moves_to_those_who_see_them_so(method: str) -> None:
    run_options = {"clients": 8, "groups": 4, "algorithm_options": METHODS[method]}
    with drifting(method, [0], 2, turned(1), **run_options) as run:
        assert agreement(run.algorithm, TURNED) == 1.0
        play(run, 1)
        before = {client: run.algorithm.model_for(client) for client in range(8)}
        run.fed.start_round(2)
        run.algorithm.train = lambda fed, cohort: {}  # type: ignore[attr-defined, method-assign]
        run.algorithm.round(run.fed, run.fed.cohort(2))
        assert agreement(run.algorithm, [1, *TURNED[1:]]) == 1.0
        assert run.algorithm.model_for(0) is before[1]  # with the model of those it has come to
        assert all(run.algorithm.model_for(client) is before[client] for client in range(1, 8))
        assert run.algorithm.grouping is not None
        assert "Grouped anew in round 2: what 1 client sent had moved by more than the cut." in (
            run.algorithm.grouping.reason
        )


@pytest.mark.parametrize("method", METHODS)
def test_without_drift_nothing_changes_by_a_bit(method: str) -> None:
    settings = {"clients": 8, "groups": 4, "rounds": 2, "eval_every": 1}
    options = METHODS[method]
    once, again = (
        small_run(method, **settings, algorithm_options={**options, "redescribe": every}) for every in (0, 1)
    )
    assert again.per_client == once.per_client
    assert again.groups == once.groups
    assert [row["loss"] for row in again.history] == [row["loss"] for row in once.history]
    assert again.traffic["up_bytes"] > once.traffic["up_bytes"]


def test_a_run_that_is_broken_off_around_a_drift_goes_on(tmp_path: Path) -> None:
    drifting_data = {"dataset_options": {"drift_at": 2}, "rounds": 3, "clients": 6, "groups": 3}
    goes_on_after_an_interruption("pacfl", tmp_path, **drifting_data, algorithm_options={"redescribe": 1})

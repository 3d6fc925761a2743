"""Whole runs of both kinds of FLIS: with clients away, with one only, resumed, saved and written down."""

from pathlib import Path
from typing import Any

import pytest
from flis_world import BOTH, opened, play, same

import coterie
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.testing import goes_on_after_an_interruption, outcome, small_run


@pytest.mark.integration
@BOTH
def test_it_goes_on_when_a_third_of_the_clients_is_away(method: str) -> None:
    result = small_run(method, dataset="digits", clients=10, rounds=12, epochs=5, drop=0.3)
    assert result.accuracy["L"] > 0.6
    assert {event["kind"] for event in result.events} == {"dropped"}


@BOTH
def test_one_client_is_a_cluster(method: str) -> None:
    result = small_run(method, dataset="digits", clients=1)
    assert result.groups == [0]
    assert result.grouping["reason"] == "There is one client."


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("flis-dc", {"select_on": "holdout", "soft": True, "beta": 0.9}),
        ("flis-dc", {"select_on": "server", "beta": 0.6}),
        ("flis-hc", {"server_data": "noise", "soft": True}),
        ("flis-hc", {"hc_mode": "row-threshold", "beta": 0.6}),
    ],
)
def test_a_resumed_run_ends_as_if_nothing_had_happened(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    goes_on_after_an_interruption(method, tmp_path, algorithm_options=options)


@BOTH
def test_what_is_saved_is_all_there_is(method: str, tmp_path: Path) -> None:
    with opened(method, epochs=5, algorithm_options={"beta": 0.5}) as run, opened(method) as other:
        old, new = play(run, 2), other.algorithm
        save_checkpoint(tmp_path / "state", old.save())
        new.load(load_checkpoint(tmp_path / "state"))
        assert new.groups() == old.groups()
        assert new.grouping.summary() == old.grouping.summary()
        assert all(same(a, b) for a, b in zip(new.models, old.models, strict=True))
        if method == "flis-dc":
            assert new.memberships() == old.memberships()


@BOTH
def test_results_tell_how_groups_were_found(method: str, tmp_path: Path) -> None:
    result = small_run(method, out=str(tmp_path / "run"))
    assert result.grouping["rule"] == "silhouette"
    assert result.grouping["unit"] == "disagreement"
    assert outcome(coterie.Result.load(tmp_path / "run")) == outcome(result)

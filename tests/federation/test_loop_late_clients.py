"""The door for newcomers: who is held back, when they come, what they do and what is told about them."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.loop import afterwards, rounds
from coterie.run.building import arrivals, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine, small_run

MANY = {**SMALL, "clients": 20}


def held(**settings: Any) -> dict[int, int]:
    config = settings_to_config(None, {**MANY, **settings})
    data = load_data(config)
    return arrivals(completed(config, data), data)


def test_so_many_are_held_back_until_training_is_over() -> None:
    assert held() == {}
    assert held(newcomers=0.2, newcomer_draw="last") == dict.fromkeys(range(16, 20), 5)
    drawn = held(newcomers=0.2)
    assert len(drawn) == 4
    assert drawn == held(newcomers=0.2)
    assert drawn != held(newcomers=0.2, seed=1)
    assert set(held(newcomers=0.3, join_at=3).values()) == {3}


def test_somebody_is_always_there_from_the_beginning() -> None:
    assert len(held(newcomers=0.99)) == 19


def test_less_than_one_client_is_refused() -> None:
    with pytest.raises(CoterieError, match=r"0\.01 of 20 clients is less than one"):
        held(newcomers=0.01)


@pytest.mark.integration
def test_they_see_no_request_before_they_come_and_are_in_cohorts_from_the_next_round_on() -> None:
    config = settings_to_config(
        None, {"algorithm": "pacfl", **MANY, "fraction": 1.0, "newcomers": 0.2, "join_at": 3, "newcomer_draw": "last"}
    )
    data = load_data(config)
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Progress())) as run:
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        afterwards(run.fed, run.algorithm, run.evaluator)
        assert sorted(run.fed.joined) == [16, 17, 18, 19]
    late = [(t, kind) for t, client, kind in engine.requests if client == 18]
    assert late[0] == (3, "signature")
    assert late[1] == (3, "newcomer")
    assert late[2] == (4, "train")


def test_fine_tuning_is_so_many_epochs_of_the_model_that_they_receive() -> None:
    """After training, an untuned newcomer's own model is what it would receive; a tuned one's is not."""
    plain = small_run("fedavg", clients=6, newcomers=0.34, newcomer_epochs=0)
    tuned = small_run("fedavg", clients=6, newcomers=0.34, newcomer_epochs=20)
    assert plain.newcomers is not None
    assert tuned.newcomers is not None
    assert "newcomer" not in plain.traffic["by_kind"]
    assert plain.newcomers["per_client"]["C"] == tuned.newcomers["per_client"]["C"]
    assert tuned.newcomers["accuracy"]["L"] > tuned.newcomers["accuracy"]["C"]
    sent = tuned.traffic["by_kind"]["newcomer"]
    assert sent["down"] > 2 * 4 * (64 * 16 + 16 + 16 * 10 + 10)
    assert sent["up"] < 2000, "what a newcomer tunes stays with it"


@pytest.mark.integration
def test_the_others_results_do_not_depend_on_those_who_come_afterwards() -> None:
    one, other = (small_run("pacfl", clients=8, newcomers=0.25, newcomer_epochs=epochs) for epochs in (0, 3))
    assert one.accuracy == other.accuracy
    assert one.per_client == other.per_client


def test_alone_a_newcomer_trains_from_the_common_start() -> None:
    result = small_run("solo", clients=6, newcomers=0.34, newcomer_epochs=10)
    assert result.newcomers is not None
    assert result.newcomers["accuracy"]["C"] is None
    assert result.newcomers["accuracy"]["L"] > 0.3


def test_joining_after_the_last_round_is_refused() -> None:
    with pytest.raises(CoterieError, match="join_at = 9 is after the last round, 4"):
        settings_to_config(None, {**SMALL, "newcomers": 0.5, "join_at": 9})
    with pytest.raises(CoterieError, match="join_at needs newcomers"):
        settings_to_config(None, {**SMALL, "join_at": 2})


def test_a_newcomer_that_does_not_answer_is_placed_later() -> None:
    result = small_run("pacfl", clients=8, fraction=1.0, rounds=8, newcomers=0.5, join_at=2, drop=0.5, seed=3)
    assert result.newcomers is not None
    assert result.groups is not None
    assert None not in result.groups

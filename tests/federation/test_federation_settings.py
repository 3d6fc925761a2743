"""Minimum of replies, over-sampling, strikes: what a round needs, and who is asked no more."""

from typing import Any

import pytest

import coterie
from coterie.run.progress import Progress
from coterie.testing import RecordingEngine, outcome, small_federation, small_run


class ClosesEarly(RecordingEngine):
    """An engine whose exchanges may end when enough clients have answered."""

    closes_early = True


def events(result: coterie.Result) -> dict[str, int]:
    return {event["kind"]: event["count"] for event in result.events}


def test_too_few_replies_change_nothing() -> None:
    enough = small_run("fedavg", drop=0.4, min_replies=1, eval_every=1)
    strict = small_run("fedavg", drop=0.4, min_replies=3, eval_every=1)  # cohorts have three
    missed = {event["kind"]: event for event in strict.events}
    assert 0 < missed["too few"]["count"] < 4
    assert "of 3 answered, 3 needed: the training changes nothing" in missed["too few"]["example"]
    assert "too few" not in events(enough)
    first = missed["too few"]["first_round"]
    before = strict.history[first - 2]["C"] if first > 1 else None
    assert before is None or strict.history[first - 1]["C"] == before


def test_more_are_asked_and_as_many_as_wanted_are_taken() -> None:
    result = small_run("fedavg", oversample=0.5, rounds=4)  # 3 wanted of 6, 5 asked
    assert events(result) == {"surplus": 8}
    assert outcome(result) == outcome(small_run("fedavg", oversample=0.5, rounds=4))
    with small_federation("fedavg", oversample=0.5) as (run, _):
        assert len(run.fed.cohort(1)) == 5
        run.fed.start_round(1)
        run.algorithm.begin(run.fed)
        run.algorithm.round(run.fed, run.fed.cohort(1))
        assert run.fed.training.replies == 3


def test_missing_replies_are_made_up_for() -> None:
    result = small_run("fedavg", oversample=1.0, drop=0.3, rounds=6)
    told = events(result)
    used = 6 * 6 - told["dropped"] - told["surplus"]
    plain = 6 * 3 - events(small_run("fedavg", drop=0.3, rounds=6))["dropped"]
    assert plain < used <= 6 * 3


def test_where_time_counts_a_round_ends_when_enough_have_answered() -> None:
    with small_federation("fedavg", oversample=0.5) as (run, _):
        engine = run.fed.wrap_engine(ClosesEarly)
        run.algorithm.begin(run.fed)
        run.fed.start_round(1)
        run.algorithm.round(run.fed, run.fed.cohort(1))
        assert len(engine.replies) == 3
        assert run.fed.training.replies == 3


def test_without_oversampling_all_replies_are_used() -> None:
    with small_federation("fedavg") as (run, _):
        run.fed.wrap_engine(ClosesEarly)
        run.algorithm.begin(run.fed)
        run.fed.start_round(1)
        run.algorithm.round(run.fed, run.fed.cohort(1))
        assert run.fed.training.replies == 3


@pytest.mark.parametrize("method", ["fedavg", "pacfl"])
def test_who_sends_nonsense_too_often_is_asked_no_more(method: str) -> None:
    result = small_run(method, hostile=1.0, max_strikes=2, rounds=8, fraction=1.0)
    told = events(result)
    assert told["invalid"] == 12  # two from each of six
    assert told["left out"] == 6


def test_strikes_are_remembered_when_a_run_goes_on() -> None:
    with small_federation("fedavg", max_strikes=2) as (run, _):
        for client in (1, 4, 4):
            run.fed.members.strike(client)
        assert run.fed.clients == (0, 1, 2, 3, 5)
        saved = run.fed.save()
    with small_federation("fedavg", max_strikes=2) as (run, _):
        run.fed.load(saved)
        assert run.fed.members.strikes == {1: 1, 4: 2}
        assert 4 not in run.fed.trainable


@pytest.mark.parametrize("fraction", [1.0, 0.9])  # 6 and 5 of 6 wanted, 6 asked
def test_where_nobody_else_can_be_asked_all_replies_are_taken(fraction: float) -> None:
    result = small_run("fedavg", oversample=0.3, fraction=fraction, rounds=2)
    assert events(result).get("surplus", 0) == (0 if fraction == 1.0 else 2)


def test_what_only_hands_out_a_model_is_no_round_of_training() -> None:
    settings = {"oversample": 0.5, "rounds": 2, "algorithm_options": {"broadcast_all": True}}
    assert events(small_run("lg-fedavg", **settings)) == {"surplus": 4}  # 2 of the 5 asked in each round


@pytest.mark.parametrize(
    ("clients", "fraction", "size"),
    [(3, None, 3), (5, None, 5), (20, None, 5), (50, None, 5), (60, None, 6), (20, 0.1, 2), (3, 0.1, 1)],
)
def test_a_cohort_has_at_least_five_clients_unless_told_otherwise(
    clients: int, fraction: float | None, size: int
) -> None:
    with small_federation("fedavg", clients=clients, fraction=fraction) as (run, _):
        assert len(run.fed.cohort(1)) == size
        assert run.fed.fraction == (fraction or max(0.1, size / clients))


class Heard(Progress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"algorithm": "ifca:groups=4", "fraction": 0.5}, "4 groups, but 3 clients in a round"),
        ({"algorithm": "ifca", "fraction": 0.1}, "2 groups, but 1 client in a round"),
        ({"algorithm": "fedgroup:groups=4", "fraction": 0.5}, "4 groups, but 3 clients in a round"),
        ({"algorithm": "ifca:groups=4"}, None),
        ({"algorithm": "pacfl", "fraction": 0.1}, None),
    ],
)
def test_more_groups_than_clients_in_a_round(settings: dict[str, Any], warned: str | None) -> None:
    heard = Heard()
    coterie.run(**settings, dataset="digits-rotated", clients=6, rounds=1, epochs=1, model="mclr", progress=heard)
    warnings = [text for text in heard.said if "in a round" in text]
    assert len(warnings) == (warned is not None)
    assert warned is None or warned in warnings[0]

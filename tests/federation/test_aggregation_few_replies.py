"""Too long updates where nobody can be compared: by earlier rounds, and at first by the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from aggregation_world import START, Noted, members, moved

from coterie.federation.aggregation import Contribution, update_lengths
from coterie.messages import Params


def test_an_update_that_is_alone_in_its_round_is_measured_by_earlier_rounds() -> None:
    """With one or two replies nobody can be compared within the round."""
    for rule in ("clipped", "median", "trimmed", "krum"):
        for lies in (1, 2):
            aggregator = Noted(rule=rule)
            for round, length in enumerate((1.0, 1.2, 0.9, 1.1), start=1):
                aggregator.round = round
                alone = members(moved(length))
                assert aggregator.screened({0: alone})[0][0] is alone[0]  # bit for bit
            aggregator.round = 5
            mean = aggregator.averages({0: members(*(moved(1e9) for _ in range(lies)))})[0]
            assert update_lengths(mean, START)[0] <= 3 * 1.0 * (1 + 1e-4)
            assert [event[:2] for event in aggregator.events] == [(c, "clipped") for c in range(lies)]
            assert "was cut to 3, 3 times the median of earlier rounds" in aggregator.events[0][2]


def test_who_lies_in_every_round_of_two_does_not_move_what_is_usual() -> None:
    aggregator, usual = Noted(rule="clipped"), []
    for round in range(1, 30):
        aggregator.round = round
        cut = aggregator.screened({0: members(moved(1.0), moved(1e9))})[0]
        usual.append(update_lengths(cut[1].params, START)[0])
    assert usual[0] == pytest.approx(3 * update_lengths(START)[0], rel=1e-4)  # nothing is known yet but the model
    assert usual[1:] == pytest.approx([3.0] * 28, rel=1e-3)
    assert {event[0] for event in aggregator.events} == {1}
    assert len(aggregator.usual["trained"]) == 20


def test_at_first_an_update_is_measured_by_the_model_itself() -> None:
    for rule in ("clipped", "median", "trimmed", "krum"):
        for statistics, length in ((0.1, 1e9), (1e9, 1.0)):
            aggregator = Noted(rule=rule)
            learnt, counted = update_lengths(aggregator.averages({0: members(moved(length, statistics))})[0], START)
            own = update_lengths(START)
            assert learnt <= 3 * own[0] * (1 + 1e-4)
            assert counted <= 3 * own[1] * (1 + 1e-4)
            assert [event[:2] for event in aggregator.events] == [(0, "clipped")]
            assert "3 times the length of the model itself" in aggregator.events[0][2]
    nothing: Params = {"w": np.zeros(3, np.float32)}
    alone = [Contribution(0, {"w": np.ones(3, np.float32)}, nothing, 1.0)]
    assert Noted(rule="clipped").screened({0: alone})[0][0] is alone[0]


def test_two_that_did_not_move_do_not_make_three_of_a_liar() -> None:
    cut = Noted(rule="clipped").screened({0: members(START, START, moved(1e9))})[0]
    assert update_lengths(cut[2].params, START)[0] == pytest.approx(3 * update_lengths(START)[0], rel=1e-4)


def test_kinds_of_updates_are_not_compared_with_each_other() -> None:
    aggregator = Noted(rule="clipped")
    aggregator.screened({0: members(*(moved(1e-6) for _ in range(3)))}, kind="control")
    aggregator.round = 2
    alone = members(moved(1.0))
    assert aggregator.screened({0: alone})[0][0] is alone[0]
    assert aggregator.screened({0: alone}, kind="control")[0][0] is not alone[0]


def test_what_is_remembered_is_saved() -> None:
    one, other = Noted(rule="clipped"), Noted(rule="clipped")
    for round in range(1, 5):
        one.round = other.round = round
        one.screened({0: members(moved(round))})
        other.load({"usual": {kind: dict(rounds) for kind, rounds in one.usual.items()}, "clip": None})
    one.round = other.round = 5
    lie = members(moved(1e9))
    cuts = [each.screened({0: lie})[0][0].params["fc.weight"] for each in (one, other)]
    assert np.array_equal(*cuts)


def test_what_is_not_cut_is_marked_by_rules_that_count_each_client_once() -> None:
    for rule in ("median", "trimmed", "krum"):
        aggregator = Noted(rule=rule)
        lie = members(moved(1.0), moved(1.1), moved(0.9), moved(1e9))
        assert aggregator.screened({0: lie})[0][3] is lie[3]
        assert [event[:2] for event in aggregator.events] == [(3, "outlier")]

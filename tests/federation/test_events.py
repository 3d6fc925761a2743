"""Events: counted by kind and client, with a few of the descriptions."""

import json

from coterie.federation.events import DETAILS, LONGEST, Events
from coterie.messages import Failure


def noted(*failures: Failure) -> Events:
    events = Events()
    for failure in failures:
        events.note(failure)
    return events


def test_whose_and_what() -> None:
    nan, late = [Failure(c, t, "invalid", "a NaN") for c, t in ((5, 1), (2, 3), (5, 4))], Failure(1, 2, "late")
    [invalid, missed] = noted(nan[0], late, *nan[1:]).entries()
    assert invalid == {
        "kind": "invalid",
        "count": 3,
        "first_round": 1,
        "last_round": 4,
        "example": "client 5, round 1: a NaN",
        "clients": {"5": 2, "2": 1},
        "details": {"a NaN": 3},
    }
    assert (missed["clients"], missed["details"]) == ({"1": 1}, {})


def test_of_many_descriptions_the_first_are_kept_and_counted() -> None:
    many = [Failure(-1, t, "turned away", f"a node calls itself {t}") for t in range(DETAILS + 3)]
    [entry] = noted(*many, many[0], many[-1]).entries()
    assert entry["count"] == DETAILS + 5
    assert entry["clients"] == {}
    assert entry["details"] == {failure.detail: 1 + (failure is many[0]) for failure in many[:DETAILS]}


def test_saved_and_loaded_they_go_on_and_leave_what_was_saved_alone() -> None:
    first, then = Failure(0, 1, "late", "a"), Failure(0, 2, "late", "b")
    saved = noted(first).save()
    for written in (saved, json.loads(json.dumps(noted(first).entries()))):  # as earlier versions wrote them
        again = Events()
        again.load(written)
        again.note(then)
        assert again.save() == noted(first, then).save()
    kept = Events()
    kept.load(saved)
    kept.note(then)
    assert saved == noted(first).save()


def test_what_anybody_says_is_made_plain_and_short() -> None:
    events = Events()
    events.note(Failure(1, 2, "invalid", "'a\n\x1b[31m\ud800" + "x" * 60_000))
    [entry] = events.entries()
    [detail] = entry["details"]
    assert detail == "'a  [31m " + "x" * (LONGEST - 9)
    assert entry["example"] == f"client 1, round 2: {detail}"


def test_a_checkpoint_of_many_clients_has_those_that_changed() -> None:
    events = noted(*(Failure(client, 1, "late") for client in range(3000)))
    [whole] = events.save()
    assert len(whole["clients"]["whole"].value["clients"]) == 3000
    for client in (7, 7, 2999):
        events.note(Failure(client, 2, "late"))
    [later] = events.save()
    assert later["clients"]["whole"] is whole["clients"]["whole"]
    assert later["clients"]["clients"].tolist() == [7, 2999]
    again = Events()
    again.load([later])
    assert again.entries() == events.entries()
    assert again.times(7, "late") == 3

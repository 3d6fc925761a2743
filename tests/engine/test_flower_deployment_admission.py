"""Who is let in at a server, under which number, and how long it waits for whom."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import REQUEST, impatient
from flower_sites import PlayedGrid, silent
from flwr.app import ConfigRecord, Message, RecordDict

from coterie.engine.flower.app import BESIDE
from coterie.engine.flower.deployment import FlowerDeployment
from coterie.engine.flower.identity import NO_CERTIFICATE, signed
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.messages import Failure

__all__ = ["impatient"]  # a fixture that all tests here use


def named_node(
    name: str, secret: str = "s" * 32, samples: Any = 5, certificate: str = NO_CERTIFICATE, **more: Any
) -> Any:
    def node(message: Message) -> Message:
        beside = message.content.config_records[BESIDE]
        told = signed(
            {"name": name, "samples": samples, "tests": 5}, secret, beside["federation"], certificate, beside["nonce"]
        )
        return Message(RecordDict({BESIDE: ConfigRecord({**told, **more})}), reply_to=message)

    return node


def door(grid: PlayedGrid, registry: SiteRegistry | None = None) -> FlowerDeployment:
    return FlowerDeployment(grid, registry or SiteRegistry())


def test_numbers_follow_names_not_nodes() -> None:
    grid = PlayedGrid()
    grid.nodes |= {
        1: named_node("site-10", samples=10),
        2: named_node("site-9", samples=9),
        3: named_node("alpha", samples=1),
    }
    assert door(grid).present(0) == {0: 1, 1: 9, 2: 10}


def test_who_comes_later_gets_the_next_number_also_after_a_restart(tmp_path: Path) -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("m"), 2: named_node("z")}
    door(grid, SiteRegistry.open(tmp_path / "sites.json")).present(0)
    grid.nodes = {7: named_node("a", samples=3), 8: named_node("z", samples=4)}
    again = door(grid, SiteRegistry.open(tmp_path / "sites.json"))
    assert again.present(5) == {2: 3, 1: 4}


def test_an_entry_removed_by_hand_leaves_the_numbers_of_others_alone(tmp_path: Path) -> None:
    grid, file = PlayedGrid(), tmp_path / "sites.json"
    grid.nodes |= {1: named_node("a"), 2: named_node("b", samples=6), 3: named_node("c", samples=7)}
    door(grid, SiteRegistry.open(file)).present(0)
    registry = json.loads(file.read_text())
    del registry["sites"]["a"]
    file.write_text(json.dumps(registry))
    grid.nodes[1] = named_node("a", secret="new secret of this site", samples=8)
    assert door(grid, SiteRegistry.open(file)).present(3) == {1: 6, 2: 7, 3: 8}


def test_somebody_elses_name_is_refused() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a", secret="right" * 5)}
    engine = door(grid)
    engine.present(0)
    grid.nodes[2] = named_node("a", secret="wrong" * 5)
    assert engine.present(1) == {0: 5}
    [incident] = engine.incidents()
    assert incident.kind == "turned away"
    assert "calls itself 'a', which is client 0" in incident.detail
    assert engine.incidents() == []
    engine.present(2)
    assert grid.sent.count((1, "query.hello")) == 1  # the real one is not asked again


def test_a_site_that_returns_takes_its_place_at_the_new_node() -> None:
    grid = PlayedGrid()
    asked: list[int] = []

    def alive(number: int) -> Any:
        def node(message: Message) -> Message | None:
            if message.metadata.message_type == "query.hello":
                return named_node("a")(message)
            asked.append(number)
            return None

        return node

    grid.nodes[1] = alive(1)
    engine = door(grid)
    engine.present(0)
    grid.nodes[2] = alive(2)  # the old node is still listed: Flower misses it only after a while
    assert engine.present(1) == {0: 5}
    list(engine.exchange({0: REQUEST}, 0.01))
    assert asked == [2]


@pytest.mark.parametrize(
    "bad",
    [
        named_node("../../etc"), named_node(""), named_node("x" * 65), named_node("a", signature="short"),
        named_node("a", samples=-1), named_node("a", samples="many"), named_node("a", problem="my data do not fit"),
    ],
)  # fmt: skip
def test_odd_cards_are_turned_away(bad: Any) -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("good"), 2: bad}
    engine = door(grid)
    assert engine.present(0) == {0: 5}
    assert [incident.kind for incident in engine.incidents()] == ["turned away"]


class Clock:
    """Time that passes when somebody sleeps, or is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("coterie.engine.flower.deployment.time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def hellos(grid: PlayedGrid, node: int) -> int:
    return grid.sent.count((node, "query.hello"))


def test_a_node_that_says_nothing_holds_up_nobody_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, grid = Clock(monkeypatch), PlayedGrid()
    grid.nodes |= {1: silent, 2: named_node("a")}
    engine = door(grid)
    for round in range(5):
        assert engine.present(round) == {0: 5}
    assert (hellos(grid, 1), clock.now) == (1, 1000.0)
    for round in range(5, 8):
        clock.now += 601.0
        assert engine.present(round) == {0: 5}
    assert hellos(grid, 1) == 4
    [incident] = engine.incidents()  # once, not each time
    assert (incident.kind, incident.detail) == ("turned away", "a node does not introduce itself")
    grid.nodes[1] = named_node("b")
    clock.now += 601.0
    assert engine.present(8) == {0: 5, 1: 5}


def test_a_site_that_was_turned_away_and_is_mended_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, grid = Clock(monkeypatch), PlayedGrid()
    grid.nodes |= {1: named_node("a", problem="its data can't be used"), 2: named_node("b")}
    engine = door(grid)
    for round in range(3):
        clock.now += 61.0
        assert engine.present(round) == {0: 5}
    assert hellos(grid, 1) == 3
    assert len(engine.incidents()) == 1
    grid.nodes[1] = named_node("a", samples=9)
    clock.now += 61.0
    assert engine.present(3) == {0: 5, 1: 9}


def test_nodes_that_keep_coming_hold_up_a_round_for_ten_seconds_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, grid = Clock(monkeypatch), PlayedGrid()
    monkeypatch.setattr("coterie.engine.flower.deployment.NEWCOMER_WAIT", 10.0)
    grid.nodes |= {1: named_node("a")}
    engine = FlowerDeployment(grid, SiteRegistry())
    monkeypatch.setattr(grid, "get_node_ids", lambda: {1, *range(100, 100 + int(clock.now - 1000.0) + 1)})
    for node in range(100, 150):
        grid.nodes[node] = silent
    assert engine.present(0) == {0: 5}
    assert clock.now == 1010.0
    engine.present(0)
    assert clock.now == 1010.0


def test_the_card_of_a_node_that_has_left_is_not_taken() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: silent}
    engine = door(grid)
    engine.present(0)
    grid._replies["m1"] = named_node("a", samples=1)(grid.messages["m1"])
    grid.nodes = {2: named_node("a", samples=2)}
    assert [dict(engine.present(round)) for round in range(1, 4)] == [{0: 2}] * 3


def test_a_federation_that_waits_counts_those_who_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where somebody was turned away on the way, of which the log tells."""
    Clock(monkeypatch)
    grid, told = PlayedGrid(), list[str]()
    grid.nodes |= {1: named_node("a"), 2: named_node("b"), 3: named_node("a", secret="wrong" * 5)}
    engine = FlowerDeployment(grid, SiteRegistry(), min_clients=3)

    def hear(text: str) -> None:
        told.append(text)
        if "turned away" in text:
            grid.nodes[4] = named_node("c")

    engine.wait(hear)
    assert told[0] == "3 sites are here, waiting for 3"
    assert told[1].startswith("turned away: a node calls itself 'a'")
    assert told[-1] == "3 sites are here, waiting for 3"
    assert set(engine.present(0)) == {0, 1, 2}


def test_a_federation_that_waits_numbers_sites_by_names_whoever_answers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.deployment.PAUSE", 0.0)
    grid, told = PlayedGrid(), list[str]()
    grid.nodes |= {1: named_node("c", samples=3), 2: silent, 3: named_node("b", samples=2), 4: silent}
    engine = FlowerDeployment(grid, SiteRegistry(), min_clients=3)

    def hear(text: str) -> None:
        told.append(text)
        if len(told) == 1:
            grid._replies["m2"] = named_node("a", samples=1)(grid.messages["m2"])
            monkeypatch.setattr("coterie.engine.flower.deployment.START_GRACE", 0.0)  # for the one that says nothing

    engine.wait(hear)
    assert told == ["2 sites are here, waiting for 3", "3 sites are here, waiting for 3"]
    assert engine.present(0) == {0: 1, 1: 2, 2: 3}


def test_a_node_that_comes_is_waited_for_a_little_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, grid = Clock(monkeypatch), PlayedGrid()
    monkeypatch.setattr("coterie.engine.flower.deployment.NEWCOMER_WAIT", 5.0)
    grid.nodes |= {1: silent, 2: named_node("b")}
    engine = FlowerDeployment(grid, SiteRegistry())
    assert engine.present(0) == {0: 5}
    assert clock.now == 1005.0
    engine.present(1)
    assert clock.now == 1005.0
    grid._replies["m1"] = named_node("a", samples=7)(grid.messages["m1"])
    assert engine.present(2) == {0: 5, 1: 7}


def test_who_answers_late_is_let_in_late() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: silent, 2: named_node("b")}
    engine = door(grid)
    assert engine.present(0) == {0: 5}
    grid._replies["m1"] = named_node("a", samples=7)(grid.messages["m1"])
    assert engine.present(1) == {0: 5, 1: 7}


def test_of_two_nodes_with_one_secret_the_later_counts_and_they_do_not_take_turns() -> None:
    """One that returned while Flower still lists the old node can't be told from a copy."""
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a", samples=5)}
    engine = door(grid)
    assert engine.present(0) == {0: 5}
    grid.nodes |= {2: named_node("a", samples=2)}
    assert [dict(engine.present(round)) for round in range(1, 5)] == [{0: 2}] * 4
    del grid.nodes[2]
    assert engine.present(5) == {0: 5}  # who was left behind is asked again
    assert hellos(grid, 1) == 2


def test_an_introduction_that_can_t_be_unpacked_is_turned_away() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a"), 2: named_node("b")}
    grid.broken[2] = ValueError("not a message")
    engine = door(grid)
    assert engine.present(0) == {0: 5}
    assert [incident.detail for incident in engine.incidents()] == ["a node introduces itself without a proper name"]


def test_a_node_that_is_gone_when_it_is_asked_is_dropped_also_without_a_deadline() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a")}
    engine = door(grid)
    engine.present(0)
    grid.unregistered.add(1)
    assert list(engine.exchange({0: REQUEST}, None)) == [Failure(0, 3, "dropped", "its node is gone")]


def test_nobody_disappears_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.deployment.LOOK_AGAIN", 0.0)
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a"), 2: named_node("b")}
    engine = door(grid)
    assert set(engine.present(1)) == {0, 1}
    del grid.nodes[2]
    grid.nodes[3] = named_node("c")
    assert set(engine.present(1)) == {0, 1, 2}
    assert set(engine.present(2)) == {0, 2}

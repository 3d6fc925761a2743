"""What passes between a server and nodes that may be broken or hostile."""

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_sites import PlayedGrid, node_of, silent, write_app, write_site
from flwr.app import ConfigRecord, Error, Message, RecordDict

import coterie
from coterie.deploy.deployment import make_site, serve
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower import transport
from coterie.engine.flower.app import BESIDE, WIRE, wire_record
from coterie.engine.flower.deployment import FlowerDeployment
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.engine.flower.transport import GridTransport, read_answer
from coterie.errors import CoterieError
from coterie.federation.exchange import largest_reply
from coterie.messages import (
    ClassCounts,
    Evaluate,
    EvaluateReply,
    Failure,
    ModelSpec,
    Plan,
    Reply,
    Request,
    Schedule,
    Signature,
    Train,
    TrainReply,
    wire,
)
from coterie.models import initial

SPEC = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 16})
REQUEST = Request(3, 0, SPEC, (Train(Plan(lr=Schedule(0.1), epochs=1)),), {"model": initial(SPEC, 0)})


def message_to(node: int) -> Message:
    PlayedGrid()
    message = Message(RecordDict({BESIDE: ConfigRecord()}), node, "train")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def said(blob: bytes) -> Message:
    return Message(RecordDict({WIRE: wire_record(blob)}), reply_to=message_to(5))


HONEST = Reply(4, 3, (TrainReply(10, 1, 0.5, initial(SPEC, 0)),))


def test_an_honest_reply_passes() -> None:
    answer = read_answer(said(wire.encode(HONEST)), 4, REQUEST)
    assert isinstance(answer, Reply)
    assert wire.digest(answer) == wire.digest(HONEST)


@pytest.mark.parametrize(
    ("blob", "kind", "detail"),
    [
        (b"", "invalid", "not readable"),
        (b"\xff" * 50, "invalid", "not readable"),
        (wire.encode(HONEST)[:-5], "invalid", "not readable"),
        (wire.encode(REQUEST), "invalid", "a request in place of an answer"),
        (wire.encode(replace(HONEST, client=2)), "invalid", "speaks for client 2"),
        (wire.encode(Failure(2, 3, "diverged")), "invalid", "speaks for client 2"),
        (wire.encode(Failure(4, 3, "diverged", "loss")), "diverged", "loss"),
        (wire.encode(Failure(4, 3, "failed", "KeyError")), "failed", "KeyError"),
        (wire.encode(Failure(4, 3, "x" * 10_000)), "invalid", "an odd failure"),
        (wire.encode(HONEST).replace(b"Trained", b"Drained"), "invalid", "not readable"),
    ],
)
def test_what_is_not_an_answer_is_a_failure(blob: bytes, kind: str, detail: str) -> None:
    failure = read_answer(said(blob), 4, REQUEST)
    assert isinstance(failure, Failure)
    assert (failure.client, failure.round, failure.kind) == (4, 3, kind)
    assert failure.detail.startswith(detail)


def test_a_message_without_an_answer_is_invalid() -> None:
    empty = Message(RecordDict({BESIDE: ConfigRecord({"wire": b"x"})}), reply_to=message_to(5))
    assert read_answer(empty, 4, REQUEST) == Failure(4, 3, "invalid", "a message without an answer")


def test_an_error_of_flower_is_a_missing_reply() -> None:
    error = Message(Error(5, "node is gone"), reply_to=message_to(5))
    assert read_answer(error, 4, REQUEST) == Failure(4, 3, "dropped", "Flower: node is gone")


def test_too_long_a_reply_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = wire.encode(Reply(4, 3, (TrainReply(10, 1, 0.5, {"fc1.weight": np.zeros(10**7, np.float32)}),)))
    monkeypatch.setattr(transport.wire, "decode", lambda blob: pytest.fail("it was read"))
    failure = read_answer(said(huge), 4, REQUEST)
    assert isinstance(failure, Failure)
    assert failure.kind == "invalid"
    assert failure.detail.startswith("40,000,")


@pytest.mark.integration
@pytest.mark.parametrize("algorithm", ["pacfl", "scaffold", "sub-fedavg-un", "flis-dc", "flag", "ifca", "lg-fedavg"])
def test_honest_replies_are_below_the_limit(algorithm: str) -> None:
    from coterie.federation.loop import rounds
    from coterie.testing import OnTheWire, small_federation

    class Measured(OnTheWire):
        def exchange(self, requests: Any, deadline: Any) -> Any:
            for answer in super().exchange(requests, deadline):
                assert wire.size(answer) <= largest_reply(requests[answer.client])
                yield answer

    with small_federation(algorithm, rounds=1) as (run, _):
        run.fed.wrap_engine(Measured)
        assert list(rounds(run.fed, run.algorithm, run.evaluator, every=1))


def test_the_limit_grows_with_what_is_asked_for_only() -> None:
    model = sum(array.nbytes for array in initial(SPEC, 0).values())
    measured = largest_reply(replace(REQUEST, verbs=(Evaluate("own"), ClassCounts())))
    assert model < largest_reply(REQUEST) < 2 * model + 2**17
    assert measured < 2**17
    assert largest_reply(replace(REQUEST, verbs=(Signature(p=3),))) < 2**17


# --- carrying


def test_replies_are_told_apart_by_what_they_reply_to() -> None:
    """Flower answers for a node that is gone in the name of node 1."""
    grid = PlayedGrid()

    def gone(message: Message) -> Message:
        reply = Message(Error(5, "gone"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    def honest(message: Message) -> Message:
        client = int(message.content.config_records[BESIDE]["client"])
        return Message(RecordDict({WIRE: wire_record(wire.encode(replace(HONEST, client=client)))}), reply_to=message)

    grid.nodes |= {11: gone, 12: honest, 13: silent}
    answers = list(GridTransport(grid, 0.01).exchange({0: 11, 4: 12, 7: 13}, dict.fromkeys((0, 4, 7, 9), REQUEST), 0.1))
    kinds = {answer.client: answer.kind if isinstance(answer, Failure) else "reply" for answer in answers}
    assert kinds == {0: "dropped", 4: "reply", 7: "late", 9: "dropped"}


# --- at the door


def named_node(name: str, proof: str = "s" * 32, samples: Any = 5, **more: Any) -> Any:
    def node(message: Message) -> Message:
        told = ConfigRecord({"name": name, "proof": proof, "samples": samples, **more})
        return Message(RecordDict({BESIDE: told}), reply_to=message)

    return node


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.deployment.NEWCOMER_WAIT", 0.0)


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
    grid.nodes[1] = named_node("a", proof="new secret of this site", samples=8)
    assert door(grid, SiteRegistry.open(file)).present(3) == {1: 6, 2: 7, 3: 8}


def test_somebody_elses_name_is_refused() -> None:
    grid = PlayedGrid()
    grid.nodes |= {1: named_node("a", proof="right" * 5)}
    engine = door(grid)
    engine.present(0)
    grid.nodes[2] = named_node("a", proof="wrong" * 5)
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
        named_node("../../etc"), named_node(""), named_node("x" * 65), named_node("a", proof="short"),
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
    grid.nodes |= {1: named_node("a"), 2: named_node("b"), 3: named_node("a", proof="wrong" * 5)}
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


def test_what_can_t_be_unpacked_is_invalid_and_the_others_are_heard() -> None:
    """Flower unpacks what nodes send before anybody can look at it, and fails at the first that can't be."""
    grid = PlayedGrid()

    def honest(message: Message) -> Message:
        return Message(RecordDict({WIRE: wire_record(wire.encode(HONEST))}), reply_to=message)

    def hollow(message: Message) -> Message:
        reply = Message(RecordDict(), reply_to=message)
        reply.__dict__["_content"] = None
        return reply

    def elsewhere(message: Message) -> Message:
        reply = honest(message)
        reply.metadata.__dict__["_reply_to_message_id"] = "m2"
        return reply

    def no_message(message: Message) -> Any:
        return wire_record(wire.encode(HONEST))

    grid.nodes |= {11: honest, 12: honest, 13: hollow, 14: elsewhere, 15: no_message}
    grid.broken[11] = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    grid_transport = GridTransport(grid, 0.01, untrusted=True)
    nodes = {0: 11, 4: 12, 5: 13, 6: 14, 7: 15}
    answers = list(grid_transport.exchange(nodes, dict.fromkeys(nodes, REQUEST), None))
    kinds = {answer.client: answer.kind if isinstance(answer, Failure) else "reply" for answer in answers}
    assert kinds == {0: "invalid", 4: "reply", 5: "invalid", 6: "invalid", 7: "invalid"}
    assert len(answers) == 5
    grid.broken[11] = ConnectionError("the SuperLink is gone")
    with pytest.raises(ConnectionError):
        list(grid_transport.exchange({0: 11}, {0: REQUEST}, 5.0))


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


# --- at the site


@pytest.fixture
def site(tmp_path: Path) -> Any:
    write_app(tmp_path / "app", 2, model={"name": "mlp", "hidden": 16})
    return make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))


FEDERATION = "0123456789abcdef"


def test_a_site_answers_what_it_knows_and_refuses_the_rest(site: Any) -> None:
    def answer(blob: bytes) -> Any:
        return wire.decode(site.answer(7, FEDERATION, blob))

    counted = answer(wire.encode(replace(REQUEST, verbs=(ClassCounts(),))))
    assert counted.client == 7
    assert counted.answers[0].counts.sum() == site.introduce(FEDERATION)["samples"]
    unknown = wire.encode(replace(REQUEST, verbs=(ClassCounts(),))).replace(b"ClassCounts", b"ReadSamples")
    assert answer(unknown).kind == "refused"
    assert answer(wire.encode(HONEST)).kind == "refused"
    other = replace(REQUEST, spec=replace(SPEC, classes=11))
    assert answer(wire.encode(other)).detail == "it is about other data"


@pytest.mark.parametrize("name", ["", "../../tmp", "0123456789ABCDEF", "0123456789abcdef/"])
def test_a_server_can_t_choose_where_a_site_writes(site: Any, name: str) -> None:
    with pytest.raises(ValueError, match="proper name"):
        site.answer(0, name, wire.encode(REQUEST))


def greeting() -> Message:
    PlayedGrid()
    message = Message(RecordDict({BESIDE: ConfigRecord({"federation": FEDERATION})}), 1, "query.hello")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def request_to(client: int, request: Request) -> Message:
    PlayedGrid()
    beside = ConfigRecord({"client": client, "federation": FEDERATION})
    message = Message(RecordDict({BESIDE: beside, WIRE: wire_record(wire.encode(request))}), 1, "train")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def test_a_site_tells_what_failed_by_its_kind_only(site: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nonsense = replace(REQUEST, models={})  # the plan starts from a model that was not sent
    node = node_of(tmp_path / "app", site=str(tmp_path / "site-0" / "site.toml"))
    reply = node(request_to(0, nonsense))
    assert reply is not None
    assert read_answer(reply, 0, REQUEST) == Failure(0, 3, "failed", "KeyError")
    assert "could not be answered" in caplog.text  # at the site, all of it


PRIVATE = """
from pathlib import Path

from coterie.data import Dataset, Samples
import numpy as np

def load(name):
    if {when}:
        raise {error}("row 17: Jane Doe, born 1950")
    x = np.zeros((20, 1, 8, 8), np.uint8)
    return Dataset(name, Samples(x, np.arange(20) % 10), test=None, classes=10)
"""


@pytest.mark.parametrize("error", ["ValueError", "MemoryError", "SystemExit"])
def test_what_is_wrong_with_the_data_of_a_site_stays_there(
    tmp_path: Path, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Both when it introduces itself and later: a hook may work once and not again."""
    write_app(tmp_path / "app", 1)
    hook = tmp_path / "hook.py"
    gone = tmp_path / "gone"
    hook.write_text(PRIVATE.format(when=f"Path({str(gone)!r}).exists()", error=error))
    node = node_of(tmp_path / "app", name="a", state=str(tmp_path / "state"), hook=f"{hook}:load")
    said = node(greeting())
    assert said is not None
    assert said.content.config_records[BESIDE]["samples"] == 16
    gone.touch()
    for message in (greeting(), request_to(0, REQUEST)):
        reply = node(message)
        assert reply is not None
        assert not reply.has_error()
        if message.metadata.message_type == "train":
            assert read_answer(reply, 0, REQUEST) == Failure(0, 3, "failed", "CoterieError")
        else:
            assert "data can't be used" in str(reply.content.config_records[BESIDE]["problem"])
        told = [*reply.content.config_records.values(), *reply.content.array_records.values()]
        assert b"Jane" not in b"".join(part if isinstance(part, bytes) else str(part).encode() for part in told)
    assert "Jane" in caplog.text


def test_a_site_file_that_is_gone_is_told_without_its_text(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 1)
    node = node_of(tmp_path / "app", site=str(tmp_path / "private" / "site.toml"))
    for message in (greeting(), request_to(0, REQUEST)):
        reply = node(message)
        assert reply is not None
        assert "private" not in str(reply.content)


def test_the_secret_stays_the_same_and_never_leaves(site: Any) -> None:
    first = site.introduce(FEDERATION)
    assert first == site.introduce(FEDERATION)
    assert os.stat(site.state / "secret").st_mode & 0o077 == 0
    assert site.secret() not in first.values()
    assert site.introduce("f" * 16)["proof"] != first["proof"]  # which is of no use to another federation


def test_a_damaged_secret_is_told(site: Any) -> None:
    site.introduce(FEDERATION)
    (site.state / "secret").write_text("")
    with pytest.raises(CoterieError, match="is damaged: put back a copy"):
        site.introduce(FEDERATION)


# --- a whole federation with one hostile node


def spoiled(honest: Any, how: str) -> Any:
    """Return a node that introduces itself and then answers nonsense."""

    def node(message: Message) -> Message | None:
        reply = honest(message)
        if message.metadata.message_type == "query.hello" or how == "impostor":
            return reply
        answer = wire.decode(reply.content.array_records[WIRE][WIRE].data)
        assert isinstance(answer, Reply)
        if how == "unknown":
            blob = wire.encode(answer).replace(b"Trained", b"Drained").replace(b"Evaluated", b"Evacuated")
            return Message(RecordDict({WIRE: wire_record(blob)}), reply_to=message)
        if how == "another":
            return Message(RecordDict({WIRE: wire_record(wire.encode(replace(answer, client=0)))}), reply_to=message)

        def spoil(params: Any) -> Any:
            w = params["fc1.weight"]
            new = {"nan": w * np.nan, "shape": w[:, 1:], "huge": np.zeros(10**7, np.float32)}[how]
            return {**params, "fc1.weight": new}

        wrong = tuple(
            replace(a, params=spoil(a.params)) if isinstance(a, TrainReply) and a.params
            else EvaluateReply(-1, 5, 0.0) for a in answer.answers
        )  # fmt: skip
        return Message(RecordDict({WIRE: wire_record(wire.encode(replace(answer, answers=wrong)))}), reply_to=message)

    return node


@pytest.mark.integration
@pytest.mark.parametrize("how", ["nan", "shape", "huge", "unknown", "another"])
def test_a_hostile_node_is_counted_ignored_and_left_out(tmp_path: Path, how: str) -> None:
    write_app(
        tmp_path / "app", 3, algorithm="fedavg", training={"rounds": 4}, engine={"deadline": 30.0, "max_strikes": 2}
    )
    grid = PlayedGrid()
    for client in range(3):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    grid.nodes[3] = spoiled(grid.nodes[3], how)
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    events = {event["kind"]: event for event in result.events}
    assert events["invalid"]["count"] == 2
    assert events["left out"]["example"].startswith("client 2, round 2: 2 invalid replies")
    assert [node for node, kind in grid.sent if kind == "train"].count(3) == 2
    assert result.per_client["L"][2] is None
    assert result.accuracy["C"] > 0.3  # the others have learnt


@pytest.mark.integration
def test_an_impostor_is_turned_away_and_the_federation_goes_on(tmp_path: Path) -> None:
    data = write_app(tmp_path / "app", 2, algorithm="fedavg", training={"rounds": 2})
    grid = PlayedGrid()
    for client in range(2):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    false = write_site(tmp_path / "elsewhere", "site-1", data, 0)

    def comes(message: Message) -> None:
        if message.metadata.message_type == "train":
            grid.nodes.setdefault(3, node_of(tmp_path / "app", site=str(false)))

    grid.before = comes
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    [event] = result.events
    assert event["kind"] == "turned away"
    assert event["example"].startswith("round 2: a node calls itself 'site-1', which is client 1")
    assert not [kind for node, kind in grid.sent if node == 3 and kind != "query.hello"]
    assert list(json.loads((tmp_path / "run" / "sites.json").read_text())["sites"]) == ["site-0", "site-1"]


# --- what is not to be waited for


class Slow(PlayedGrid):
    """A grid on which the replies of some nodes are announced, but do not come for a while."""

    def __init__(self, *nodes: int) -> None:
        super().__init__()
        self.held, self.free = set(nodes), threading.Event()

    def pull_messages(self, names: Any) -> list[Message]:
        names = list(names)
        if any(self.messages[name].metadata.dst_node_id in self.held for name in names):
            self.free.wait(20)
        return super().pull_messages(names)


def honest_node(message: Message) -> Message:
    client = int(message.content.config_records[BESIDE]["client"])
    return Message(RecordDict({WIRE: wire_record(wire.encode(replace(HONEST, client=client)))}), reply_to=message)


def test_a_reply_that_is_announced_and_does_not_come_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower waits for all of it, for minutes; the others and the deadline do not."""
    monkeypatch.setattr(transport, "HELD_UP", 0.05)
    grid = Slow(11, 12)
    grid.nodes |= dict.fromkeys((11, 12, 13), honest_node)
    began = time.monotonic()
    answers = list(
        GridTransport(grid, 0.01, untrusted=True).exchange({0: 11, 1: 12, 2: 13}, dict.fromkeys(range(3), REQUEST), 0.5)
    )
    assert time.monotonic() - began < 10
    grid.free.set()
    kinds = {answer.client: answer.kind if isinstance(answer, Failure) else "reply" for answer in answers}
    assert kinds == {0: "late", 1: "late", 2: "reply"}


@pytest.mark.parametrize(("held_up", "pause"), [(0.06, 0.06), (0.0, 0.01), (0.02, 0.0)])
def test_a_reply_that_takes_a_while_is_taken_once(
    held_up: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HELD_UP", held_up)

    class Long(PlayedGrid):
        def pull_messages(self, names: Any) -> list[Message]:
            found = super().pull_messages(names)
            if any(not message.has_error() for message in found):
                time.sleep(0.1)
            return found

    grid = Long()
    grid.nodes |= dict.fromkeys(range(11, 17), honest_node)
    nodes = {client: client + 11 for client in range(6)}
    grid_transport = GridTransport(grid, pause, untrusted=True)
    for _ in range(2):
        answers = list(grid_transport.exchange(nodes, dict.fromkeys(nodes, REQUEST), 20.0))
        assert [type(answer) for answer in answers] == [Reply] * 6


def test_what_is_no_longer_wanted_is_taken_from_flower_when_it_comes() -> None:
    """It would keep the replies of those who were late or not needed until the end of the run."""
    grid = PlayedGrid()
    grid.nodes |= {11: honest_node, 12: silent, 13: honest_node}
    grid_transport = GridTransport(grid, 0.01, untrusted=True)
    exchange = grid_transport.exchange({0: 11, 1: 12, 2: 13}, dict.fromkeys(range(3), REQUEST), 5.0)
    next(exchange)
    exchange.close()  # enough have answered
    grid._replies["m2"] = honest_node(grid.messages["m2"])
    assert len(grid._replies) >= 1
    grid.nodes[14] = honest_node
    assert [answer.client for answer in grid_transport.exchange({3: 14}, {3: REQUEST}, 5.0)] == [3]
    assert not grid._replies


def test_types_of_arrays_that_nobody_sends_are_refused() -> None:
    odd = Reply(4, 3, (TrainReply(10, 1, 0.5, {"fc1.weight": np.zeros(3, np.complex64)}),))
    from safetensors.numpy import save

    tree, arrays = wire._take_apart(odd)
    failure = read_answer(said(save(arrays, metadata={"tree": tree})), 4, REQUEST)
    assert isinstance(failure, Failure)
    assert "arrays of type complex64 are not sent" in failure.detail

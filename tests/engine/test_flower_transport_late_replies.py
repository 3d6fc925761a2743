"""Replies of nodes that come late, not at all, or when nobody waits for them any more."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import HONEST, REQUEST
from flower_sites import PlayedGrid, silent
from flwr.app import Message, RecordDict

from coterie.engine.flower import transport
from coterie.engine.flower.app import BESIDE, WIRE, wire_record
from coterie.engine.flower.transport import GridTransport
from coterie.messages import Failure, Reply, wire


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

"""A whole federation with one hostile node."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import impatient
from flower_sites import PlayedGrid, node_of, write_app, write_site
from flwr.app import Message, RecordDict

import coterie
from coterie.deploy.deployment import serve
from coterie.deploy.terms import read_terms
from coterie.engine.flower.app import WIRE, wire_record
from coterie.messages import EvaluateReply, Reply, TrainReply, wire

__all__ = ["impatient"]  # a fixture that all tests here use


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

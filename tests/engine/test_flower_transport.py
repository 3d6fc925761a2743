"""What a server reads from nodes that may be broken or hostile, and how it is carried."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import HONEST, REQUEST, SPEC
from flower_sites import PlayedGrid, silent
from flwr.app import ConfigRecord, Error, Message, RecordDict

from coterie.engine.flower import transport
from coterie.engine.flower.app import BESIDE, WIRE, wire_record
from coterie.engine.flower.transport import GridTransport, read_answer
from coterie.federation.exchange import largest_reply
from coterie.messages import ClassCounts, Evaluate, Failure, Reply, Signature, TrainReply, wire
from coterie.models import initial


def message_to(node: int) -> Message:
    PlayedGrid()
    message = Message(RecordDict({BESIDE: ConfigRecord()}), node, "train")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def said(blob: bytes) -> Message:
    return Message(RecordDict({WIRE: wire_record(blob)}), reply_to=message_to(5))


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


def test_types_of_arrays_that_nobody_sends_are_refused() -> None:
    odd = Reply(4, 3, (TrainReply(10, 1, 0.5, {"fc1.weight": np.zeros(3, np.complex64)}),))
    from safetensors.numpy import save

    tree, arrays = wire._take_apart(odd)
    failure = read_answer(said(save(arrays, metadata={"tree": tree})), 4, REQUEST)
    assert isinstance(failure, Failure)
    assert "arrays of type complex64 are not sent" in failure.detail

"""Whatever a client sends, the federation goes on: nonsense is reported, not raised, and spoils no model."""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.algorithms import ALGORITHMS
from coterie.federation.exchange import error_in_reply
from coterie.federation.loop import rounds
from coterie.messages import (
    LARGEST,
    ClassCounts,
    ClassCountsReply,
    ClientId,
    Evaluate,
    EvaluateReply,
    Failure,
    InputMoments,
    InputMomentsReply,
    Limits,
    Losses,
    LossesReply,
    ModelSpec,
    Moments,
    MomentsReply,
    Plan,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    wire,
)
from coterie.messages.limits import LARGEST_LOSS, MOST_SAMPLES
from coterie.models import initial
from coterie.testing import OnTheWire, small_federation
from coterie.training import total_steps

SPEC = ModelSpec("mlp", (1, 2, 2), 3, {"hidden": 4})
MODEL = initial(SPEC, 0)
KEPT = {"fc1.weight": np.arange(MODEL["fc1.weight"].size).reshape(MODEL["fc1.weight"].shape) % 2 > 0}
ASKED: list[tuple[Any, Any]] = [
    (Train(Plan(lr=Schedule(0.1), epochs=1)), TrainReply(10, 1, 0.5, MODEL)),
    (Prune(("fc1.weight",)), PruneReply.of(MODEL, KEPT, MODEL, "pruned", None)),
    (Evaluate(), EvaluateReply(5, 3, 0.5)),
    (Losses(("a", "b")), LossesReply(5, (0.5, 0.7), (3, 2), (4, 1))),
    (Signature(p=2), SignatureReply(np.eye(4, 2, dtype=np.float32), np.full(2, -1), 12.5)),
    (ClassCounts(), ClassCountsReply(np.array([1, 2, 3]))),
    (Moments(), MomentsReply(np.ones((3, 16), np.float32), np.ones(3, np.float32), np.array([4, 5, 6]))),
    (InputMoments(1, 1.0), InputMomentsReply(10, np.array([0.5]), np.array([0.1]))),
]
REQUEST = Request(3, 0, SPEC, tuple(verb for verb, _ in ASKED), {"model": MODEL})
HONEST = Reply(1, 3, tuple(answer for _, answer in ASKED))


def judged(blob: bytes) -> str | None:
    try:
        answer = wire.decode(blob)
    except wire.WireError as error:
        return str(error)
    return error_in_reply(REQUEST, answer, Limits(MODEL)) if isinstance(answer, Reply) else "no reply"


def test_the_honest_reply_passes() -> None:
    assert judged(wire.encode(HONEST)) is None


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def tree_of(blob: bytes) -> Any:
    return json.loads(json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["__metadata__"]["tree"])


def with_tree(blob: bytes, tree: Any) -> bytes:
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    header["__metadata__"]["tree"] = json.dumps(tree)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + blob[8 + length :]


odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from([10**400, -(10**400), 2**63, 2**63 - 1, -1, 10**13]),
    st.sampled_from([{"$float": "7fefffffffffffff"}, {"$float": "7ff8000000000000"}, {"$float": ""}, {"$array": "0"}]),
    st.sampled_from([{}, [], {"$": "Request"}, {"$": "Evaluated"}, {"$map": {}}, {"$map": [1]}, {"$array": []}]),
)  # fmt: skip


@pytest.mark.integration
@given(st.data())
@settings(max_examples=150)
def test_a_spoiled_reply_is_judged_and_never_raises(data: st.DataObject) -> None:
    blob = wire.encode(HONEST)
    tree = tree_of(blob)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(leaves(tree))))
        value = data.draw(odd)
        if not path:
            tree = value
            break
        inner = tree
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    judged(with_tree(blob, tree))


@pytest.mark.integration
@given(st.data())
@settings(max_examples=150)
def test_flipped_bytes_are_judged_and_never_raise(data: st.DataObject) -> None:
    blob = bytearray(wire.encode(HONEST))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    judged(bytes(blob))


@pytest.mark.parametrize(
    "answer",
    [
        TrainReply(MOST_SAMPLES + 1, 1, 0.5, MODEL), TrainReply(1, MOST_SAMPLES + 1, 0.5, MODEL),
        TrainReply(-1, 1, 0.5, MODEL),
        TrainReply(10, 0, 0.5, MODEL), TrainReply(10, 2, 0.5, MODEL), TrainReply(11, 1, 0.5, MODEL),
        TrainReply(0, 0, 0.5, MODEL),
        TrainReply(1, 1, 1e300, MODEL), TrainReply(1, 1, float("nan"), MODEL), TrainReply(1, 1, float("-inf"), MODEL),
        TrainReply(1, 1, 0.5, {**MODEL, "fc1.weight": MODEL["fc1.weight"] * np.float32(1e20)}),
        TrainReply(1, 1, 0.5, {**MODEL, "fc1.weight": MODEL["fc1.weight"].astype(np.float64)}),
        EvaluateReply(MOST_SAMPLES + 1, 1, 0.5), EvaluateReply(5, 6, 0.5), EvaluateReply(5, -1, 0.5),
        EvaluateReply(5, 1, 1e300),
        LossesReply(5, (0.5, 1e300), (3, 2), (4, 1)), LossesReply(5, (0.5, 0.5), (6, -1), (4, 1)),
        LossesReply(5, (0.5, 0.5), (3, 2), (6, 1)), LossesReply(5, (0.5, 0.5), (3, 2), (-1, 1)),
        LossesReply(10**13, (0.5, 0.5), (10**13 - 1, 1), (4, 1)),
        SignatureReply(np.eye(4, 2, dtype=np.float32) * 2, np.full(2, -1)), SignatureReply(np.full((4, 2), np.nan),
        np.full(2, -1)),
        ClassCountsReply(np.array([1, 2, 10**13])), ClassCountsReply(np.array([1, 2, -3])),
        ClassCountsReply(np.array([1.0, 2.0, 3.0])),
    ],
)  # fmt: skip
def test_numbers_that_can_t_be_are_refused(answer: Any) -> None:
    [verb] = [verb for verb, honest in ASKED if type(honest) is type(answer)]
    error = error_in_reply(replace(REQUEST, verbs=(verb,)), replace(HONEST, answers=(answer,)), Limits(MODEL))
    assert error is not None
    assert error.startswith(type(verb).__name__.lower())


def at_the_limit(value: Any, samples: int) -> Any:
    """Return the largest value of its kind that is believed of a client with so many samples."""
    if isinstance(value, np.ndarray):
        return np.full_like(value, LARGEST) if value.dtype.kind == "f" else value
    if isinstance(value, Mapping):
        return {key: at_the_limit(item, samples) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(at_the_limit(item, samples) for item in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return samples if isinstance(value, int) else LARGEST_LOSS


class Extreme(OnTheWire):
    """An engine in which client 1 answers with numbers as large as pass, or larger."""

    def __init__(self, inner: Any, times: float) -> None:
        super().__init__(inner)
        self.times = np.float32(times)

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        for answer in super().exchange(requests, deadline):
            if isinstance(answer, Reply) and answer.client == 1:
                request = requests[answer.client]
                samples = self.present(request.round)[answer.client]
                spoiled = [self.spoiled(*pair, samples) for pair in zip(request.verbs, answer.answers, strict=True)]
                answer = replace(answer, answers=tuple(spoiled))
            yield answer

    def spoiled(self, verb: Any, answer: Any, samples: int) -> Any:
        if isinstance(answer, SignatureReply):
            return answer
        large = {field.name: at_the_limit(getattr(answer, field.name), samples) for field in fields(answer)}
        if isinstance(verb, Train):
            large["steps"] = total_steps(large["samples"], verb.plan)
        if "params" in large:
            large["params"] = {name: value * self.times for name, value in large["params"].items()}
        return replace(answer, **large)


@pytest.mark.integration
@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_a_client_at_the_limits_of_belief_ends_no_method(method: str) -> None:
    """What passes may spoil the models of its group; it may not end the run."""
    with small_federation(method, rounds=2, fraction=1.0) as (run, _):
        run.fed.wrap_engine(lambda engine: Extreme(engine, 1.0))
        assert list(rounds(run.fed, run.algorithm, run.evaluator, every=1))
        struck = run.fed.events.kinds.get("invalid", {"clients": {}})["clients"]
        assert set(struck) <= {1}  # and nobody is struck for what follows from it


@pytest.mark.integration
@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_a_client_beyond_them_spoils_nothing(method: str) -> None:
    with small_federation(method, rounds=2, fraction=1.0) as (run, _):
        run.fed.wrap_engine(lambda engine: Extreme(engine, 1e20))
        assert list(rounds(run.fed, run.algorithm, run.evaluator, every=1))
        assert "diverged" not in run.fed.events.kinds
        if method != "solo":  # of which nothing is sent but numbers
            assert run.fed.events.kinds["invalid"]["clients"].keys() == {1}

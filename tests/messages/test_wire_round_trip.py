"""What is encoded comes back the same, and takes as many bytes as was said."""

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from message_strategies import DTYPES, KINDS, arrays, failures, params, plain, replies, requests, same

from coterie.messages import EvaluateReply, LossesReply, ModelSpec, Reply, Request, TrainReply, weighted_mean, wire


@pytest.mark.integration
@given(st.one_of(requests, replies, failures))
def test_every_message_comes_back_as_it_was(message: wire.Message) -> None:
    assert same(wire.decode(wire.encode(message)), message)


@pytest.mark.integration
@pytest.mark.parametrize("kind", wire.CLASSES)
@given(st.data())
@settings(max_examples=25)
def test_every_class_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
    """A new verb fails here until messages are made up for it too."""
    value = data.draw(KINDS[kind])
    assert type(value) is wire.CLASSES[kind]
    assert same(wire.unpack(wire.pack(value)), value)


@pytest.mark.integration
@given(st.dictionaries(st.text(max_size=5), plain | arrays, max_size=4))
def test_states_come_back_as_they_were(state: dict[str, Any]) -> None:
    assert same(wire.unpack(wire.pack(state)), state)


def holding(**tensors: np.ndarray) -> Reply:
    return Reply(1, 2, (TrainReply(3, 4, 0.5, tensors),))


@given(failures)
def test_size_of_failures(message: wire.Message) -> None:
    assert wire.size(message) == len(wire.encode(message))


def of_one_type(kind: str) -> st.SearchStrategy[Reply]:
    """Replies with any number of tensors; of several types of one width there is a test of its own."""
    shapes = st.lists(st.integers(0, 40), max_size=2).filter(lambda shape: shape != []).map(tuple)
    tensors = st.dictionaries(st.text(max_size=5), shapes.map(lambda shape: np.zeros(shape, kind)), max_size=14)
    return st.builds(lambda p: Reply(1, 2, (TrainReply(3, 4, 0.5, p),)), tensors)


@pytest.mark.integration
@given(st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"]).flatmap(of_one_type))
def test_size_of_replies_with_many_tensors(message: Reply) -> None:
    assert wire.size(message) == len(wire.encode(message))


@pytest.mark.integration
@given(st.one_of(requests, replies))
@settings(max_examples=150, phases=[Phase.generate])  # the smallest example is not worth the time
def test_size_is_exact_for_every_message(message: wire.Message) -> None:
    assert wire.size(message) == len(wire.encode(message))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (5, 0), (1,), (2, 3, 4)])
def test_size_and_content_of_every_type(kind: str, shape: tuple[int, ...]) -> None:
    message = holding(w=np.arange(np.prod(shape)).astype(kind).reshape(shape))
    blob = wire.encode(message)
    assert same(wire.decode(blob), message)
    assert wire.size(message) == len(blob)


@pytest.mark.parametrize(("a", "b"), [("i8", "f8"), ("f4", "i4"), ("f2", "i2"), ("u1", "i1"), ("?", "u1")])
def test_size_where_types_of_one_width_meet(a: str, b: str) -> None:
    """The order in which tensors are laid out decides how many digits their offsets have."""
    wrong = []
    for large in range(0, 1200, 60):
        for small in (1, 7, 12, 80):
            for first, second in ((a, b), (b, a)):
                message = holding(**{str(k): np.zeros(small, second) for k in range(5)}, z=np.zeros(large, first))
                if wire.size(message) != len(wire.encode(message)):
                    wrong.append((large, small, first, second))
    assert wrong == []


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "?"])
def test_a_tensor_without_dimensions_keeps_having_none(kind: str) -> None:
    """BatchNorm counts its batches in one."""
    message = holding(count=np.array(1, kind), w=np.ones(3, np.float32))
    blob = wire.encode(message)
    assert wire.size(message) == len(blob)
    assert same(wire.decode(blob), message)


def test_an_averaged_model_with_a_counter_can_be_sent() -> None:
    models = [{"w": np.float32([k]), "count": np.array(k)} for k in (3, 5)]
    request = Request(1, 0, ModelSpec("any", (1,), 2), (), {"model": weighted_mean(models, [1, 1])})
    arrived = wire.decode(wire.encode(request))
    assert same(arrived, Request(1, 0, request.spec, (), {"model": {"w": np.float32([4]), "count": np.array(5)}}))


@pytest.mark.parametrize("kind", [">f4", ">i8", ">f8"])
def test_foreign_byte_orders_arrive_as_numbers(kind: str) -> None:
    message = holding(w=np.array([1, 2, 300], kind))
    blob = wire.encode(message)
    np.testing.assert_array_equal(wire.decode(blob).answers[0].params["w"], [1, 2, 300])  # type: ignore[union-attr]
    assert wire.size(message) == len(blob)


def test_layout_in_memory_does_not_matter() -> None:
    w = np.arange(24, dtype=np.float32).reshape(4, 6)
    read_only = w.copy()
    read_only.flags.writeable = False
    for other in (np.asfortranarray(w), w.repeat(2, axis=1)[:, ::2], w[::-1][::-1], read_only):
        assert wire.encode(holding(w=other)) == wire.encode(holding(w=w))
        assert wire.size(holding(w=other)) == len(wire.encode(holding(w=w)))


def test_numbers_of_numpy_arrive_as_numbers() -> None:
    odd = Reply(
        np.int64(1),
        2,
        (EvaluateReply(np.int32(5), 3, np.float64(0.25)), LossesReply(2, (np.float32(0.5),), (2,), (1,))),
    )  # type: ignore[arg-type]
    assert same(
        wire.decode(wire.encode(odd)), Reply(1, 2, (EvaluateReply(5, 3, 0.25), LossesReply(2, (0.5,), (2,), (1,))))
    )


def test_lists_arrive_as_tuples() -> None:
    spec = ModelSpec("any", [3, 4], 2, {"widths": [1, [2]]})  # type: ignore[arg-type]
    arrived = wire.decode(wire.encode(Request(1, 0, spec, ())))
    assert same(arrived, Request(1, 0, ModelSpec("any", (3, 4), 2, {"widths": (1, (2,))}), ()))


@given(params)
@settings(max_examples=30)
def test_what_arrives_does_not_change_when_the_sender_goes_on(tensors: dict[str, np.ndarray]) -> None:
    message = holding(**{str(k): tensor for k, tensor in enumerate(tensors.values())})
    blob = wire.encode(message)
    first = wire.decode(blob)
    for tensor in tensors.values():
        tensor[...] = 0
    assert same(wire.decode(blob), first)


def test_names_that_look_like_the_format_are_only_names() -> None:
    options = {"$": "Plan", "$array": "0", "$map": {"$map": (), "$": None}, "": 1, "__metadata__": "x"}
    message = Request(1, 0, ModelSpec('"$"', (1,), 2, options), (), {"$array": {"$map": np.zeros(2)}}, kind='{"$":1}')
    blob = wire.encode(message)
    assert same(wire.decode(blob), message)
    assert wire.size(message) == len(blob)

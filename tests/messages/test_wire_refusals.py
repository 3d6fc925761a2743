"""What is not a message is refused, whatever it is; and nothing is executed."""

import ast
import dataclasses
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from coterie.messages import (
    Agree,
    AgreeReply,
    Anchor,
    Channels,
    ClassCounts,
    ClassCountsReply,
    Curriculum,
    Evaluate,
    EvaluateReply,
    Failure,
    Guarantee,
    InputMoments,
    InputMomentsReply,
    Keys,
    KeysReply,
    L1Penalty,
    Losses,
    LossesReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    MetaStep,
    Mixture,
    ModelSpec,
    Moments,
    MomentsReply,
    Optimiser,
    Plan,
    PrivateSteps,
    ProximalSteps,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Shares,
    SharesReply,
    Signature,
    SignatureReply,
    Standardisation,
    Train,
    TrainReply,
    Unmask,
    UnmaskReply,
    UpdateNoise,
    wire,
)

PLAN = Plan(
    Schedule(0.1), steps=3, anchors=(Anchor("model", 0.1),), correction="c", mask="own", curriculum=Curriculum(),
    meta_step=MetaStep(0.1, True), snapshots=(1,), l1=L1Penalty(0.1, ("bn.weight",)),
    mixture=Mixture(0.5), proximal=ProximalSteps(15.0, 5, 0.1), optimiser=Optimiser("adam"),
    private=PrivateSteps(1.0, 1.0, 0.1), hidden=UpdateNoise(1.0, 1.0),
)  # fmt: skip
WEIGHTS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
REQUEST = Request(
    3,
    0,
    ModelSpec("mclr", (4,), 3, {"hidden": 5}),
    (
        Train(PLAN, send=("fc",)),
        Evaluate(),
        Losses(("a", "b")),
        Signature(private=Guarantee(1.0, 1e-5), features=(4,)),
        ClassCounts(),
        Prune(("w",), channels=(Channels("conv", "bn", "fc", 3),), scales_of="network"),
        Moments(),
        InputMoments(3, 1.0),
        Keys(),
        Shares((1, 2), ("aa",), ("bb",)),
        MaskedTrain(Plan(Schedule(0.1)), masking=Masking((1, 2), 3, "samples", 1.0, 1.0, 1.0)),
        Agree((1,)),
        Unmask((1,), ("cc",)),
    ),
    {"model": WEIGHTS},
    "train",
    Standardisation((0.5,), (0.25,)),
)
REPLY = Reply(
    1,
    3,
    (
        TrainReply(5, 6, 0.5, WEIGHTS, WEIGHTS),
        EvaluateReply(9, 4, 0.1),
        LossesReply(3, (0.1, 0.2), (1, 2), (3, 0)),
        SignatureReply(np.eye(3), np.arange(3)),
        ClassCountsReply(np.arange(4)),
        PruneReply({"w": np.ones(2, np.float32)}, {"w": np.array([160], np.uint8)}, "pruned", "unchanged"),
        MomentsReply(np.ones((3, 4), np.float32), np.ones(3, np.float32), np.arange(3)),
        InputMomentsReply(4, np.zeros(3), np.ones(3)),
        KeysReply("aa", "bb"),
        SharesReply(("cc",)),
        MaskedReply(np.zeros(2, np.uint64), np.zeros(3, np.uint32)),
        AgreeReply("ee"),
        UnmaskReply(("dd", "")),
    ),
)
MESSAGES = [REQUEST, REPLY, Failure(1, 3, "late", "by a second")]


def tree_of(message: wire.Message) -> Any:
    blob = wire.encode(message)
    length = int.from_bytes(blob[:8], "little")
    return json.loads(json.loads(blob[8 : 8 + length])["__metadata__"]["tree"])


def forged(tree: Any, tensors: int = 14) -> bytes:
    """A blob with any tree in it, and a few tensors that it may name."""
    text = tree if isinstance(tree, str) else json.dumps(tree)
    return bytes(save({str(k): np.ones(3, np.float32) for k in range(tensors)}, metadata={"tree": text}))


def objects(tree: Any) -> list[dict[str, Any]]:
    """All parts of a tree that stand for an object of a class."""
    if isinstance(tree, list):
        return [node for item in tree for node in objects(item)]
    if not isinstance(tree, dict):
        return []
    inside = [node for item in tree.values() for node in objects(item)]
    return [tree, *inside] if "$" in tree else inside


def refused(blob: bytes) -> bool:
    try:
        wire.decode(blob)
    except wire.WireError:
        return True
    return False


def test_these_messages_are_good_and_hold_every_class() -> None:
    """Else the tests below could not fail."""
    for message in MESSAGES:
        assert not refused(wire.encode(message))
        assert not refused(forged(tree_of(message)))
    assert {o["$"] for message in MESSAGES for o in objects(tree_of(message))} == set(wire.CLASSES)


@given(st.binary(max_size=300))
@settings(max_examples=150)
@example(b"")
@example(b"\xff" * 40)
@example((5).to_bytes(8, "little") + b"[1,2]")
@example((2).to_bytes(8, "little") + b"{}")
@example((18).to_bytes(8, "little") + b'{"__metadata__":1}')
@example((21).to_bytes(8, "little") + b'{"__metadata__":null}')
def test_random_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(blob)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_truncated_and_prolonged_messages_are_refused(message: wire.Message) -> None:
    blob = wire.encode(message)
    accepted = [length for length in range(len(blob)) if not refused(blob[:length])]
    assert accepted == []
    assert refused(blob + b"\0")
    assert refused(b"\0" + blob)


@pytest.mark.integration
@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=150)
def test_damaged_messages_are_refused_or_still_messages(message: Any, damage: list[tuple[float, int]]) -> None:
    blob = bytearray(wire.encode(message))
    for place, byte in damage:
        blob[int(place * (len(blob) - 1))] = byte
    try:
        decoded = wire.decode(bytes(blob))
    except wire.WireError:
        return
    assert isinstance(decoded, Request | Reply | Failure)


@pytest.mark.parametrize(
    "name",
    [
        "Nothing",
        "",
        "dict",
        "object",
        "WireError",
        "Generator",
        "os.system",
        "__import__",
        "request",
        None,
        1,
        ["Plan"],
    ],
    ids=repr,
)
def test_unknown_classes_are_refused(name: Any) -> None:
    assert refused(forged({"$": name}))
    assert refused(forged({"$": name, "command": "true"}))
    tree = tree_of(REQUEST)
    tree["spec"]["options"]["$map"]["hidden"] = {"$": name}
    assert refused(forged(tree))


@pytest.mark.parametrize("value", [None, 1, "Request", [], {}, [{"$": "Failure"}], {"$map": {}}], ids=repr)
def test_what_is_no_message_is_refused(value: Any) -> None:
    assert refused(forged(value))


def test_parts_of_messages_and_states_are_no_messages() -> None:
    for part in (PLAN, REQUEST.spec, *REQUEST.verbs, *REPLY.answers, (REQUEST,), {"a": REQUEST}, None, 3, np.ones(2)):
        assert refused(wire.pack(part))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_fields_too_many_are_refused(message: wire.Message) -> None:
    for which in range(len(objects(tree_of(message)))):
        for extra in ("extra", "__class__", "self", "__dict__"):
            tree = tree_of(message)
            objects(tree)[which][extra] = 1
            assert refused(forged(tree)), (objects(tree)[which], extra)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_fields_too_few_are_refused(message: wire.Message) -> None:
    """Those with a default may be missing: an older sender does not know them."""
    for which, node in enumerate(objects(tree_of(message))):
        for field in dataclasses.fields(wire.CLASSES[node["$"]]):
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            tree = tree_of(message)
            objects(tree)[which].pop(field.name, None)  # some are sent only where they are set
            assert refused(forged(tree)) == required, (node["$"], field.name)


VALUES: dict[str, Any] = {
    "nothing": None,
    "truth": True,
    "integer": 1,
    "float": 1.5,
    "text": "text",
    "train": "train",
    "empty": [],
    "integers": [1, 2],
    "floats": [1.5],
    "texts": ["a"],
    "nothings": [None],
    "truths": [True],
    "map": {"$map": {}},
    "map of numbers": {"$map": {"a": 1}},
    "map of arrays": {"$map": {"a": {"$array": "0"}}},
    "map of models": {"$map": {"a": {"$map": {"b": {"$array": "0"}}}}},
    "array": {"$array": "0"},
    "missing array": {"$array": "77"},
    "verb": {"$": "ClassCounts"},
    "verbs": [{"$": "ClassCounts"}],
    "answer": {"$": "Evaluated", "samples": 1, "correct": 1, "loss": 0.0},
    "answers": [{"$": "Evaluated", "samples": 1, "correct": 1, "loss": 0.0}],
    "schedule": {"$": "Schedule", "rate": 0.1},
    "anchors": [{"$": "Anchor", "model": "a", "strength": 0.1}],
    "channels": [{"$": "Channels", "conv": "a", "norm": "b", "reader": "c", "floor": 1}],
    "curriculum": {"$": "Curriculum"},
    "meta step": {"$": "MetaStep", "rate": 0.1},
    "penalty": {"$": "L1Penalty", "strength": 0.1, "tensors": ["a"]},
    "mixture": {"$": "Mixture", "alpha": 0.5},
    "proximal": {"$": "ProximalSteps", "strength": 1.0, "steps": 2, "rate": 0.1},
    "optimiser": {"$": "Optimiser", "name": "adam"},
    "private": {"$": "PrivateSteps", "clip": 1.0, "noise": 1.0, "rate": 0.1},
    "hidden": {"$": "UpdateNoise", "clip": 1.0, "noise": 1.0},
    "guarantee": {"$": "Guarantee", "epsilon": 1.0, "delta": 1e-5},
    "masking": {
        "$": "Masking",
        "clients": [1, 2, 3],
        "minimum": 3,
        "weighing": "equal",
        "clip": 1.0,
        "heaviest": 1.0,
        "largest": 1.0,
    },
    "plan": {"$": "Plan", "lr": {"$": "Schedule", "rate": 0.1}},
    "standardisation": {"$": "Standardisation", "mean": [0.5], "std": [2]},
    "spec": {"$": "ModelSpec", "name": "a", "shape": [1], "classes": 2},
}
MAPS = {"map", "map of numbers", "map of arrays", "map of models"}
ACCEPTED: dict[str, set[str]] = {
    "int": {"integer"},
    "ClientId": {"integer"},
    "int | None": {"integer", "nothing"},
    "float": {"integer", "float"},
    "float | None": {"integer", "float", "nothing"},
    "bool": {"truth"},
    "str": {"text", "train"},
    "str | None": {"text", "train", "nothing"},
    "Part": {"train"},
    "Literal['loss', 'accuracy']": set(),
    "Verdict": set(),
    "Verdict | None": {"nothing"},
    "Score": set(),
    "Pacing": set(),
    "Order": set(),
    "tuple[int, ...]": {"empty", "integers"},
    "tuple[int, ...] | None": {"empty", "integers", "nothing"},
    "tuple[float, ...]": {"empty", "integers", "floats"},
    "tuple[float, float] | None": {"integers", "nothing"},
    "tuple[str, ...]": {"empty", "texts"},
    "tuple[str, ...] | None": {"empty", "texts", "nothing"},
    "bool | tuple[str, ...]": {"truth", "empty", "texts"},
    "str | tuple[str, ...]": {"text", "train", "empty", "texts"},
    "tuple[Anchor, ...]": {"empty", "anchors"},
    "tuple[Channels, ...]": {"empty", "channels"},
    "tuple[Verb, ...]": {"empty", "verbs"},
    "tuple[Answer, ...]": {"empty", "answers"},
    "Schedule": {"schedule"},
    "Curriculum | None": {"curriculum", "nothing"},
    "MetaStep | None": {"meta step", "nothing"},
    "L1Penalty | None": {"penalty", "nothing"},
    "Literal['adam', 'adamw']": set(),
    "Mixture | None": {"mixture", "nothing"},
    "ProximalSteps | None": {"proximal", "nothing"},
    "Optimiser | None": {"optimiser", "nothing"},
    "PrivateSteps | None": {"private", "nothing"},
    "UpdateNoise | None": {"hidden", "nothing"},
    "Guarantee | None": {"guarantee", "nothing"},
    "Literal['network'] | None": {"nothing"},
    "Literal[True] | None": {"nothing", "truth"},
    "LabelOffset | None": {"nothing"},
    "Masking": {"masking"},
    "Weighing": set(),
    "Plan": {"plan"},
    "ModelSpec": {"spec"},
    "Standardisation | None": {"standardisation", "nothing"},
    "Array": {"array"},
    "Params": {"map", "map of arrays"},
    "Mapping[str, Params]": {"map", "map of models"},
    "Mapping[str, Any]": MAPS,
}
"""Which of the values above fit a declared type; all others must be refused."""


def annotations(cls: type) -> dict[str, str]:
    """The types of a dataclass's fields, as its source has them, or that of the class it is derived from."""
    written: dict[str, str] = {}
    for origin in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        [definition] = ast.parse(inspect.getsource(origin)).body
        written |= {n.target.id: ast.unparse(n.annotation) for n in definition.body if isinstance(n, ast.AnnAssign)}
    return {field.name: written[field.name] for field in dataclasses.fields(cls)}


@pytest.mark.integration
@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_values_of_the_wrong_type_are_refused_in_every_field(message: wire.Message) -> None:
    wrong = []
    for which, node in enumerate(objects(tree_of(message))):
        for field, annotation in annotations(wire.CLASSES[node["$"]]).items():
            for name, value in VALUES.items():
                tree = tree_of(message)
                objects(tree)[which][field] = value
                if refused(forged(tree)) != (name not in ACCEPTED[annotation]):
                    wrong.append((node["$"], field, name))
    assert wrong == []


@pytest.mark.parametrize("depth", [1_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"$map":{"a":', "}}"), ('{"a":', "}")])
def test_deep_nesting_is_refused(depth: int, opening: str, closing: str) -> None:
    deep = opening * depth + "1" + closing * depth
    assert refused(forged(deep))
    head = f'{{"__metadata__":{{"tree":{deep}}}}}'.encode()
    assert refused(len(head).to_bytes(8, "little") + head)
    head = f'{{"__metadata__":{{"tree":"1"}},"x":{deep}}}'.encode()
    assert refused(len(head).to_bytes(8, "little") + head)


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F8_E5M2", "C64", "F4", "X", 3])
def test_tensors_that_numpy_does_not_have_are_refused_or_arrays(kind: Any) -> None:
    tree = json.dumps({"$": "Reply", "client": 1, "round": 1, "answers": [{"$": "Counted", "counts": {"$array": "0"}}]})
    head = json.dumps(
        {"__metadata__": {"tree": tree}, "0": {"dtype": kind, "shape": [1], "data_offsets": [0, 8]}}
    ).encode()
    blob = len(head).to_bytes(8, "little") + head + bytes(8)
    assert refused(blob) or isinstance(wire.decode(blob).answers[0].counts, np.ndarray)  # type: ignore[union-attr]


def test_impossible_tensors_are_refused() -> None:
    tree = json.dumps({"$": "Reply", "client": 1, "round": 1, "answers": [{"$": "Counted", "counts": {"$array": "0"}}]})
    for shape, offsets in (
        ([2], [0, 4]),
        ([1], [0, 2**60]),
        ([2**62, 4], [0, 4]),
        ([-1], [0, 4]),
        ([1], [4, 0]),
        ([1], [4, 8]),
        ("1", [0, 4]),
    ):
        head = json.dumps(
            {"__metadata__": {"tree": tree}, "0": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}
        ).encode()
        assert refused(len(head).to_bytes(8, "little") + head + bytes(4)), (shape, offsets)


class Malice:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_never_executed(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "executed"
    blob = pickle.dumps(Malice(path), protocol)
    head = blob.hex().encode()
    for attempt in (
        blob,
        len(blob).to_bytes(8, "little") + blob,
        forged(blob.decode("latin-1")),
        forged({"$": "Failure", "client": 1, "round": 1, "kind": {"$pickle": head.decode()}}),
        save({"0": np.frombuffer(blob, np.uint8)}),
    ):
        assert refused(attempt)
    assert not path.exists()
    pickle.loads(blob)  # it would have worked
    assert path.exists()


def test_an_array_of_objects_can_not_be_sent() -> None:
    with pytest.raises(Exception, match="object"):
        wire.encode(Reply(1, 1, (SignatureReply(np.array([object()]), np.arange(1)),)))


@pytest.mark.parametrize("quoted", ["x" * 10**5, "a\nb\r\x1b[2J", "\u2028\x00"])
def test_a_refusal_is_one_line_whatever_it_quotes(quoted: str) -> None:
    blob = wire.encode(REQUEST)
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    named = next(value for key, value in header.items() if key != "__metadata__")
    named["dtype"] = quoted
    text = json.dumps(header).encode()
    with pytest.raises(wire.WireError) as error:
        wire.decode(len(text).to_bytes(8, "little") + text + blob[8 + length :])
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_what_unpacks_to_much_is_refused_by_its_size() -> None:
    tree = "[" + "[]," * 3_000_000 + "[]]"
    blob = bytes(save({}, metadata={"tree": tree}))
    with pytest.raises(wire.WireError, match="bytes beside its arrays"):
        wire.decode(blob)
    assert wire.unpack(bytes(save({}, metadata={"tree": "[[],[]]"}))) == ((), ())

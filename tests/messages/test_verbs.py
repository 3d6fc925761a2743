"""A verb is two modules and an entry in one list; what is wrong with an answer names the value and the limit."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client.verbs import HANDLERS
from coterie.messages import (
    VERBS,
    Channels,
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    EvaluateReply,
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
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
    wire,
)

SPEC = ModelSpec("mclr", (2, 2), 3)
MODEL = {"w": np.zeros((3, 4), np.float32), "b": np.zeros(3, np.float32)}
HOLES = {"w": np.arange(12).reshape(3, 4) > 4}
TRAIN, PRUNE = Train(Plan(Schedule(0.1))), Prune(("w",))
UNIT = np.eye(4, 2, dtype=np.float32)
LABELS = np.array([-1, -1])


def error(verb: Verb, answer: Any) -> str | None:
    return verb.error_in(answer, Request(1, 0, SPEC, (verb,), {"c": {"b": MODEL["b"]}, "model": MODEL}), Limits(MODEL))


DESCRIBED = MomentsReply(
    np.array([[1, 2, 3, 4], [0, 0, 0, 0], [5, 6, 7, 8]], np.float32),
    np.array([0, 0, 2.5], np.float32),
    np.array([4, 0, 10**12 - 4]),
)


MEASURED = InputMomentsReply(10, np.array([0.5, 1.0]), np.array([0.25, 0.0]))
BYTES = InputMoments(2, highest=1.0)


HONEST: list[tuple[Verb, Any]] = [
    (InputMoments(2), MEASURED),
    (InputMoments(2), replace(MEASURED, means=np.array([-1e9, 1e9]), variances=np.array([1e12, 0.0]))),
    (BYTES, MEASURED),
    (TRAIN, TrainReply(25, 3, 0.5, MODEL)),
    (replace(TRAIN, send=False), TrainReply(0, 0, 0.0)),
    (replace(TRAIN, send=("b",)), TrainReply(25, 3, 0.5, {"b": MODEL["b"]})),
    (Train(Plan(Schedule(0.1), correction="c")), TrainReply(25, 3, 0.5, MODEL, {"b": MODEL["b"]})),
    (Evaluate(), EvaluateReply(5, 5, 0.5)),
    (Losses(("a", "b")), LossesReply(5, (0.5, 0.7), (3, 2), (5, 1))),
    (Losses(("a", "b"), hidden=True), LossesReply(0, (), (), ())),
    (Signature(p=2), SignatureReply(UNIT, LABELS, 360.0)),
    (Signature(p=1, per_label=True), SignatureReply(UNIT, np.array([0, 2]))),
    (ClassCounts(), ClassCountsReply(np.array([1, 0, 10**12 - 1]))),
    (PRUNE, PruneReply.of(MODEL, HOLES, MODEL, "pruned", None)),
    (Moments(), DESCRIBED),
    (Moments(2), replace(DESCRIBED, means=DESCRIBED.means[:, :2])),
    (Moments(), MomentsReply(np.zeros((3, 4), np.float32), np.zeros(3, np.float32), np.zeros(3, np.int64))),
]


@pytest.mark.parametrize(("verb", "answer"), HONEST, ids=[type(verb).__name__ for verb, _ in HONEST])
def test_honest_answers_pass(verb: Verb, answer: Any) -> None:
    assert error(verb, answer) is None


PRUNED = PruneReply.of(MODEL, HOLES, MODEL, "pruned", None)
LAYER = Channels("conv", "norm", "fc", 1)


@pytest.mark.parametrize(
    ("verb", "answer", "expected"),
    [
        (InputMoments(3), MEASURED, "means are float64 (2,), expected float64 (3,)"),
        (
            InputMoments(2),
            replace(MEASURED, variances=np.zeros(2, np.float32)),
            "variances are float32 (2,), expected float64 (2,)",
        ),
        (
            InputMoments(2),
            replace(MEASURED, means=np.array([0.5, np.nan])),
            "means hold a NaN, an infinity or a number beyond 1e+12",
        ),
        (
            InputMoments(2),
            replace(MEASURED, variances=np.array([0.5, 2e12])),
            "variances hold a NaN, an infinity or a number beyond 1e+12",
        ),
        (InputMoments(2), replace(MEASURED, samples=0), "samples = 0, expected at least 1"),
        (InputMoments(2), replace(MEASURED, variances=np.array([-0.1, 0])), "variances from -0.1, expected at least 0"),
        (BYTES, replace(MEASURED, means=np.array([0.5, 1.1])), "means from 0.5 to 1.1, expected 0 to 1"),
        (BYTES, replace(MEASURED, means=np.array([-0.5, 1.0])), "means from -0.5 to 1, expected 0 to 1"),
        (BYTES, replace(MEASURED, means=np.array([0.1, 1.0])), "a variance of 0.25, expected at most 0.09 around its"),
        (
            InputMoments(2),
            replace(MEASURED, samples=10**12 + 1),
            "samples = 1000000000001, where the client has declared 1000000000000",
        ),
        (Moments(), replace(DESCRIBED, means=UNIT), "means of shape (4, 2), expected (3, 4)"),
        (Moments(2), DESCRIBED, "means of shape (3, 4), expected (3, 2)"),
        (Moments(), replace(DESCRIBED, variances=np.zeros(2, np.float32)), "variances of shape (2,), expected (3,)"),
        (Moments(), replace(DESCRIBED, counts=np.zeros(4, np.int64)), "counts of shape (4,), expected (3,)"),
        (
            Moments(),
            replace(DESCRIBED, means=DESCRIBED.means.astype(np.float64)),
            "means of type float64, expected float32",
        ),
        (
            Moments(),
            replace(DESCRIBED, means=DESCRIBED.means + np.float32(np.inf)),
            "means hold a NaN, an infinity or a number beyond 1e+12",
        ),
        (
            Moments(),
            replace(DESCRIBED, variances=np.array([0, 0, np.nan], np.float32)),
            "variances hold a NaN, an infinity or a number beyond 1e+12",
        ),
        (
            Moments(),
            replace(DESCRIBED, variances=np.array([0, 0, -0.5], np.float32)),
            "variances from -0.5, expected at least 0",
        ),
        (
            Moments(),
            replace(DESCRIBED, counts=np.array([4, 0, -4])),
            "counts from -4 to 4, expected 0 to 1000000000000",
        ),
        (Moments(), replace(DESCRIBED, counts=np.array([4.0, 0, 5])), "counts of type float64, expected integers"),
        (Moments(), replace(DESCRIBED, counts=np.array([3, 0, 9])), "3 samples of a label, expected at least 4, or 0"),
        (Moments(), replace(DESCRIBED, counts=np.array([4, 0, 0])), "moments of a label with 0 samples, expected 0"),
        (
            Moments(),
            replace(DESCRIBED, counts=np.array([5, 0, 10**12 - 4])),
            "samples = 1000000000001, where the client has declared 1000000000000",
        ),
        (TRAIN, TrainReply(-1, 3, 0.5, MODEL), "samples = -1, expected 0 to 1e+12"),
        (TRAIN, TrainReply(25, 10**13, 0.5, MODEL), "steps = 10000000000000, expected 0 to 1e+12"),
        (TRAIN, TrainReply(25, 3, float("nan"), MODEL), "loss = nan, expected 0 to 1e+100"),
        (TRAIN, TrainReply(25, 4, 0.5, MODEL), "4 steps, where the plan has 3 for 25 samples"),
        (TRAIN, TrainReply(0, 0, 0.5, MODEL), "a model trained on 0 samples, expected at least 1"),
        (TRAIN, TrainReply(25, 3, 0.5, {"w": MODEL["w"]}), "parameters missing: b"),
        (replace(TRAIN, send=False), TrainReply(25, 3, 0.5, MODEL), "parameters not asked for: b, w"),
        (TRAIN, TrainReply(25, 3, 0.5, MODEL, {"b": MODEL["b"]}), "parameters not asked for: b"),
        (
            TRAIN,
            TrainReply(25, 3, 0.5, MODEL | {"b": np.zeros(2)}),
            "'b' is float64 (2,), expected float32 (3,)",
        ),
        (
            TRAIN,
            TrainReply(25, 3, 0.5, MODEL | {"b": np.float32([0, 0, 2e12])}),
            "'b' holds a NaN, an infinity or a number beyond 1e+12",
        ),
        (Evaluate(), EvaluateReply(5, 6, 0.5), "correct = 6, expected at most 5, the number of samples"),
        (Evaluate(), EvaluateReply(5, 5, 1e300), "loss = 1e+300, expected 0 to 1e+100"),
        (Losses(("a", "b")), LossesReply(5, (0.5,), (3, 2), (5, 1)), "1 losses for 2 models"),
        (
            Losses(("a", "b"), hidden=True),
            LossesReply(5, (0.5, 0.7), (3, 2), (5, 1)),
            "losses of models, where the client was to keep",
        ),
        (Losses(("a", "b")), LossesReply(0, (), (), ()), "0 losses for 2 models"),
        (Losses(("a", "b")), LossesReply(5, (0.5, 0.7), (3, 1), (5, 1)), "wins add up to 4, expected 5, the number of"),
        (Losses(("a", "b")), LossesReply(5, (0.5, 0.7), (6, -1), (5, 1)), "wins = -1, expected 0 to 1e+12"),
        (Losses(("a", "b")), LossesReply(5, (0.5, 0.7), (3, 2), (6, 1)), "correct = 6, expected at most 5"),
        (Signature(p=1), SignatureReply(UNIT, LABELS), "vectors of shape (4, 2), expected (4, up to 1)"),
        (Signature(p=2), SignatureReply(UNIT.astype(int), LABELS), "vectors of type int64, expected floating-point"),
        (Signature(p=2), SignatureReply(UNIT * 2, LABELS), "a vector of length 2, expected at most 1"),
        (Signature(p=2), SignatureReply(UNIT * np.nan, LABELS), "a vector of length nan, expected at most 1"),
        (Signature(p=2), SignatureReply(UNIT, LABELS[:1]), "labels of shape (1,), expected (2,), one per vector"),
        (Signature(p=2), SignatureReply(UNIT, LABELS + 1), "labels from 0 to 0, expected -1 to -1"),
        (Signature(p=1, per_label=True), SignatureReply(UNIT, LABELS + 4), "labels from 3 to 3, expected 0 to 2"),
        (Signature(p=2), SignatureReply(UNIT, LABELS, 361.0), "halves 361 apart by theta1, expected 0 to 360"),
        (Signature(p=2, measure="own"), SignatureReply(UNIT, LABELS, math.inf), "halves inf apart by own, expected 0"),
        (Signature(p=2, measure="own"), SignatureReply(UNIT, LABELS, -1.0), "halves -1 apart by own, expected 0"),
        (ClassCounts(), ClassCountsReply(np.array([1, 2])), "counts of shape (2,), expected (3,), one per class"),
        (ClassCounts(), ClassCountsReply(np.ones(3)), "counts of type float64, expected integers"),
        (ClassCounts(), ClassCountsReply(np.array([1, 2, -3])), "counts from -3 to 2, expected 0 to 1000000000000"),
        (PRUNE, replace(PRUNED, channels="pruned"), "the verdict on channels is pruned, but none was asked for"),
        (replace(PRUNE, channels=(LAYER,)), PRUNED, "the verdict on channels is None, but one was asked for"),
        (Prune(("b",)), PRUNED, "parameters that are not to be pruned: w"),
        (
            PRUNE,
            replace(PRUNED, bitmaps={"w": np.uint8([255])}),
            "the bitmap of 'w' is uint8 (1,), expected uint8 with 12 bits",
        ),
    ],
)
def test_what_is_wrong_with_an_answer_names_value_and_limit(verb: Verb, answer: Any, expected: str) -> None:
    assert (error(verb, answer) or "")[: len(expected)] == expected


def test_each_verb_has_a_handler_in_the_module_of_the_same_name() -> None:
    assert list(HANDLERS) == list(VERBS)
    for verb, handler in HANDLERS.items():
        assert handler.__module__ == verb.__module__.replace(".messages.", ".client.")


def test_names_on_the_wire_stay() -> None:
    """Sites and servers of different versions talk, and byte counts of stored runs hold."""
    assert {verb.answer_type.__name__: verb.answer_type.wire_name for verb in VERBS} == {
        "TrainReply": "Trained",
        "EvaluateReply": "Evaluated",
        "LossesReply": "Compared",
        "SignatureReply": "Signed",
        "ClassCountsReply": "Counted",
        "PruneReply": "Pruned",
        "MomentsReply": "Described",
        "InputMomentsReply": "Measured",
        "KeysReply": "Keys advertised",
        "SharesReply": "Shares made",
        "MaskedReply": "Masked",
        "AgreeReply": "Agreed",
        "UnmaskReply": "Shares given",
    }
    assert {"Channels", "Plan", "Schedule", "Anchor", "Curriculum"} < set(wire.CLASSES)


QUESTION = """
from dataclasses import dataclass

from coterie.messages.envelope import Answer, Verb
from coterie.messages.limits import error_in_counts


@dataclass(frozen=True)
class SampleCountReply(Answer):
    wire_name = "SampleCountReply"
    samples: int


@dataclass(frozen=True)
class SampleCount(Verb):
    answer_type = SampleCountReply
    at_most: int = 100

    def error_in(self, answer, request, limits):
        return error_in_counts(samples=answer.samples)

    def largest_answer(self, request, limits):
        return 64
"""
HANDLER = """
from coterie.messages.verbs.sample_count import SampleCountReply


def answer(handler, verb):
    return SampleCountReply(min(len(handler.data.train), verb.at_most))
"""
USE = """
import numpy as np

from coterie.client import Client, LocalData, MemoryStore
from coterie.federation.request_checks import check_verbs
from coterie.federation.exchange import error_in_reply
from coterie.messages import Limits, ModelSpec, Request, wire
from coterie.messages.verbs.sample_count import SampleCount, SampleCountReply

x, y = np.zeros((9, 4)), np.zeros(9, np.int64)
client = Client(3, {0: LocalData(x, y, np.arange(7), x, y, np.arange(2), 3, lambda raw: raw)}, MemoryStore(), None)
check_verbs([SampleCount(5)], {})
request = wire.decode(wire.encode(Request(1, 0, ModelSpec("mclr", (4,), 3), (SampleCount(5),))))
reply = wire.decode(wire.encode(client.answer(request)))
assert error_in_reply(request, reply, Limits({})) is None
print(reply.answer(SampleCountReply).samples)
"""


@pytest.mark.integration
def test_a_verb_is_added_with_two_modules_and_an_entry_in_one_list(tmp_path: Path) -> None:
    source = Path(coterie.__file__).parent
    package = tmp_path / "coterie"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "messages" / "verbs" / "sample_count.py").write_text(QUESTION)
    (package / "client" / "verbs" / "sample_count.py").write_text(HANDLER)
    verbs = package / "messages" / "verbs" / "__init__.py"
    text = verbs.read_text(encoding="utf-8")
    text = text.replace("\nVERBS:", "\nfrom coterie.messages.verbs.sample_count import SampleCount\n\nVERBS:").replace(
        "InputMoments)", "InputMoments, SampleCount)"
    )
    verbs.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("5\n", "")

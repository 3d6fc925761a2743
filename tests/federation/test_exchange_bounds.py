"""What a client claims is bounded by what it declared, and by what the verb can yield."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.federation import EngineWrapper, Federation
from coterie.federation.evaluation import pooled
from coterie.federation.exchange import error_in_reply, largest_reply
from coterie.federation.loop import rounds
from coterie.messages import (
    Answer,
    ClassCounts,
    ClassCountsReply,
    ClientId,
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
    PruneReply,
    Reply,
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
)
from coterie.models import initial
from coterie.testing import RecordingEngine, small_federation

SPEC = ModelSpec("mlp", (1, 2, 2), 3, {"hidden": 4})
MODEL = initial(SPEC, 0)
LIMITS = Limits(MODEL, samples=50, tests=20)
PLAN = Plan(Schedule(0.1))


def error(verb: Verb, answer: Answer, limits: Limits = LIMITS, **models: Any) -> str | None:
    request = Request(3, 0, SPEC, (verb,), {"model": MODEL, **models})
    return error_in_reply(request, Reply(1, 3, (answer,)), limits)


def unit(count: int) -> np.ndarray:
    return np.tile(np.eye(4, 1, dtype=np.float32), count)


def moments_of(counts: np.ndarray) -> MomentsReply:
    return MomentsReply(np.zeros((3, 16), np.float32), np.zeros(3, np.float32), counts)


HELD = replace(PLAN, holdout=0.1)
AT_MOST: list[tuple[Verb, Callable[[int], Answer], int]] = [
    (Train(PLAN), lambda n: TrainReply(n, math.ceil(n / 10), 0.5, MODEL), 50),
    (Train(HELD), lambda n: TrainReply(n, math.ceil(n / 10), 0.5, MODEL), 45),
    (Evaluate(), lambda n: EvaluateReply(n, 1, 0.5), 20),
    (Evaluate(on="train"), lambda n: EvaluateReply(n, 1, 0.5), 50),
    (Evaluate(on="holdout", share=0.1), lambda n: EvaluateReply(n, 1, 0.5), 5),
    (Losses(("a",)), lambda n: LossesReply(n, (0.5,), (n,), (1,)), 50),
    (Losses(("a",), on="test"), lambda n: LossesReply(n, (0.5,), (n,), (1,)), 20),
    (ClassCounts(), lambda n: ClassCountsReply(np.array([25, n - 25, 0])), 50),
    (Moments(), lambda n: moments_of(np.array([25, n - 25, 0])), 50),
    (InputMoments(1), lambda n: InputMomentsReply(n, np.zeros(1), np.zeros(1)), 50),
]


@pytest.mark.parametrize(("verb", "answer", "most"), AT_MOST, ids=[str(i) for i in range(len(AT_MOST))])
def test_more_samples_than_declared_are_invalid(verb: Verb, answer: Callable[[int], Answer], most: int) -> None:
    assert error(verb, answer(most)) is None
    assert "declared" in (error(verb, answer(most + 1)) or "")


@pytest.mark.parametrize("loss", [-0.5, -1e30, math.nan])
def test_losses_below_0_are_invalid(loss: float) -> None:
    assert "loss" in (error(Train(PLAN), TrainReply(10, 1, loss, MODEL)) or "")
    assert "loss" in (error(Evaluate(), EvaluateReply(5, 1, loss)) or "")
    assert "loss" in (error(Losses(("a", "b")), LossesReply(5, (0.1, loss), (5, 0), (1, 1))) or "")
    assert error(Evaluate(), EvaluateReply(5, 1, -1e-9)) is None  # a rounded 0


def test_a_variance_below_0_is_invalid() -> None:
    spec = ModelSpec("lenet5-bn", (1, 28, 28), 10)
    model = initial(spec, 0)
    name = next(name for name in model if name.endswith("running_var"))
    request = Request(3, 0, spec, (Train(PLAN),), {"model": model})
    for value, wrong in ((0.5, False), (-0.5, True)):
        params = {**model, name: np.full_like(model[name], value)}
        reply = Reply(1, 3, (TrainReply(10, 1, 0.5, params),))
        assert (error_in_reply(request, reply, Limits(model, 50)) is not None) == wrong


def counted(model: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """A model whose counters say how many batches they have seen."""
    return {name: np.array(count) if value.dtype.kind == "i" else value for name, value in model.items()}


@pytest.mark.parametrize(
    ("start", "models", "most"),
    [
        (("model",), {"model": 70}, 70 + 20),
        (("initial",), {}, 0 + 20),
        (("best",), {"a": 30, "b": 90}, 90 + 20),
        (("own", "model"), {"model": 5}, 5 + 20),
        (("own",), {"model": 5}, None),
    ],
)
def test_a_counter_grows_with_the_steps(start: tuple[str, ...], models: dict[str, int], most: int | None) -> None:
    """The largest becomes everybody's: at 10¹² no honest client could count on."""
    spec = ModelSpec("lenet5-bn", (1, 28, 28), 10)
    model = initial(spec, 0)
    sent = {name: counted(model, count) for name, count in models.items()}
    request = Request(3, 0, spec, (Train(PLAN, start=start),), sent)
    for count in (1, most or 10**11, 10**12 if most is None else most + 1):
        reply = Reply(1, 3, (TrainReply(50, 5, 0.5, counted(model, count)),))
        error = error_in_reply(request, reply, Limits(model, 50))
        assert (error is not None) == (most is not None and count > most), count


@pytest.mark.integration
@pytest.mark.parametrize(("method", "of"), [("fedavg", TrainReply), ("sub-fedavg-hy", PruneReply)])
def test_no_counter_keeps_others_from_training(method: str, of: type) -> None:
    def lie(answer: Any) -> Any:
        return replace(answer, params=counted(answer.params, 10**12))

    small = {"rounds": 2, "clients": 3, "model": "lenet5-bn", "model_options": {}, "epochs": 1}
    with small_federation(method, fraction=1.0, **small) as (run, _):
        run.fed.wrap_engine(lambda engine: Lying(engine, of, lie))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        assert {kind: event["clients"].keys() for kind, event in run.fed.events.kinds.items()} == {"invalid": {1}}


def test_a_control_follows_from_what_was_trained() -> None:
    plan, server = replace(PLAN, correction="c"), {name: value * 0 + np.float32(0.25) for name, value in MODEL.items()}
    trained = {name: value - np.float32(0.05) for name, value in MODEL.items()}
    control = {name: (MODEL[name] - trained[name]) / np.float32(0.5) - server[name] for name in MODEL}
    assert error(Train(plan), TrainReply(50, 5, 0.5, trained, control), c=server) is None
    for wrong in (np.float32(1e11), np.float32(1), np.float32(-1e3)):
        lie = {**control, "fc1.bias": control["fc1.bias"] + wrong}
        assert "does not follow" in (error(Train(plan), TrainReply(50, 5, 0.5, trained, lie), c=server) or "")


def test_signatures_have_no_more_vectors_than_there_are_samples() -> None:
    whole, by_label, share = Signature(p=3), Signature(p=2, per_label=True), Signature(per_label=True, share=0.1)
    three = [(whole, np.full(3, -1)), (by_label, np.arange(3)), (share, np.arange(3))]
    for verb, labels in three:
        assert error(verb, SignatureReply(unit(3), labels), Limits(MODEL, 3)) is None
        assert "vectors of shape" in (error(verb, SignatureReply(unit(3), labels), Limits(MODEL, 2)) or "")
    assert "2 vectors of one label" in (error(share, SignatureReply(unit(2), np.zeros(2, int)), Limits(MODEL, 9)) or "")
    assert error(share, SignatureReply(unit(2), np.zeros(2, int)), Limits(MODEL, 15)) is None
    odd = SignatureReply(unit(4), np.array([0, 0, 0, 1]))
    assert "3 vectors of one label" in (error(by_label, odd) or "")


def test_a_reply_is_no_longer_than_what_the_declared_samples_yield() -> None:
    """An answer of 756 MB was accepted for FLAG on CIFAR-10."""
    spec = ModelSpec("lenet5", (3, 32, 32), 10)
    verbs = Signature(per_label=True, share=0.01), ClassCounts(), Train(PLAN, start=("initial",), keep=False)
    request = Request(0, 0, spec, verbs)
    assert largest_reply(request) > 700e6
    assert largest_reply(request, 500) < 1.5e6


class Lying(RecordingEngine):
    """Client 1 changes its answers of a type."""

    lie: Callable[[Any], Any]
    of: type

    def __init__(self, inner: Any, of: type, lie: Callable[[Any], Any]) -> None:
        super().__init__(inner, self.changed)
        self.of, self.lie = of, lie

    def changed(self, reply: Reply, request: Request) -> Reply:
        if reply.client != 1:
            return reply
        answers = [self.lie(answer) if isinstance(answer, self.of) else answer for answer in reply.answers]
        return replace(reply, answers=tuple(answers))


@pytest.mark.parametrize(
    ("method", "of", "lie"),
    [
        ("fedavg", TrainReply, lambda a: replace(a, samples=10**9, steps=10**8)),
        ("scaffold", TrainReply, lambda a: replace(a, control={n: v + np.float32(1e11) for n, v in a.control.items()})),
        ("fedavg", EvaluateReply, lambda a: replace(a, samples=10**9, correct=10**9)),
        ("ifca", LossesReply, lambda a: replace(a, losses=tuple(-loss for loss in a.losses))),
        ("flag", ClassCountsReply, lambda a: replace(a, counts=a.counts + 10**9)),
        ("flag", SignatureReply, lambda a: replace(a, vectors=np.tile(a.vectors, 40), labels=np.tile(a.labels, 40))),
    ],
)
def test_a_federation_notes_them_and_goes_on(method: str, of: type, lie: Callable[[Any], Any]) -> None:
    with small_federation(method, rounds=2, fraction=1.0) as (run, _):
        run.fed.wrap_engine(lambda engine: Lying(engine, of, lie))
        history = [evaluation for _, evaluation in rounds(run.fed, run.algorithm, run.evaluator, every=1)]
        assert run.fed.events.kinds["invalid"]["clients"].keys() == {1}
        assert history[-1] is not None
        assert history[-1].W is None or history[-1].W < 1


@pytest.mark.parametrize("loss", [1e30, 400.0])
def test_a_lying_loss_does_not_move_the_mean_and_is_marked(loss: float) -> None:
    seen = []
    for lie in (lambda answer: replace(answer, loss=loss), lambda answer: answer):
        with small_federation("fedavg", rounds=1, fraction=1.0) as (run, _):
            engine = run.fed.wrap_engine(lambda engine, lie=lie: Lying(engine, TrainReply, lie))
            list(rounds(run.fed, run.algorithm, run.evaluator, every=1))
            honest = [a.loss for (_, client), a in engine.answers(TrainReply).items() if client != 1]
            seen.append((run.fed.training.mean_loss, run.fed.events.kinds.get("outlier", {"clients": {}})["clients"]))
    assert seen[0] == (pytest.approx(np.mean(honest)), {1: 1})
    assert seen[1][1] == {}


def test_two_losses_of_which_one_is_a_lie() -> None:
    from coterie.federation.training import Training

    training = Training(math.log(10), [(0, 0.5), (1, 1e30)])
    assert (training.mean_loss, training.outliers) == (0.5, [(1, 1e30)])
    assert Training(math.log(10), [(0, 30.0), (1, 3000.0), (2, 290.0)]).outliers == [(1, 3000.0)]
    assert Training(math.log(10)).mean_loss is None


def test_no_client_moves_the_pooled_accuracy_beyond_its_weight() -> None:
    honest = [(50, 100)] * 9
    assert pooled([*honest, (10**12, 10**12)], 10.0) == pytest.approx((9 * 50 + 1000) / 1900)
    assert pooled([*honest, (0, 0)], 10.0) == pooled(honest, None) == 0.5
    assert pooled([(0, 0)], 10.0) is None


class Declares(EngineWrapper):
    """Client 1 declares a billion samples."""

    def present(self, round: int) -> Mapping[ClientId, int]:
        return {**self.inner.present(round), 1: 10**9}


@pytest.fixture
def boasting() -> Iterator[Federation]:
    with small_federation("fedavg", max_samples=1000, rounds=2, fraction=1.0) as (run, _):
        yield Federation(Declares(run.fed.engine), run.fed.trainer, run.fed.settings)


def test_who_declares_more_than_max_samples_is_left_out(boasting: Federation) -> None:
    assert boasting.clients == boasting.trainable == (0, 2, 3, 4, 5)
    boasting.start_round(1)
    assert boasting.cohort(1) == [0, 2, 3, 4, 5]
    assert boasting.newcomers == ()
    event = boasting.events.kinds["too large"]
    assert (event["count"], event["clients"]) == (1, {1: 1})
    assert "declares 1000000000 samples, where max_samples is 1000" in event["example"]


def test_test_samples_are_bounded_by_max_samples_too(boasting: Federation) -> None:
    boasting.start_round(1)
    engine = boasting.wrap_engine(RecordingEngine)
    engine.change = lambda reply, request: replace(reply, answers=(EvaluateReply(1001, 1, 0.5),))
    boasting.ask({0: boasting.request(Evaluate("own"))})
    assert boasting.events.kinds["invalid"]["clients"] == {0: 1}

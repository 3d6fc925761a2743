"""Losses, counts of right answers, and a common test set that scores each model once."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from torch.nn.functional import cross_entropy

from coterie import training
from coterie.messages import EvaluateReply, MetaStep, ModelSpec, Params, Plan, Schedule
from coterie.models import initial
from coterie.training import CommonTest, Job, by_frequency, digest, evaluate, losses, total_steps
from coterie.training.rehearsal import RehearsalTrainer
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mclr", (4,), 5)
SAMPLES = 620  # blocks of 250, 250 and 120


@given(npst.arrays(np.float32, st.tuples(st.integers(0, 9), st.integers(2, 6)), elements=st.floats(-80, 80, width=32)))
def test_losses_are_the_cross_entropy_of_pytorch(logits: np.ndarray) -> None:
    y = np.arange(len(logits)) % logits.shape[1]
    expected = cross_entropy(torch.tensor(logits, dtype=torch.float64), torch.tensor(y), reduction="none").numpy()
    actual = losses(logits, y)
    assert actual.shape == (len(logits),)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_losses_of_huge_outputs_do_not_overflow() -> None:
    assert losses(np.float32([[1e28, -1e28, 0]]), np.array([1])) == pytest.approx([2e28])


def test_losses_of_huge_outputs_do_not_vanish() -> None:
    """Between two equal outputs, however large, the loss is log 2."""
    assert losses(np.float32([[3e17, 3e17, 0]]), np.array([0])) == pytest.approx([np.log(2)])


NOT_FINITE = np.float32([[np.inf, 0, 0], [np.nan, 0, 0], [np.inf, np.inf, 0], [0, 0, -np.inf], [0, np.nan, 0]])


def test_losses_of_outputs_that_are_not_finite_are_finite_and_large() -> None:
    """Without a warning: a model that overflowed is common enough."""
    hopeless = losses(NOT_FINITE, np.array([0, 1, 2, 2, 0]))
    assert np.isfinite(hopeless).all()
    assert (hopeless >= 1e29).all()


def test_no_loss_is_worse_than_none() -> None:
    worst = losses(np.float32([[3e38, -3e38, 0]]), np.array([1]))
    assert (losses(NOT_FINITE, np.array([0, 1, 2, 2, 0])) >= worst).all()


class Counting(TorchTrainer):
    """Runs networks as ever, and notes for which samples; the first feature of a sample is its position."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[tuple[str, int, int]] = []
        self._noting = threading.Lock()

    def logits(self, spec: ModelSpec, params: Params, x: np.ndarray) -> np.ndarray:
        with self._noting:
            self.runs.append((digest(params), round(float(x[0, 0] * 1000)), len(x)))
        return super().logits(spec, params, x)


def doubled(raw: np.ndarray) -> np.ndarray:
    """What networks see differs from what is stored."""
    return (raw * 2).astype(np.float32)


def common() -> tuple[CommonTest, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(SAMPLES, 4))
    raw[:, 0] = np.arange(SAMPLES) / 2000
    y = np.sort(rng.integers(5, size=SAMPLES))
    return CommonTest(raw, y, doubled), doubled(raw), y


def model(which: int) -> dict[str, np.ndarray]:
    return initial(SPEC, 0, which)


def brute_force(
    params: Params, x: np.ndarray, y: np.ndarray, offset: np.ndarray | float = 0.0
) -> tuple[int, int, float]:
    scores = x.astype(np.float64) @ params["fc.weight"].T.astype(np.float64) + params["fc.bias"] + offset
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    loss = -np.log(probability[np.arange(len(y)), y])
    return len(y), int((scores.argmax(axis=1) == y).sum()), float(loss.mean()) if len(y) else 0.0


def check(score: EvaluateReply, expected: tuple[int, int, float]) -> None:
    assert (score.samples, score.correct) == expected[:2]
    assert score.loss == pytest.approx(expected[2], rel=1e-5)


@pytest.mark.parametrize("n", [0, 1, 249, 250, 251, SAMPLES])
def test_evaluate_counts_and_averages(n: int) -> None:
    _, x, y = common()
    check(evaluate(TorchTrainer(), SPEC, model(0), x[:n], y[:n]), brute_force(model(0), x[:n], y[:n]))


parts = st.none() | st.lists(st.integers(0, SAMPLES - 1), unique=True, max_size=60).map(
    lambda positions: np.array(positions, np.int64)
)
WHOLE = CommonTest(np.zeros((0, 4)), np.zeros(0, np.int64), doubled)


@pytest.mark.integration
@given(st.lists(st.tuples(st.integers(0, 2), parts), min_size=1, max_size=8))
def test_a_common_test_gives_what_direct_evaluation_gives_for_any_parts_in_any_order(
    questions: list[tuple[int, np.ndarray | None]],
) -> None:
    test, x, y = common()
    trainer = Counting()
    for which, part in questions:
        rows = slice(None) if part is None else part
        score = test.evaluate(trainer, SPEC, model(which), part)
        check(score, brute_force(model(which), x[rows], y[rows]))
        direct = evaluate(TorchTrainer(), SPEC, model(which), x[rows], y[rows])
        assert (score.samples, score.correct) == (direct.samples, direct.correct)
        assert score.loss == pytest.approx(direct.loss, rel=1e-6)
    stale_clients = {
        (digest(model(which)), int(block) * 250)
        for which, part in questions
        for block in np.unique((np.arange(SAMPLES) if part is None else part) // 250)
    }
    assert Counter((name, first) for name, first, _ in trainer.runs) == Counter(stale_clients)


OFFSETS = [np.float32([0, 0, -3, -3, -3]), np.float32([-2, 0, 0, 0, 1]), None]


@pytest.mark.integration
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), parts), min_size=1, max_size=8))
def test_offsets_of_any_clients_are_added_to_outputs_that_are_computed_once(
    questions: list[tuple[int, int, np.ndarray | None]],
) -> None:
    test, x, y = common()
    trainer = Counting()
    for which, whose, part in questions:
        rows, offset = np.arange(SAMPLES) if part is None else part, OFFSETS[whose]
        scores = test.score(trainer, SPEC, model(which), rows, offset)
        expected = brute_force(model(which), x[rows], y[rows], 0.0 if offset is None else offset)
        check(scores.summary(), expected)
        direct = training.score(TorchTrainer(), SPEC, model(which), x[rows], y[rows], offset)
        check(direct.summary(), expected)
    blocks = {
        (which, OFFSETS[whose] is None, int(block))
        for which, whose, part in questions
        for block in np.unique((np.arange(SAMPLES) if part is None else part) // 250)
    }
    assert len(trainer.runs) == len(blocks)


def test_outputs_are_forgotten_when_they_take_too_much_memory_and_scores_are_not() -> None:
    class Narrow(CommonTest):
        LARGEST = 2 * SAMPLES * 5 * 4

    test, x, y = common()
    test = Narrow(test.x, test.y, doubled)
    trainer, everything = Counting(), np.arange(SAMPLES)
    test.evaluate(trainer, SPEC, model(0))
    for which in (0, 1, 0, 2, 0, 1):  # 1 is forgotten when 2 comes
        scores = test.score(trainer, SPEC, model(which), everything, OFFSETS[0])
        check(scores.summary(), brute_force(model(which), x, y, np.float64(OFFSETS[0])))
    test.evaluate(trainer, SPEC, model(0))
    assert [name for name, first, _ in trainer.runs if first == 0] == [digest(model(w)) for w in (0, 0, 1, 2, 1)]


@given(
    npst.arrays(np.int64, 4, elements=st.integers(0, 50)),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30),
    st.integers(0, 4),
)
def test_accuracy_by_frequency_is_that_of_samples_drawn_so(
    counts: np.ndarray, tested: list[tuple[bool, int]], fewest: int
) -> None:
    """Each test sample of a label stands for its share of the client's samples of that label."""
    correct, y = np.array([c for c, _ in tested], bool), np.array([label for _, label in tested], np.int64)
    usable = [label for label in range(4) if (y == label).sum() >= max(fewest, 1) and counts[label]]
    weights = [counts[label] / (y == label).sum() if label in usable else 0.0 for label in y]
    expected = np.average(correct, weights=weights) if any(weights) else None
    assert by_frequency(correct, y, counts, fewest) == pytest.approx(expected)


def test_who_asks_first_changes_not_even_the_rounding() -> None:
    scores = []
    for first in (np.array([3, 260, 600]), np.arange(500), None):
        test, _, _ = common()
        test.evaluate(TorchTrainer(), SPEC, model(0), first)
        scores.append(test.evaluate(TorchTrainer(), SPEC, model(0), np.arange(100, 610)))
    assert scores[0] == scores[1] == scores[2]


def test_an_empty_common_test_scores_nothing() -> None:
    assert WHOLE.evaluate(TorchTrainer(), SPEC, model(0)) == EvaluateReply(0, 0, 0.0)
    test, _, _ = common()
    assert test.evaluate(TorchTrainer(), SPEC, model(0), np.zeros(0, np.int64)) == EvaluateReply(0, 0, 0.0)


def test_threads_that_ask_at_once_run_each_block_once() -> None:
    test, x, y = common()
    trainer = Counting()
    rng = np.random.default_rng(3)
    questions = [(int(rng.integers(3)), rng.permutation(SAMPLES)[: rng.integers(1, SAMPLES)]) for _ in range(40)]
    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(lambda q: test.evaluate(trainer, SPEC, model(q[0]), q[1]), questions))
    for (which, part), score in zip(questions, scores, strict=True):
        check(score, brute_force(model(which), x[part], y[part]))
    assert sorted(trainer.runs) == sorted(
        (digest(model(which)), first, count)
        for which in range(3)
        for first, count in ((0, 250), (250, 250), (500, 120))
    )


def test_a_model_that_was_forgotten_is_scored_anew() -> None:
    class Forgetful(CommonTest):
        MODELS = 2

    test, x, y = common()
    test = Forgetful(test.x, test.y, doubled)
    trainer = Counting()
    for which in (0, 1, 0, 2, 0, 1):  # 1 is forgotten when 2 comes, since 0 was asked for after it
        check(test.evaluate(trainer, SPEC, model(which)), brute_force(model(which), x, y))
    assert [name for name, first, _ in trainer.runs if first == 0] == [digest(model(w)) for w in (0, 1, 2, 1)]


def test_equal_content_is_the_same_model_whoever_made_it() -> None:
    test, _, _ = common()
    trainer = Counting()
    test.evaluate(trainer, SPEC, model(0))
    copy = {name: np.asfortranarray(value.copy()) for name, value in reversed(list(model(0).items()))}
    test.evaluate(trainer, SPEC, copy)
    assert len(trainer.runs) == 3


def test_a_model_that_was_changed_in_place_is_another_model() -> None:
    test, x, y = common()
    params = {name: value.copy() for name, value in model(0).items()}
    check(test.evaluate(TorchTrainer(), SPEC, params), brute_force(params, x, y))
    params["fc.weight"] -= 1.5 * params["fc.weight"]
    check(test.evaluate(TorchTrainer(), SPEC, params), brute_force(params, x, y))


arrays = npst.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.int8, np.uint8, np.bool_]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=2),
)
models = st.dictionaries(st.sampled_from(["a", "b", "ab", "a.b", "fc1.weight"]), arrays, max_size=3)


def content(params: Params) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    return sorted((name, value.dtype.str, value.shape, value.tobytes()) for name, value in params.items())


@pytest.mark.integration
@given(models, models)
@settings(max_examples=150)
def test_digests_differ_exactly_where_contents_do(a: Params, b: Params) -> None:
    assert (digest(a) == digest(b)) == (content(a) == content(b))
    assert digest(a) == digest({name: value.copy(order="F") for name, value in reversed(list(a.items()))})


def test_digests_tell_names_from_types() -> None:
    """'x' + 'uint8' reads like 'xu' + 'int8'."""
    assert digest({"x": np.uint8([1, 2])}) != digest({"xu": np.int8([1, 2])})


@pytest.mark.parametrize("name", ["fc.weight", "fc.bias"])
def test_digests_see_the_last_bit(name: str) -> None:
    changed = {key: value.copy() for key, value in model(0).items()}
    flat = changed[name].reshape(-1)
    flat[-1] = np.nextafter(flat[-1], np.float32(9))
    assert digest(changed) != digest(model(0))


def test_rehearsal_counts_what_real_training_would_do() -> None:
    rehearsal, real = RehearsalTrainer(), TorchTrainer()
    rng = np.random.default_rng(0)
    done = 0
    for samples, plan in [
        (23, Plan(Schedule(0.1), epochs=3, batch_size=5)),
        (23, Plan(Schedule(0.1), steps=7)),
        (23, Plan(Schedule(0.1), epochs=3, batch_size=5, meta_step=MetaStep(0.1))),
        (0, Plan(Schedule(0.1))),
    ]:
        x, y = rng.normal(size=(samples, 4)).astype(np.float32), rng.integers(5, size=samples)
        outcomes = [t.train(Job(SPEC, plan, model(0), x, y, np.random.default_rng(1))) for t in (rehearsal, real)]
        assert outcomes[0].steps == outcomes[1].steps == total_steps(samples, plan)
        assert digest(outcomes[0].params) != digest(model(0))
        assert {k: (v.shape, v.dtype) for k, v in outcomes[0].params.items()} == {
            k: (v.shape, v.dtype) for k, v in outcomes[1].params.items()
        }
        done += outcomes[1].steps
    assert rehearsal.steps == done
    assert rehearsal.logits(SPEC, model(0), np.zeros((17, 4), np.float32)).shape == (17, 5)
    assert rehearsal.evaluated == 17

"""What a client holds back: answers that stand on a few samples, and labels of which it has few."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client import UNPROTECTED, Client, LocalData, MemoryStore, Protection
from coterie.data import load
from coterie.messages import (
    ClassCounts,
    Curriculum,
    Evaluate,
    Failure,
    Losses,
    MetaStep,
    ModelSpec,
    Moments,
    Plan,
    Prune,
    Reply,
    Request,
    Schedule,
    Signature,
    Train,
)
from coterie.messages.envelope import LABELS_LEFT_OUT
from coterie.models import initial
from coterie.training import choose_trainer

SPEC = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 8})
PLAN = Plan(Schedule(0.1), epochs=1, batch_size=4)
TEN = Protection(min_samples=10, min_label_samples=10)


def data_of(counts: dict[int, int], test: int = 12) -> LocalData:
    """Samples by label, of shape 1 × 8 × 8."""
    rng, y = np.random.default_rng(0), np.repeat([*counts], [*counts.values()])
    x = rng.integers(0, 17, (len(y), 1, 8, 8)).astype(np.uint8)
    test_x = rng.integers(0, 17, (test, 1, 8, 8)).astype(np.uint8)
    index, normalise = np.arange(len(y)), load("digits").normalise
    return LocalData(x, y, index, test_x, np.arange(test) % 10, np.arange(test), 10, normalise)


def ask(data: LocalData, *verbs: Any, protection: Protection = TEN, seed: int = 0, id: int = 0) -> Reply | Failure:
    client = Client(id, {0: data}, MemoryStore(), choose_trainer("torch", SPEC), protection)
    return client.answer(Request(1, seed, SPEC, verbs, {"model": initial(SPEC, 0)}))


@pytest.mark.parametrize(
    ("verb", "samples", "answered"),
    [
        (Train(PLAN), 10, True),
        (Train(PLAN), 9, False),
        (Train(replace(PLAN, steps=1, batch_size=1)), 100, False),
        (Train(replace(PLAN, steps=2)), 100, False),
        (Train(replace(PLAN, steps=3)), 100, True),
        (Train(replace(PLAN, steps=1000)), 9, False),  # again and again the same nine
        (Train(replace(PLAN, steps=0)), 9, True),  # on which nothing stands
        (Train(replace(PLAN, meta_step=MetaStep(0.1), steps=2)), 100, False),  # the first of each pair only shifts
        (Train(replace(PLAN, meta_step=MetaStep(0.1), steps=3)), 100, True),
        (Train(replace(PLAN, meta_step=MetaStep(0.1, shared_momentum=True), steps=2)), 100, True),
        (Train(replace(PLAN, curriculum=Curriculum(a=1.0, b=0.05), steps=2)), 100, False),
        (Train(replace(PLAN, holdout=0.1)), 100, True),
        (Train(replace(PLAN, holdout=0.1)), 99, False),  # nine are held out: beside all, those nine are told
        (Train(replace(PLAN, holdout=99 / 100)), 100, False),
        (Evaluate(on="train"), 10, True),
        (Evaluate(on="train"), 9, False),
        (Evaluate(on="holdout", share=0.1), 100, True),
        (Evaluate(on="holdout", share=0.05), 100, False),
        (Losses(("model", "initial"), on="train"), 10, True),
        (Losses(("model", "initial"), on="train"), 9, False),
        (Losses(("model",), on="holdout", share=0.01), 100, False),
    ],
)
def test_an_answer_stands_on_ten_distinct_samples(verb: Any, samples: int, answered: bool) -> None:
    answer = ask(data_of({3: samples}), verb)
    assert isinstance(answer, Reply) == answered
    if isinstance(answer, Failure):
        assert answer.kind == "withheld"
        assert answer.detail == "the answer would stand on fewer than 10 samples"
    assert isinstance(ask(data_of({3: samples}), verb, protection=UNPROTECTED), Reply)


def test_few_test_samples_are_not_told_of_and_none_are_no_secret() -> None:
    assert isinstance(ask(data_of({0: 20}, test=9), Evaluate()), Failure)
    assert isinstance(ask(data_of({0: 20}, test=0), Evaluate()), Reply)


@pytest.mark.parametrize(("samples", "answered"), [(100, True), (99, False)])
def test_pruning_is_decided_on_ten_samples(samples: int, answered: bool) -> None:
    prune = Prune(("fc1.weight",), on="holdout", share=0.1)
    answer = ask(data_of({0: samples}), Train(PLAN), prune)
    assert isinstance(answer, Reply) == answered
    assert isinstance(ask(data_of({0: 40}, test=9), Train(PLAN), replace(prune, on="test")), Failure)


def test_what_is_withheld_changes_no_state() -> None:
    store, data = MemoryStore(), data_of({0: 40})
    client = Client(0, {0: data}, store, choose_trainer("torch", SPEC), TEN)
    one = Evaluate(on="holdout", share=0.05)
    assert isinstance(client.answer(Request(1, 0, SPEC, (Train(PLAN), one), {"model": initial(SPEC, 0)})), Failure)
    assert store.load(0, before=9) == {}


@pytest.mark.parametrize(
    ("verb", "kept"),
    [
        (Signature(p=3, per_label=True), [0, 5]),  # 30 samples or more
        (Signature(p=1, per_label=True), [0, 1, 5]),
        (Signature(p=3, per_label=True, share=0.1), [0, 5]),  # a vector for 10 samples, rounded: 3 for 29
        (Signature(p=3, per_label=True, share=0.2), []),
        (Signature(p=3, per_label=True, budget=4), [0, 1, 5]),
    ],
)
def test_labels_with_few_samples_are_left_out_of_signatures(
    verb: Signature, kept: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    data = data_of({0: 31, 1: 29, 5: 81, 7: 9})
    answer = ask(data, verb)
    if not kept:
        assert isinstance(answer, Failure)
        assert "labels 0, 1, 5, 7" in caplog.text
        return
    assert isinstance(answer, Reply)
    [signed] = answer.answers
    assert sorted(set(signed.labels.tolist())) == kept
    assert signed.notices() == (LABELS_LEFT_OUT,)
    assert "labels 7" in caplog.text or "labels 1, 7" in caplog.text
    whole = ask(data, verb, protection=UNPROTECTED).answers[0]
    for label in set(signed.labels.tolist()):
        told = signed.vectors[:, signed.labels == label]
        np.testing.assert_array_equal(told, whole.vectors[:, whole.labels == label])


def test_a_client_with_few_samples_in_all_sends_no_signature() -> None:
    assert isinstance(ask(data_of({2: 29}), Signature(p=3)), Failure)
    assert isinstance(ask(data_of({2: 30}), Signature(p=3)), Reply)


def test_halves_are_measured_on_the_labels_that_are_told() -> None:
    verb = Signature(p=1, per_label=True, halves=2)
    few = ask(data_of({0: 40, 1: 40, 9: 3}), verb).answers[0]
    without = ask(data_of({0: 40, 1: 40}), verb).answers[0]
    assert few.halves is not None
    assert few.left_out
    assert without.left_out is None


def test_counts_show_no_class_with_few_samples() -> None:
    answer = ask(data_of({0: 12, 3: 9, 4: 10}), ClassCounts()).answers[0]
    assert answer.counts.tolist() == [12, 0, 0, 0, 10, 0, 0, 0, 0, 0]
    assert answer.notices() == (LABELS_LEFT_OUT,)
    assert isinstance(ask(data_of({0: 9, 3: 9}), ClassCounts()), Failure)


def test_moments_show_no_label_with_few_samples(caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(data_of({0: 12, 3: 9, 4: 10, 5: 2}), Moments()).answers[0]
    assert answer.counts.tolist() == [12, 0, 0, 0, 10, 0, 0, 0, 0, 0]
    assert not answer.means[[3, 5]].any()
    assert not answer.variances[[3, 5]].any()
    assert answer.notices() == (LABELS_LEFT_OUT,)
    assert "labels 3, 5" in caplog.text  # at the site only
    assert isinstance(ask(data_of({0: 9, 3: 9}), Moments()), Failure)
    caplog.clear()
    freely = ask(data_of({0: 12, 3: 9, 5: 2}), Moments(), protection=UNPROTECTED).answers[0]
    assert freely.counts.tolist() == [12, 0, 0, 9, 0, 0, 0, 0, 0, 0]
    assert freely.notices() == ()  # fewer than four are no secret, but no mean either
    assert not caplog.text


def test_one_sample_is_not_the_signature() -> None:
    """A label with one sample: without a minimum its vector is the sample, up to its length."""
    data = data_of({4: 1, 6: 40})
    sample = data.x[0].ravel().astype(float)
    told = ask(data, Signature(p=3, per_label=True), protection=UNPROTECTED).answers[0]
    vector = told.vectors[:, told.labels == 4][:, 0].astype(float)
    np.testing.assert_allclose(vector * np.linalg.norm(sample), sample, atol=1e-4)
    held = ask(data, Signature(p=3, per_label=True)).answers[0]
    assert 4 not in held.labels


def test_hold_outs_and_shuffles_come_from_the_secret() -> None:
    data, plan = data_of({0: 40, 1: 40}), replace(PLAN, holdout=0.25)
    secret = replace(TEN, entropy=2**100 + 1)

    def trained(protection: Protection, seed: int) -> Any:
        return ask(data, Train(plan), protection=protection, seed=seed).answers[0].params["fc2.bias"]

    start = initial(SPEC, 0)
    assert all(np.array_equal(start[name], initial(SPEC, 0)[name]) for name in start)
    assert not np.array_equal(trained(TEN, 0), trained(TEN, 1))
    assert np.array_equal(trained(secret, 0), trained(secret, 1))  # whatever seed the server names
    assert not np.array_equal(trained(secret, 0), trained(replace(secret, entropy=5), 0))


@pytest.mark.integration
@pytest.mark.parametrize("algorithm", ["pacfl", "flag", "fedavg", "flis-dc"])
def test_skewed_labels_still_run(algorithm: str) -> None:
    """With Dirichlet(0.1) some clients have few samples, or few of a label; a run goes on with the others."""
    result = coterie.run(
        algorithm=algorithm, dataset="digits", partition="dirichlet:alpha=0.1", clients=12, rounds=2, epochs=1,
        fraction=1.0, min_samples=10, min_label_samples=10,
    )  # fmt: skip
    withheld = next(event for event in result.events if event["kind"] == "withheld")
    assert withheld["count"] > 0
    assert result.accuracy["C"] > 0.05
    assert all(LABELS_LEFT_OUT in detail or "fewer than 10" in detail or "too few" in detail or "no class" in detail
               for detail in withheld["details"])  # fmt: skip


@pytest.mark.parametrize("trainer", ["torch", "native"])
@pytest.mark.parametrize("left_over", [0, 1, 2, 3])
def test_two_shuffles_do_not_tell_who_was_left_over(trainer: str, left_over: int) -> None:
    """With saturated outputs all gradients are constant, so an update is the sum of samples by label and weight.

    A last batch of one would give that sample ten times the weight: the difference of two rounds would be two samples.
    """
    spec = ModelSpec("mclr", (1, 8, 8), 10)
    data = data_of(dict.fromkeys(range(2, 10), 20) | {1: left_over})
    model = {name: np.zeros_like(value) for name, value in initial(spec, 0).items()}
    model["fc.bias"][0] = 1e4
    plan, x = Plan(Schedule(0.1), epochs=1, batch_size=10), data.normalise(data.x[data.train]).reshape(-1, 64)
    updates = []
    for round in (1, 2):
        protection = replace(TEN, entropy=7)
        client = Client(0, {0: data}, MemoryStore(), choose_trainer(trainer, spec), protection)
        reply = client.answer(Request(round, 0, spec, (Train(plan, keep=False),), {"model": model}))
        assert isinstance(reply, Reply)
        assert reply.answers[0].steps == -(-len(x) // 10)  # type: ignore[attr-defined]
        updates.append(reply.answers[0].params["fc.weight"])  # type: ignore[attr-defined]
    difference = updates[0] - updates[1]
    rows = [row for row in difference[2:] if np.linalg.norm(row) > 1e-4]
    alike = [float((x @ row / np.linalg.norm(x, axis=1) / np.linalg.norm(row)).max()) for r in rows for row in (r, -r)]
    assert max(alike, default=0.0) < 0.9
    assert left_over or not rows

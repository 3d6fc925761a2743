"""Label offsets at the client, by hand: made of its own labels, added to the logits of Train and Evaluate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from client_world import CLASSES, PLAN, World, equal, local_data, model, normalise, scores
from sklearn.metrics import f1_score

from coterie.client import LocalData, Protection
from coterie.client.verbs.evaluate import MOST_LACKING
from coterie.messages import Evaluate, EvaluateReply, LabelOffset, Train, TrainReply
from coterie.messages.envelope import Part
from coterie.training.label_offsets import label_offset


def skewed(common: bool = False) -> LocalData:
    """The client of the other tests, with samples of two labels only; what others test on is lent to it."""
    data = local_data(common)
    few = data.train[np.isin(data.y[data.train], [0, 1])]
    return replace(data, train=few, others_tests=True)


def by_hand(data: LocalData, kind: LabelOffset) -> np.ndarray:
    n = [int((data.y[data.train] == label).sum()) for label in range(CLASSES)]
    expected = sum(n) / CLASSES
    s = 1 - (CLASSES - 1) / sum((of - expected) ** 2 / expected for of in n)
    assert 0 < s < 1
    seen = [math.log(of / sum(n)) if of and kind == "prior" else 0.0 for of in n]
    return np.array([s * (o if of else -math.log(sum(n) + 1)) for of, o in zip(n, seen, strict=True)])


@pytest.mark.parametrize("kind", ["prior", "lacking"])
@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("on", ["test", "train", "holdout"])
def test_evaluate_adds_the_offset_to_the_logits(kind: LabelOffset, common: bool, on: str) -> None:
    world = World(skewed(common))
    data = world.data
    answer = world.reply(1, Evaluate(on=on, share=0.4, label_offset=kind), model=model(1)).answer(EvaluateReply)  # type: ignore[arg-type]
    if on == "test":
        x, y = normalise(data.test_x[data.test]), data.test_y[data.test]
    else:
        index = data.train if on == "train" else data.training_part(0.4, 5, 3)[1][:0]
        x, y = normalise(data.x[index]), data.y[index]
    if on == "holdout":
        assert answer.samples == int(0.4 * len(data.train))
        return
    outputs = scores(model(1), x) + by_hand(data, kind)
    probabilities = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    assert (answer.samples, answer.correct) == (len(y), int((outputs.argmax(axis=1) == y).sum()))
    assert answer.loss == pytest.approx(float(-np.log(probabilities[np.arange(len(y)), y]).mean()), rel=1e-5)
    plain = world.reply(1, Evaluate(on=on), model=model(1)).answer(EvaluateReply)  # type: ignore[arg-type]
    assert plain.loss != answer.loss


def test_train_makes_the_offset_of_the_samples_that_it_uses() -> None:
    world = World(skewed())
    world.reply(1, Train(replace(PLAN, label_offset="prior")), model=model(1))
    world.reply(2, Train(replace(PLAN, label_offset="prior", holdout=0.4)), model=model(1))
    world.reply(3, Train(PLAN), model=model(1))
    whole, part, none = world.trainer.jobs
    assert whole.label_offset == pytest.approx(by_hand(world.data, "prior"), rel=1e-6)
    assert len(part.y) < len(whole.y)
    assert part.label_offset is not None
    assert np.array_equal(part.label_offset, label_offset(np.bincount(part.y, minlength=CLASSES), "prior"))
    assert none.label_offset is None


def test_it_is_no_part_of_the_model_that_comes_back() -> None:
    """As if it stood in the bias while the client trains, and were taken off again."""
    world, offset = World(skewed()), by_hand(skewed(), "prior").astype(np.float32)
    start = model(1)
    ours = world.reply(1, Train(replace(PLAN, label_offset="prior")), model=start).answer(TrainReply).params
    moved = {**start, "fc.bias": start["fc.bias"] + offset}
    theirs = world.reply(1, Train(PLAN), model=moved).answer(TrainReply).params
    assert ours["fc.weight"] == pytest.approx(theirs["fc.weight"], abs=1e-5)
    assert ours["fc.bias"] == pytest.approx(theirs["fc.bias"] - offset, abs=1e-5)
    assert not equal(ours, theirs)


@pytest.mark.parametrize("common", [False, True])
def test_accuracies_by_label(common: bool) -> None:
    world = World(skewed(common))
    data, verb = world.data, Evaluate(label_offset="lacking", by_label=True)
    answer = world.reply(1, verb, model=model(1)).answer(EvaluateReply)
    right = (scores(model(1), normalise(data.test_x)) + by_hand(data, "lacking")).argmax(axis=1) == data.test_y
    lacking = ~np.isin(data.test_y, [0, 1])
    assert answer.lacking == pytest.approx(right[lacking].mean())
    n = np.bincount(data.y[data.train], minlength=CLASSES)
    of_label = {y: right[data.test][data.test_y[data.test] == y].mean() for y in (0, 1)}
    assert answer.own == pytest.approx((n[0] * of_label[0] + n[1] * of_label[1]) / (n[0] + n[1]))
    asked = world.reply(1, replace(verb, by_label=None), model=model(1)).answer(EvaluateReply)
    assert (asked.own, asked.lacking) == (None, None)
    assert (asked.samples, asked.correct, asked.loss) == (answer.samples, answer.correct, answer.loss)


def test_a_real_site_has_no_samples_of_labels_that_it_lacks() -> None:
    world = World(replace(skewed(), others_tests=False))
    answer = world.reply(1, Evaluate(by_label=True), model=model(1)).answer(EvaluateReply)
    assert answer.own is not None
    assert answer.lacking is None


def test_who_lacks_nothing_has_no_accuracy_on_it() -> None:
    data = local_data()
    everything = replace(data, y=data.y % 2, test_y=data.test_y % 2, classes=2, others_tests=True)
    assert not len(everything.tests_lacking(MOST_LACKING))
    assert everything.counts.sum() == len(data.train)


def test_many_samples_of_labels_that_it_lacks_are_spread_evenly() -> None:
    data = skewed()
    all_of_them, few = data.tests_lacking(1000), data.tests_lacking(5)
    assert len(few) == 5 < len(all_of_them)
    assert set(few) < set(all_of_them)
    assert few[0] == all_of_them[0]
    assert np.diff(np.searchsorted(all_of_them, few)).min() >= len(all_of_them) // 5


def test_labels_with_few_test_samples_are_not_told_of() -> None:
    data = skewed()
    tested = np.bincount(data.test_y[data.test], minlength=CLASSES)[:2]
    assert tested[0] != tested[1]
    world = World(data)
    world.client.protection = Protection(min_label_samples=int(tested.max()))
    answer = world.reply(1, Evaluate(by_label=True), model=model(1)).answer(EvaluateReply)
    right = scores(model(1), normalise(data.test_x[data.test])).argmax(axis=1) == data.test_y[data.test]
    assert answer.own == pytest.approx(right[data.test_y[data.test] == int(tested.argmax())].mean())
    world.client.protection = Protection(min_label_samples=int(tested.max()) + 1)
    assert world.reply(1, Evaluate(by_label=True), model=model(1)).answer(EvaluateReply).own is None


@pytest.mark.parametrize("on", ["test", "train"])
@pytest.mark.parametrize("common", [False, True])
def test_labels_with_few_samples_do_not_enter_a_metric(common: bool, on: Part) -> None:
    world = World(local_data(common))
    data = world.data
    x, y = (
        (data.test_x[data.test], data.test_y[data.test]) if on == "test" else (data.x[data.train], data.y[data.train])
    )
    most = int(np.bincount(y).max())
    assert most > np.sort(np.bincount(y))[-2]
    label = int(np.bincount(y).argmax())
    given = scores(model(1), normalise(x[y == label])).argmax(axis=1)
    for fewest, expected in (
        (most, f1_score(y[y == label], given, average="macro", zero_division=0)),
        (most + 1, None),
    ):
        world.client.protection = Protection(min_label_samples=fewest)
        answer = world.reply(1, Evaluate(on=on, metric="f1"), model=model(1)).answer(EvaluateReply)
        assert answer.score == (None if expected is None else pytest.approx(expected))
        assert answer.samples == len(y)

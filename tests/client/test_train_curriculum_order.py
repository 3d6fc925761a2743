"""In which order a curriculum shows a client's samples (ALGORITHMS 6), against brute force."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from client_world import CLASSES, ID, PLAN, SEED, SPEC, World, equal, losses, model, normalise, scores

from coterie.client.verbs.train import curriculum_order
from coterie.messages import Curriculum, Train, TrainReply
from coterie.models import initial
from coterie.streams import stream

SCORES = ["G", "L", "LG", "G-pred", "L-pred", "LG-pred", "E"]


def hardness(score: str, x: np.ndarray, y: np.ndarray, received: Any, own: Any) -> np.ndarray:
    """What a sample is sorted by: a loss, or 0 for easy and 1 for hard; the expert is model 3."""
    loss = {"G": losses(received, x, y), "L": losses(own, x, y)}
    said = {"G": scores(received, x).argmax(axis=1), "L": scores(own, x).argmax(axis=1)}
    return {
        "G": loss["G"],
        "L": loss["L"],
        "LG": (loss["G"] + loss["L"]) / 2,
        "G-pred": said["G"] != y,
        "L-pred": said["L"] != y,
        "LG-pred": said["L"] != said["G"],
        "E": losses(model(3), x, y),
    }[score]


def ordered(score: Any, order: Any = "curriculum", seed: int = 0, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """The order of made-up samples, and how hard each is; model 1 was received, model 2 is the client's own."""
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(n, 6)).astype(np.float32), rng.integers(CLASSES, size=n)
    result = curriculum_order(
        Curriculum(score=score, order=order),
        lambda params: scores(params, x).astype(np.float32),
        y,
        {"G": model(1), "L": model(2), "E": model(3)},
        np.random.default_rng(seed),
    )
    assert sorted(result) == list(range(n))
    return result, hardness(score, x, y, model(1), model(2))


@pytest.mark.parametrize("score", SCORES)
def test_easiest_first(score: str) -> None:
    order, hard = ordered(score)
    assert np.all(np.diff(hard[order].astype(float)) >= 0)
    assert len(set(hard.tolist())) > 1
    if "pred" not in score:
        np.testing.assert_array_equal(order, np.argsort(hard))


@pytest.mark.parametrize("score", SCORES)
def test_anti_is_hardest_first(score: str) -> None:
    order, hard = ordered(score, "anti")
    assert np.all(np.diff(hard[order].astype(float)) <= 0)
    if "pred" not in score:
        np.testing.assert_array_equal(order, ordered(score)[0][::-1])


def test_the_scores_differ() -> None:
    """Else a mix-up of two could not be seen."""
    assert len({tuple(ordered(score)[0]) for score in SCORES}) == len(SCORES)


@pytest.mark.parametrize("score", SCORES)
def test_random_is_the_same_whatever_the_scores(score: str) -> None:
    order, _ = ordered(score, "random")
    np.testing.assert_array_equal(order, ordered("G", "random")[0])
    assert not np.array_equal(order, ordered(score, "random", seed=1)[0])


@pytest.mark.parametrize("score", ["G-pred", "L-pred", "LG-pred"])
@pytest.mark.parametrize("order", ["curriculum", "anti"])
def test_ties_stand_in_a_random_order_that_follows_the_seed(score: str, order: str) -> None:
    first, hard = ordered(score, order)
    np.testing.assert_array_equal(first, ordered(score, order)[0])
    other, _ = ordered(score, order, seed=1)
    easy = int((~hard).sum())
    boundary = easy if order == "curriculum" else len(hard) - easy
    for level in (slice(None, boundary), slice(boundary, None)):
        assert set(first[level]) == set(other[level])
        assert first[level].tolist() != other[level].tolist()
        assert first[level].tolist() != sorted(first[level])


def test_a_loss_that_is_no_number_is_hardest_and_one_of_zero_easiest() -> None:
    outputs = np.float32([[0, 0], [np.nan, 0], [50, 0], [0, 50], [2, 0]])  # log 2, NaN, 0, 50, 0.13
    y = np.zeros(5, np.int64)

    def order(which: Any) -> list[int]:
        curriculum = Curriculum(order=which)
        return curriculum_order(curriculum, lambda _: outputs, y, {"G": {}}, np.random.default_rng(0)).tolist()

    assert order("curriculum") == [2, 4, 0, 3, 1]
    assert order("anti") == [1, 3, 0, 4, 2]


@pytest.mark.parametrize("score", ["G-pred", "L-pred", "LG-pred"])
def test_who_predicts_no_numbers_predicts_nothing_right(score: Any) -> None:
    """The largest of several NaN would be the first, which may happen to be right."""
    outputs = np.float32([[np.nan, 0], [1, 0], [np.nan, np.nan], [0, 1]])
    order = curriculum_order(
        Curriculum(score=score), lambda _: outputs, np.array([0, 0, 0, 1]), {"G": {}, "L": {}}, np.random.default_rng(0)
    )
    assert set(order[:2]) == {1, 3}


def test_no_samples_have_an_empty_order() -> None:
    assert ordered("G", n=0)[0].tolist() == []


def local(world: World) -> tuple[np.ndarray, np.ndarray]:
    return normalise(world.data.x[world.data.train]), world.data.y[world.data.train]


@pytest.mark.parametrize("score", ["G", "L", "LG"])
def test_the_client_scores_with_what_it_received_and_what_it_had(score: Any) -> None:
    world = World()
    own = dict(world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params)
    plan = replace(PLAN, curriculum=Curriculum(score=score))
    world.reply(2, Train(plan), model=model(2))
    x, y = local(world)
    expected = np.argsort(hardness(score, x, y, model(2), own))
    np.testing.assert_array_equal(world.trainer.jobs[-1].order, expected)


def test_the_client_scores_with_the_expert_that_travels_along() -> None:
    world = World()
    world.reply(1, Train(replace(PLAN, curriculum=Curriculum(score="E"))), model=model(2), expert=model(3))
    x, y = local(world)
    np.testing.assert_array_equal(world.trainer.jobs[-1].order, np.argsort(losses(model(3), x, y)))


def test_in_its_first_round_the_own_model_is_the_received_one() -> None:
    orders = []
    for score in ("G", "L", "LG"):
        world = World()
        world.reply(1, Train(replace(PLAN, curriculum=Curriculum(score=score))), model=model(2))  # type: ignore[arg-type]
        orders.append(world.trainer.jobs[-1].order)
    x, y = local(world)
    for order in orders:
        np.testing.assert_array_equal(order, np.argsort(losses(model(2), x, y)))
    assert not np.array_equal(orders[0], np.argsort(losses(initial(SPEC, SEED), x, y)))


def test_what_is_held_out_is_not_in_the_order() -> None:
    world = World()
    world.reply(1, Train(replace(PLAN, curriculum=Curriculum(), holdout=0.3)), model=model(2))
    job = world.trainer.jobs[-1]
    np.testing.assert_array_equal(job.order, np.argsort(losses(model(2), job.x, job.y)))
    assert len(job.y) == 21


def test_the_first_steps_see_only_the_easiest() -> None:
    world = World()
    plan = replace(PLAN, epochs=4, curriculum=Curriculum(a=0.9, b=0.3))
    world.reply(1, Train(plan), model=model(2))
    easy = set(world.trainer.jobs[-1].order[:9])
    hard = World()
    hard.reply(1, Train(replace(plan, curriculum=Curriculum(a=0.9, b=0.3, order="anti"))), model=model(2))
    assert not easy & set(hard.trainer.jobs[-1].order[:9])


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.2), (0.8, 1.0)])
@pytest.mark.parametrize("order", ["curriculum", "anti", "random"])
def test_a_curriculum_that_hides_nothing_is_ordinary_training(a: float, b: float, order: Any) -> None:
    """Bit for bit: scoring the samples must not use up the stream that shuffles them."""
    shown = World().reply(1, Train(replace(PLAN, curriculum=Curriculum(a=a, b=b, order=order))), model=model(2))
    ordinary = World().reply(1, Train(PLAN), model=model(2))
    assert equal(shown.answer(TrainReply).params, ordinary.answer(TrainReply).params)


def test_the_random_order_follows_client_and_round() -> None:
    plan = replace(PLAN, curriculum=Curriculum(order="random"))
    world = World()
    for t in (1, 2, 1):
        world.reply(t, Train(plan), model=model(t))
    orders = [job.order.tolist() for job in world.trainer.jobs]
    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    assert orders[0] != list(range(30))
    other = World(id=ID + 1)
    other.reply(1, Train(plan), model=model(1))
    assert other.trainer.jobs[0].order.tolist() != orders[0]
    assert stream(SEED, "train", ID, 1).random() == stream(SEED, "train", ID, 1).random()

"""The accuracy and the snapshots without which the verb Prune takes nothing away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from client_world import ID, SEED, World, equal, local_data, model, normalise, same, who
from pruning_examples import ALWAYS, ANY, PLAN, asked

from coterie.messages import Evaluate, EvaluateReply, Failure, Schedule, Train


def test_accuracy_is_measured_on_the_hold_out() -> None:
    world = World()
    asked(world, 1, ANY)
    used, held = world.data.training_part(0.1, SEED, ID)
    assert len(held) == 3
    assert who(world.trainer.seen[-1]) == list(held)
    assert set(who(world.trainer.jobs[-1].x)) == set(used)
    assert not set(used) & set(held)


def test_or_on_the_test_samples_which_is_a_leak() -> None:
    world = World()
    asked(world, 1, replace(ANY, on="test"), holdout=0.0)
    np.testing.assert_array_equal(world.trainer.seen[-1], normalise(world.data.test_x[world.data.test]))
    assert len(world.trainer.jobs[-1].y) == 30


def test_the_accuracy_is_that_of_the_model_after_pruning() -> None:
    """Ask the client itself, with the model it would have: just below that threshold it prunes, at it not."""
    world = World()
    _, pruned = asked(world, 1, ALWAYS)
    score = world.reply(1, Evaluate(("own",), on="train")).answer(EvaluateReply)
    reached = score.correct / score.samples
    assert 0.3 < reached < 1
    for threshold, verdict in ((reached - 1e-9, "pruned"), (reached, "reverted")):
        _, again = asked(world, 1, replace(ALWAYS, accuracy=threshold))
        assert again.weights == verdict
        assert ("fc.weight" in again.bitmaps) == (verdict == "pruned")
    assert pruned.weights == "pruned"


def test_below_ten_samples_there_is_no_gate() -> None:
    world = World(local_data(train=9))
    assert asked(world, 1, replace(ANY, accuracy=1.0))[1].weights == "pruned"
    assert world.trainer.seen == []
    world = World(local_data(train=10))
    assert asked(world, 1, replace(ANY, accuracy=1.0))[1].weights == "reverted"


def test_outputs_that_are_not_finite_are_never_enough() -> None:
    """A sample of the hold-out is broken: on it the model overflows, so that its answers say nothing."""
    data = local_data()
    broken = data.training_part(0.1, SEED, ID)[1][0]

    def overflowing(raw: np.ndarray) -> np.ndarray:
        x = normalise(raw)
        x[raw[:, 0] == broken] = 3e38
        return x

    good, bad = World(data), World(replace(data, normalise=overflowing))
    lenient = replace(ANY, accuracy=-1.0)
    assert asked(good, 1, lenient)[1].weights == "pruned"
    assert asked(bad, 1, lenient)[1].weights == "reverted"


def test_one_epoch_prunes_nothing_and_sends_all() -> None:
    world = World()
    _, pruned = asked(world, 1, epochs=1)
    assert pruned.weights == "unchanged"
    assert pruned.bitmaps == {}
    assert equal(pruned.params, world.state(1)["model"])


def test_without_a_snapshot_nothing_is_pruned() -> None:
    """If training is shorter than an epoch, or does not note the first one."""
    for changes in ({"steps": 2}, {"snapshots": ()}, {"steps": 0}):
        assert asked(World(), 1, **changes)[1].weights == "unchanged"


def test_a_diverged_training_leaves_mask_and_model() -> None:
    world = World()
    asked(world, 1)
    before = world.state(1)
    answer = world.ask(2, Train(replace(PLAN, lr=Schedule(1e38)), send=False), ALWAYS, model=model(2))
    assert isinstance(answer, Failure)
    assert same(world.state(9), before)


def test_snapshots_can_be_named_by_other_verbs() -> None:
    world = World()
    verbs = Evaluate("epoch 1", on="train"), Evaluate("epoch 2", on="train"), Evaluate("trained", on="train")
    twice = replace(PLAN, snapshots=(2, 1), mask=None)
    reply = world.reply(1, Train(twice, keep=False), *verbs, model=model(1))
    ends = []
    for epochs in (1, 2, 3):
        shorter = replace(twice, epochs=epochs, snapshots=())
        again = world.reply(1, Train(shorter, keep=False), Evaluate("trained", on="train"), model=model(1))
        ends.append(again.answer(EvaluateReply))
    assert [reply.answer(EvaluateReply, which) for which in range(3)] == ends
    shorter = Train(replace(PLAN, snapshots=()), keep=False)
    with pytest.raises(KeyError):  # of the last training only
        world.reply(1, Train(PLAN, keep=False), shorter, Evaluate("epoch 1"), model=model(1))

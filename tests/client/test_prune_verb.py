"""The verb Prune on a client that trains: what it keeps, and what it sends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from client_world import CLASSES, FEATURES, ID, SEED, SPEC, World, equal, model, same
from pruning_examples import ALWAYS, HYBRID, PLAN, asked, lenet

from coterie.client import Client, LocalData, MemoryStore
from coterie.client.pruning import decide, pruned_share, whole
from coterie.messages import ModelSpec, Prune, PruneReply, Reply, Request, Schedule, Train, TrainReply, wire
from coterie.models import initial
from coterie.native import available
from coterie.training import Trainer
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer


def test_the_proposals_are_those_of_the_first_and_the_last_epoch() -> None:
    world = World()
    _, pruned = asked(world, 1)
    job = world.trainer.jobs[0]
    ends = [TorchTrainer().train(replace(job, plan=replace(PLAN, epochs=e), rng=fresh())).params for e in (1, 3)]
    ours = whole(ends[0], ["fc.weight"])
    expected = decide(ALWAYS, ends[0], ends[1], ours, lambda model: 1.0)
    kept = expected.mask["fc.weight"]
    np.testing.assert_array_equal(pruned.mask("fc.weight", (CLASSES, FEATURES)), kept)
    assert kept.sum() == CLASSES * FEATURES - 5  # ⌈.2 · 23⌉
    np.testing.assert_array_equal(pruned.params["fc.weight"], ends[1]["fc.weight"][kept])
    np.testing.assert_array_equal(pruned.params["fc.bias"], ends[1]["fc.bias"])
    assert pruned.weights == "pruned"


def fresh() -> np.random.Generator:
    from coterie.streams import stream

    return stream(SEED, "train", ID, 1)


def test_mask_and_model_become_the_clients_own() -> None:
    world = World()
    trained, pruned = asked(world, 1)
    state = world.state(1)
    kept = pruned.mask("fc.weight", (CLASSES, FEATURES))
    np.testing.assert_array_equal(state["mask"]["fc.weight"], kept)
    np.testing.assert_array_equal(state["model"]["fc.weight"][kept], pruned.params["fc.weight"])
    assert (state["model"]["fc.weight"][~kept] == 0).all()
    assert trained.params == {}
    assert set(state["mask"]) == {"fc.weight"}


def test_what_is_not_kept_is_not_pruned_for_good() -> None:
    world = World()
    asked(world, 1)
    before = world.state(1)
    reply = world.reply(2, Train(PLAN, send=False, keep=False), ALWAYS, model=model(2))
    assert len(reply.answer(PruneReply).params["fc.weight"]) < before["mask"]["fc.weight"].sum()
    assert same(world.state(9), before)


def test_a_round_asked_again_gives_the_same(tmp_path: Any) -> None:
    from coterie.client import DiskStore

    for store in (MemoryStore(), DiskStore(tmp_path)):
        world = World(store=store)
        asked(world, 1)
        second = asked(world, 2)
        assert same(asked(world, 2), second)
        third = asked(world, 3)
        assert same(asked(world, 3), third)
        assert len(third[1].params["fc.weight"]) < len(second[1].params["fc.weight"])


def test_masks_only_shrink_and_what_was_received_is_masked() -> None:
    world = World()
    masks = []
    for t in range(1, 8):
        asked(world, t)
        masks.append(world.state(t)["mask"]["fc.weight"])
        start = world.trainer.jobs[-1]
        assert equal(start.start, model(t))  # θ_g is dense
        assert start.mask is None or (start.mask["fc.weight"] == masks[-2]).all()
    assert all((after <= before).all() for before, after in itertools.pairwise(masks))
    assert masks[-1].sum() < masks[0].sum()
    assert masks[-1].any(axis=1).all()


TRAINERS: dict[str, Callable[[], Trainer]] = {
    "torch": TorchTrainer,
    "native": lambda: NativeTrainer(TorchTrainer()),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_pruned_weights_stay_exactly_0_through_training_with_momentum(name: str) -> None:
    if name == "native" and not available():
        pytest.skip("the compiled trainer was not built here")
    spec = ModelSpec("lenet5", (1, 16, 16), 3)
    rng = np.random.default_rng(4)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 1, 16, 16)) + np.arange(3)[y][:, None, None, None]).astype(np.float32)
    data = LocalData(x, y, np.arange(60), x, y, np.arange(60), 3, lambda raw: raw)
    client = Client(0, {0: data}, store := MemoryStore(), TRAINERS[name]())
    weights = tuple(name for name, value in initial(spec, 0).items() if value.ndim > 1)
    prune = Prune(weights, rate=0.2, target=0.95, distance=0.0, accuracy=-1.0)
    plan = replace(PLAN, lr=Schedule(0.01), batch_size=10)
    for t in range(1, 6):
        before = store.load(0, before=t).get("mask", {})
        verbs = (Train(plan), prune)  # as sent by Train, before it is pruned again
        reply = client.answer(Request(t, 0, spec, verbs, {"model": initial(spec, t)}))
        assert isinstance(reply, Reply)
        trained = reply.answer(TrainReply).params
        for key, mask in before.items():
            assert (trained[key][~mask] == 0).all()
            assert (trained[key][mask] != 0).mean() > 0.99
        assert reply.answer(PruneReply).weights == "pruned"
    assert pruned_share(dict(before), weights) == pytest.approx(1 - 0.8**4, abs=0.01)


# What is sent.


@pytest.mark.parametrize("size", [1, 7, 8, 9, 24, 65])
def test_what_is_left_and_where_it_belongs_come_back_from_the_wire(size: int) -> None:
    rng = np.random.default_rng(size)
    weights = rng.normal(size=(1, size)).astype(np.float32)
    kept = rng.random((1, size)) < 0.6
    kept[0, 0] = False
    others = {"b": np.float32([1, 2]), "count": np.array(7)}
    answer = PruneReply.of({"w": weights, **others}, {"w": kept}, ["w", "b", "count"], "pruned", None)
    arrived = wire.decode(wire.encode(Reply(1, 2, (answer,))))
    assert isinstance(arrived, Reply)
    pruned = arrived.answer(PruneReply)
    np.testing.assert_array_equal(pruned.mask("w", (1, size)), kept)
    np.testing.assert_array_equal(pruned.params["w"], weights[kept])
    assert equal({name: pruned.params[name] for name in others}, others)
    assert pruned.bitmaps["w"].nbytes == math.ceil(size / 8)
    assert wire.size(Reply(1, 2, (answer,))) == len(wire.encode(Reply(1, 2, (answer,))))


def test_a_whole_tensor_needs_no_bitmap() -> None:
    weights = np.ones((2, 3), np.float32)
    answer = PruneReply.of({"w": weights}, {"w": np.ones((2, 3), bool)}, ["w"], "unchanged", None)
    assert answer.bitmaps == {}
    assert answer.mask("w", (2, 3)).all()
    assert equal(answer.params, {"w": weights})


def test_statistics_may_stay() -> None:
    params = lenet(5)
    assert HYBRID.sent(params) == list(params)
    sent = replace(HYBRID, statistics=False).sent(params)
    assert set(params) - set(sent) == {
        f"bn{k}.{part}" for k in (1, 2) for part in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_bytes_of_the_reply() -> None:
    """Four for each weight that is left, a bit for each position, and the message around them."""
    world = World()
    for t in range(1, 5):
        reply = world.reply(t, Train(PLAN, send=False), ALWAYS, model=model(t))
    left = int(world.state(4)["mask"]["fc.weight"].sum())
    assert left < 24
    pruned = reply.answer(PruneReply)
    assert sum(a.nbytes for a in (*pruned.params.values(), *pruned.bitmaps.values())) == 4 * left + 3 + 4 * CLASSES
    empty = replace(
        pruned, params={k: v[:0] for k, v in pruned.params.items()}, bitmaps={"fc.weight": np.zeros(0, "u1")}
    )
    around = len(wire.encode(replace(reply, answers=(reply.answer(TrainReply), empty))))
    assert len(wire.encode(reply)) - around == pytest.approx(4 * left + 3 + 4 * CLASSES, abs=24)


def test_the_request_of_this_client_is_answerable_with_this_spec() -> None:
    """Else the tests above would have pruned nothing."""
    assert set(initial(SPEC, SEED)) == {"fc.weight", "fc.bias"}

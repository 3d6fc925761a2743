"""What a client prunes: proposals against loops, each gate, channels, and the verb on real trainings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from client_world import CLASSES, FEATURES, ID, SEED, SPEC, World, equal, local_data, model, normalise, same, who
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from coterie.client import Client, LocalData, MemoryStore
from coterie.client.pruning import (
    Mask,
    decide,
    hamming,
    last_rate,
    propose_channels,
    propose_weights,
    pruned_share,
    under,
    whole,
    without_channels,
)
from coterie.messages import (
    Channels,
    Evaluate,
    EvaluateReply,
    Failure,
    ModelSpec,
    Params,
    Plan,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
    wire,
)
from coterie.models import initial
from coterie.native import available
from coterie.training import Trainer
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

# Proposals.


def by_loop(weights: np.ndarray, alive: np.ndarray, rate: float) -> np.ndarray:
    """The r-th percentile with linear interpolation by hand; what is smaller goes, but a row keeps its largest."""
    values = sorted(abs(float(w)) for w, a in zip(weights.ravel(), alive.ravel(), strict=True) if a)
    place = (len(values) - 1) * rate
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    threshold = values[low] + (place - low) * (values[high] - values[low])
    kept = np.zeros_like(alive)
    for unit in range(len(weights)):
        places = [i for i in np.ndindex(weights.shape[1:]) if alive[unit][i]]
        large = [i for i in places if abs(float(weights[unit][i])) >= threshold]
        if places and not large:
            large = [max(places, key=lambda i: abs(float(weights[unit][i])))]
        for i in large:
            kept[unit][i] = True
    return kept


@pytest.mark.integration
@given(
    st.integers(0, 2**32),
    st.sampled_from([(7, 5), (1, 9), (12, 1), (4, 3, 2, 2)]),
    st.floats(0.01, 0.99),
    st.floats(0.1, 1),
)
def test_the_smallest_weights_of_each_layer_are_proposed(
    seed: int, shape: tuple[int, ...], rate: float, left: float
) -> None:
    rng = np.random.default_rng(seed)
    weights, alive = rng.normal(size=shape).astype(np.float32), rng.random(shape) < left
    if not alive.any():
        return
    kept = propose_weights({"w": weights}, {"w": alive}, ["w"], rate)["w"]
    np.testing.assert_array_equal(kept, by_loop(weights, alive, rate))
    assert not (kept & ~alive).any()
    rows = alive.reshape(len(alive), -1).any(axis=1)
    np.testing.assert_array_equal(kept.reshape(len(kept), -1).any(axis=1), rows)


def test_percentiles_by_numpy_and_by_hand() -> None:
    weights = np.float32([[-5, 1, 2], [3, -4, 6]])
    full = whole({"w": weights}, ["w"])
    assert propose_weights({"w": weights}, full, ["w"], 0.4)["w"].tolist() == [[True, False, False], [True] * 3]
    assert propose_weights({"w": weights}, full, ["w"], 0.5)["w"].tolist() == [
        [True, False, False],
        [False, True, True],
    ]
    many = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    kept = propose_weights({"w": many}, whole({"w": many}, ["w"]), ["w"], 0.1)["w"]
    np.testing.assert_array_equal(kept, np.abs(many) >= np.percentile(np.abs(many).astype(float), 10))
    assert (~kept).sum() == 200


def test_layers_have_thresholds_of_their_own() -> None:
    weights = {"a": np.full((2, 50), 1e-3, np.float32), "b": np.ones((2, 50), np.float32)}
    for value in weights.values():
        value *= np.linspace(1, 2, 100, dtype=np.float32).reshape(2, 50)
    kept = propose_weights(weights, whole(weights, weights), weights, 0.2)
    assert [int(k.sum()) for k in kept.values()] == [80, 80]


def test_no_output_unit_loses_all_its_weights() -> None:
    weights = np.float32([[1e-6, 2e-6, -3e-6], [10, 20, 30]])
    mask = whole({"w": weights}, ["w"])
    for _ in range(30):
        mask = propose_weights({"w": weights}, mask, ["w"], 0.6)
    assert mask["w"].tolist() == [[False, False, True], [False, False, True]]


def test_a_layer_without_weights_stays_so() -> None:
    mask = {"w": np.zeros((2, 2), bool)}
    assert not propose_weights({"w": np.ones((2, 2), np.float32)}, mask, ["w"], 0.5)["w"].any()


def test_the_distance_is_the_mean_over_layers() -> None:
    rng = np.random.default_rng(1)
    a, b = ({"x": rng.random((3, 4)) < 0.5, "y": rng.random(70) < 0.5} for _ in range(2))
    shares = [sum(p != q for p, q in zip(a[k].ravel(), b[k].ravel(), strict=True)) / a[k].size for k in a]
    assert hamming(a, b) == pytest.approx(sum(shares) / 2)
    assert hamming(a, a) == 0.0
    assert pruned_share(a, ["x", "y"]) == pytest.approx(np.mean(np.concatenate([~a["x"].ravel(), ~a["y"]])))


def test_the_last_step_ends_at_the_target() -> None:
    rng = np.random.default_rng(2)
    weights = {"a": rng.normal(size=(40, 60)).astype(np.float32), "b": rng.normal(size=(30, 20)).astype(np.float32)}
    mask = whole(weights, weights)
    while 0.7 - pruned_share(mask, weights) >= 0.1:
        mask = propose_weights(weights, mask, weights, 0.1)
    mask = propose_weights(weights, mask, weights, last_rate(0.7, pruned_share(mask, weights), None))
    assert pruned_share(mask, weights) == pytest.approx(0.7, abs=2 / 3000)


# The decision.

RNG = np.random.default_rng(3)
FIRST, LAST = ({"w": RNG.normal(size=(20, 30)).astype(np.float32), "b": np.float32([5, 6])} for _ in range(2))
VERB = Prune(("w",), rate=0.1, target=0.5, distance=0.0, accuracy=0.5)


def decided(verb: Prune = VERB, mask: Mask | None = None, reached: float | None = 1.0) -> tuple[Any, int]:
    """The decision, and how often accuracy was measured."""
    measured = []

    def accuracy(params: Params) -> float | None:
        measured.append(params)
        assert np.count_nonzero(params["w"]) < np.count_nonzero(under(LAST, mask or whole(LAST, ["w"]))["w"])
        return reached

    return decide(verb, FIRST, LAST, mask or whole(LAST, ["w"]), accuracy), len(measured)


def test_a_proposal_that_passes_all_gates_is_taken() -> None:
    (mask, verdict, channels), measured = decided()
    assert (verdict, channels, measured) == ("pruned", None, 1)
    np.testing.assert_array_equal(mask["w"], by_loop(LAST["w"], np.ones((20, 30), bool), 0.1))


def test_masks_that_hardly_differ_prune_nothing() -> None:
    apart = hamming(*(propose_weights(m, whole(m, ["w"]), ["w"], 0.1) for m in (FIRST, LAST)))
    assert 0.1 < apart < 0.2
    for epsilon, verdict in ((apart * 0.999, "pruned"), (apart, "unchanged"), (1.0, "unchanged")):
        (mask, decision, _), measured = decided(replace(VERB, distance=epsilon))
        assert (decision, measured) == (verdict, int(verdict == "pruned"))
        assert mask["w"].all() == (verdict == "unchanged")


def test_a_single_epoch_prunes_nothing() -> None:
    decision = decide(VERB, LAST, LAST, whole(LAST, ["w"]), lambda model: 1.0)
    assert decision.weights == "unchanged"
    assert decision.mask["w"].all()


@pytest.mark.parametrize("target", [0.0, 0.3, 0.4])
def test_a_target_that_is_reached_prunes_nothing(target: float) -> None:
    """Also one that is below what is pruned already."""
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 2}
    (after, verdict, _), measured = decided(replace(VERB, target=target), mask)
    assert (verdict, measured) == ("target", 0)
    np.testing.assert_array_equal(after["w"], mask["w"])


def test_near_the_target_the_rate_is_made_to_end_there() -> None:
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 2}  # 40 % are pruned, 360 weights are left
    (after, _, _), _ = decided(replace(VERB, target=0.45, rate=0.1), mask)
    assert 600 - after["w"].sum() == pytest.approx(0.45 * 600, abs=1)
    (after, _, _), _ = decided(replace(VERB, target=0.49, rate=0.1, last_rate=0.05), mask)
    assert 360 - after["w"].sum() == pytest.approx(0.05 * 360, abs=1)
    (after, _, _), _ = decided(replace(VERB, target=0.5, rate=0.05, last_rate=0.01), mask)  # not near: 0.1 > 0.05
    assert 360 - after["w"].sum() == pytest.approx(0.05 * 360, abs=1)


@pytest.mark.parametrize(
    ("reached", "verdict"),
    [(0.51, "pruned"), (0.5, "reverted"), (0.0, "reverted"), (math.nan, "reverted"), (None, "pruned")],
)
def test_what_is_not_accurate_enough_is_reverted(reached: float | None, verdict: str) -> None:
    mask = {"w": np.arange(600).reshape(20, 30) % 5 >= 1}
    (after, decision, _), measured = decided(mask=mask, reached=reached)
    assert (decision, measured) == (verdict, 1)
    assert np.array_equal(after["w"], mask["w"]) == (verdict == "reverted")


# Channels.

CIFAR, MNIST = ModelSpec("lenet5-bn", (3, 32, 32), 10), ModelSpec("lenet5-bn", (1, 28, 28), 10)
LAYERS = (Channels("conv1", "bn1", "conv2", 3), Channels("conv2", "bn2", "fc1", 8))
HYBRID = Prune(("fc1.weight", "fc2.weight", "fc3.weight"), distance=0.0, channels=LAYERS, channel_distance=0.0)


def lenet(seed: int, spec: ModelSpec = CIFAR) -> dict[str, np.ndarray]:
    """A LeNet-5 whose normalisations are not those of the start."""
    rng = np.random.default_rng(seed)
    params = {name: value.copy() for name, value in initial(spec, seed).items()}
    for name in params:
        if name.startswith("bn") and params[name].ndim:
            params[name] = rng.uniform(0.2, 1.5, params[name].shape).astype(np.float32)
        if name in ("bn1.weight", "bn2.weight", "bn1.bias", "bn2.bias"):
            params[name] *= rng.choice([-1, 1], params[name].shape).astype(np.float32)
    return params


def full(params: Params) -> Mask:
    return whole(params, HYBRID.masked(params))


def test_channels_above_the_threshold_stay() -> None:
    params = lenet(0)
    for layer, channels, index in ((LAYERS[0], 6, 2), (LAYERS[1], 16, 7)):  # ⌊.45 · 6⌋, ⌊.45 · 16⌋
        scales = [abs(float(g)) for g in params[f"{layer.norm}.weight"]]
        threshold = sorted(scales)[index]
        kept = propose_channels(params, full(params), layer, 0.45)
        assert kept.tolist() == [scale > threshold for scale in scales]
        assert kept.sum() == channels // 2


def test_the_percentile_may_be_among_the_scales_of_all_layers() -> None:
    """As the text has it: 10 of 22 channels are at or below the value at index ⌊.45 · 22⌋ = 9, wherever they are."""
    params = lenet(0)
    params["bn2.weight"] = params["bn2.weight"] * 1.5  # so that more of the first layer go
    layers = tuple(replace(layer, floor=1) for layer in LAYERS)
    verb = replace(HYBRID, channels=layers, scales_of="network", channel_distance=0.0, accuracy=0.0, weights=())
    scales = {layer.norm: [abs(float(g)) for g in params[f"{layer.norm}.weight"]] for layer in layers}
    level = sorted(scales["bn1"] + scales["bn2"])[9]
    other = {**params, **{f"{layer.norm}.weight": params[f"{layer.norm}.weight"][::-1] for layer in layers}}
    decision = decide(verb, other, params, full(params), lambda model: None)
    assert decision.channels == "pruned"
    left = {layer.norm: decision.mask[f"{layer.norm}.weight"].tolist() for layer in layers}
    assert left == {norm: [scale > level for scale in own] for norm, own in scales.items()}
    assert sum(left["bn1"]) + sum(left["bn2"]) == 12
    assert left["bn1"] != propose_channels(params, full(params), layers[0], 0.45).tolist()


def test_below_the_floor_no_channel_goes() -> None:
    params = lenet(0)
    for floor, kept in ((3, 3), (4, 6)):
        layer = replace(LAYERS[0], floor=floor)
        assert propose_channels(params, full(params), layer, 0.45).sum() == kept
    params["bn1.weight"][:] = 0.5  # none is above a threshold that all equal
    assert propose_channels(params, full(params), LAYERS[0], 0.45).all()


def test_channels_that_went_stay_away() -> None:
    params = lenet(0)
    mask = full(params)
    kept = {layer.norm: propose_channels(params, mask, layer, 0.45) for layer in LAYERS}
    mask = without_channels(mask, LAYERS, kept)
    params = under(params, mask)
    for layer in LAYERS:
        np.testing.assert_array_equal(propose_channels(params, mask, layer, 0.45), kept[layer.norm])


def test_no_unit_behind_loses_all_its_inputs() -> None:
    """Where a unit of the first linear layer has weights from channels that would go only, they stay."""
    params = lenet(0)
    mask = full(params)
    kept = propose_channels(params, mask, LAYERS[1], 0.45)
    going, staying = int(np.flatnonzero(~kept)[0]), int(np.flatnonzero(kept)[0])
    mask["fc1.weight"][7] = False
    mask["fc1.weight"][7, going * 25 + 3] = True
    assert propose_channels(params, mask, LAYERS[1], 0.45).all()
    mask["fc1.weight"][7, staying * 25 + 3] = True
    np.testing.assert_array_equal(propose_channels(params, mask, LAYERS[1], 0.45), kept)
    mask["fc1.weight"][7] = False  # one that has none is not counted
    np.testing.assert_array_equal(propose_channels(params, mask, LAYERS[1], 0.45), kept)


@pytest.mark.parametrize(("spec", "columns"), [(CIFAR, 25), (MNIST, 16)])
def test_all_that_belongs_to_a_channel_goes_with_it(spec: ModelSpec, columns: int) -> None:
    params = lenet(1, spec)
    first, second = np.array([1, 0, 1, 1, 0, 1], bool), np.arange(16) % 3 > 0
    mask = without_channels(full(params), LAYERS, {"bn1": first, "bn2": second})
    assert set(mask) == set(params) - {
        name for name in params if name.endswith(("fc1.bias", "fc2.bias", "fc3.bias"))
    } - {
        "bn1.num_batches_tracked",
        "bn2.num_batches_tracked",
    }
    for name in ("conv1.bias", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"):
        np.testing.assert_array_equal(mask[name], first)
    for o in range(6):
        assert (mask["conv1.weight"][o] == first[o]).all()
    for o in range(16):
        for i in range(6):
            assert (mask["conv2.weight"][o, i] == (first[i] and second[o])).all()
    for c in range(16):
        assert (mask["fc1.weight"][:, c * columns : (c + 1) * columns] == second[c]).all()
    assert mask["fc2.weight"].all()
    assert mask["fc3.weight"].all()


def test_under_the_mask_the_network_is_the_smaller_one() -> None:
    """Cut the channels out of all tensors, run what is left, and compare."""
    params = lenet(2)
    mask = full(params)
    kept = {layer.norm: propose_channels(params, mask, layer, 0.45) for layer in LAYERS}
    mask = without_channels(mask, LAYERS, kept)
    a, b = kept["bn1"], kept["bn2"]
    t = {name: torch.from_numpy(np.array(value)) for name, value in params.items()}

    def normalised(x: torch.Tensor, name: str, stay: np.ndarray) -> torch.Tensor:
        parts = (t[f"{name}.{part}"][stay] for part in ("running_mean", "running_var", "weight", "bias"))
        return functional.max_pool2d(functional.relu(functional.batch_norm(x, *parts)), 2)

    x = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 3, 32, 32)).astype(np.float32))
    z = normalised(functional.conv2d(x, t["conv1.weight"][a], t["conv1.bias"][a]), "bn1", a)
    z = normalised(functional.conv2d(z, t["conv2.weight"][b][:, a], t["conv2.bias"][b]), "bn2", b).flatten(1)
    z = functional.relu(functional.linear(z, t["fc1.weight"][:, np.repeat(b, 25)], t["fc1.bias"]))
    z = functional.linear(
        functional.relu(functional.linear(z, t["fc2.weight"], t["fc2.bias"])), t["fc3.weight"], t["fc3.bias"]
    )
    ours = TorchTrainer().logits(CIFAR, under(params, mask), x.numpy())
    np.testing.assert_allclose(ours, z.numpy(), atol=1e-5)
    assert not np.allclose(ours, TorchTrainer().logits(CIFAR, params, x.numpy()), atol=1e-2)


def hybrid(verb: Prune, *reached: float | None, mask: Mask | None = None) -> tuple[Any, int]:
    answers, measured = iter(reached), []

    def accuracy(params: Params) -> float | None:
        measured.append(params)
        return next(answers)

    return decide(verb, lenet(3), lenet(4), mask or full(lenet(3)), accuracy), len(measured)


def test_channels_and_weights_are_decided_apart() -> None:
    for reached, channels, weights in (
        ((0.9, 0.9), "pruned", "pruned"),
        ((0.4, 0.9), "reverted", "pruned"),
        ((0.9, 0.4), "pruned", "reverted"),
        ((0.4, 0.4), "reverted", "reverted"),
    ):
        (mask, on_weights, on_channels), measured = hybrid(HYBRID, *reached)
        assert (on_channels, on_weights, measured) == (channels, weights, 2)
        assert mask["bn2.weight"].sum() == (8 if channels == "pruned" else 16)
        assert mask["fc2.weight"].all() == (weights == "reverted")


def test_channels_have_a_distance_of_their_own() -> None:
    early, late = (
        np.concatenate([propose_channels(m, full(m), layer, 0.45) for layer in LAYERS]) for m in (lenet(3), lenet(4))
    )
    apart = sum(a != b for a, b in zip(early, late, strict=True)) / 22
    assert apart > 0
    for epsilon, verdict in ((apart * 0.999, "pruned"), (apart, "unchanged")):
        (mask, weights, channels), _ = hybrid(replace(HYBRID, channel_distance=epsilon), 0.9, 0.9)
        assert (channels, weights) == (verdict, "pruned")
        assert mask["conv1.weight"].all() == (verdict == "unchanged")


def test_the_target_bounds_the_linear_layers_only() -> None:
    (mask, weights, channels), measured = hybrid(replace(HYBRID, target=0.0), 0.9)
    assert (channels, weights, measured) == ("pruned", "target", 1)
    assert mask["fc2.weight"].all()


def test_linear_layers_are_pruned_in_the_columns_of_living_channels() -> None:
    """The percentile is that of the weights which are left when channels have gone."""
    (mask, _, _), _ = hybrid(replace(HYBRID, target=0.9), 0.9, 0.9)
    columns = np.repeat(mask["bn2.weight"], 25)
    expected = by_loop(lenet(4)["fc1.weight"], np.broadcast_to(columns, (120, 400)), 0.1)
    np.testing.assert_array_equal(mask["fc1.weight"], expected)
    assert (120 * 200 - mask["fc1.weight"].sum()) == pytest.approx(0.1 * 120 * 200, abs=2)


# The verb, on a client that trains.

PLAN = Plan(Schedule(0.3), epochs=3, batch_size=7, momentum=0.9, mask="own", snapshots=(1,), holdout=0.1)
ANY = Prune(("fc.weight",), rate=0.2, target=0.9, distance=0.0, accuracy=0.0)
"""Takes every proposal unless all is wrong afterwards."""
ALWAYS = replace(ANY, on="train", accuracy=-1.0)


def asked(world: World, round: int, prune: Prune = ALWAYS, **changes: Any) -> tuple[TrainReply, PruneReply]:
    train = Train(replace(PLAN, **changes), send=False)
    reply = world.reply(round, train, prune, model=model(round))
    return reply.answer(TrainReply), reply.answer(PruneReply)


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


# The gate.


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

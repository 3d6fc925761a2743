"""Which channels of a convolutional network a client prunes, and all that goes with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pruning_examples import CIFAR, HYBRID, LAYERS, by_loop, lenet
from torch.nn import functional

from coterie.client.pruning import Mask, decide, propose_channels, under, whole, without_channels
from coterie.messages import ModelSpec, Params, Prune
from coterie.training.torch_trainer import TorchTrainer

MNIST = ModelSpec("lenet5-bn", (1, 28, 28), 10)


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

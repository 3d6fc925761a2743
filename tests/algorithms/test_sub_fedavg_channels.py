"""The channels that Sub-FedAvg (Hy) removes: which ones it can, who owns them, and what is left of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from pruned_runs import HY, Heard, federation, play
from torch import nn

from coterie.algorithms.sub_fedavg import SubFedAvgHy, prunable_channels
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.federation.served_model import SharedLayers
from coterie.messages import Channels, L1Penalty, ModelSpec, Params, Prune, Train, TrainReply
from coterie.models import MODELS
from coterie.run.building import Session, load_data

# Which can be removed.


def test_the_channels_of_lenet() -> None:
    """Floors of 3 and 8 channels; the first linear layer reads those of the second convolution."""
    verb = SubFedAvgHy().asked(ModelSpec("lenet5-bn", (3, 32, 32), 10))
    assert verb.channels == (Channels("conv1", "bn1", "conv2", 3), Channels("conv2", "bn2", "fc1", 8))
    assert verb.weights == ("fc1.weight", "fc2.weight", "fc3.weight")
    assert (verb.rate, verb.target, verb.distance, verb.channel_rate) == (0.1, 0.5, 5e-4, 0.45)


@pytest.mark.parametrize(("name", "shape"), [("lenet5", (1, 28, 28)), ("resnet9", (3, 32, 32)), ("mlp", (60,))])
def test_networks_without_batchnorm_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        CoterieError, match=f"'{name}' has no convolution with a BatchNorm2d.*use the model 'lenet5-bn'"
    ):
        SubFedAvgHy().asked(ModelSpec(name, shape, 10))


@contextmanager
def registered(make: Callable[[], nn.Module]) -> Iterator[ModelSpec]:
    MODELS.register("odd")(lambda shape, classes: make())  # type: ignore[arg-type,return-value]
    try:
        yield ModelSpec("odd", (3, 32, 32), 10)
    finally:
        del MODELS._items["odd"]


def chain(*layers: nn.Module) -> list[Channels]:
    with registered(lambda: nn.Sequential(*layers)) as spec:
        return list(prunable_channels(spec, 0.5))


def test_which_channels_can_be_removed() -> None:
    head = nn.Flatten(), nn.Linear(7 * 4, 5)
    assert chain(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU(), nn.Dropout(), *head) == [Channels("0", "1", "5", 4)]
    assert chain(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Conv2d(7, 2, 1)) == [Channels("0", "1", "2", 4)]
    inner = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7))
    assert chain(nn.Sequential(inner, nn.ReLU()), *head) == [Channels("0.0.0", "0.0.1", "2", 4)]
    for layers in (
        (nn.Conv2d(3, 7, 3), nn.ReLU(), *head),
        (nn.Conv2d(3, 7, 3), nn.GroupNorm(1, 7), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7, affine=False), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.LayerNorm(4), *head),  # mixes what it reads
        (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, groups=6), *head),
        (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.PixelShuffle(2), nn.Conv2d(2, 6, 3), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Linear(28, 5)),  # along the last dimension
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU()),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7)),
        (),
    ):
        assert chain(*layers) == []


def test_a_network_that_is_no_sequence_is_refused() -> None:
    """In which order its layers run is not known."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    with registered(Own) as spec, pytest.raises(CoterieError, match=r"in a torch\.nn\.Sequential"):
        SubFedAvgHy().asked(spec)


# What becomes of them in runs.


@pytest.fixture(scope="module")
def hybrid() -> Iterator[tuple[SubFedAvgHy, Session, MemoryStore, Heard, list[Params]]]:
    with federation({**HY, "rounds": 4, "fraction": 1.0, "clients": 4}) as (method, run, store, heard):
        models = []
        for _ in rounds(run.fed, method, run.evaluator, every=2):
            models.append(method.model)
        yield method, run, store, heard, models


Run = tuple[SubFedAvgHy, Session, MemoryStore, Heard, list[Params]]


@pytest.mark.integration
def test_scales_start_at_a_half(hybrid: Run) -> None:
    _, run, _, heard, _ = hybrid
    sent = heard.asked_to_train[1, 0].models["model"]
    start = run.fed.initial()
    for name, value in sent.items():
        expected = np.full_like(value, 0.5) if name in ("bn1.weight", "bn2.weight") else start[name]
        np.testing.assert_array_equal(value, expected)


@pytest.mark.integration
def test_channels_are_owned_whole(hybrid: Run) -> None:
    """Convolutions by owners of both channels; biases, scales, shifts, statistics by owners of the channel."""
    _, run, _, heard, models = hybrid
    assert any(answer.channels == "pruned" for answer in heard.pruned.values())
    for t in range(1, 5):
        answers = [heard.pruned[t, client] for client in run.fed.clients]
        old, new = models[t - 1], models[t]
        alive = [{k: a.mask(f"bn{k}.weight", old[f"bn{k}.weight"].shape) for k in (1, 2)} for a in answers]
        dense = []
        for answer in answers:
            whole = {name: np.zeros_like(value) for name, value in old.items()}
            for name, value in answer.params.items():
                if value.ndim:
                    whole[name][answer.mask(name, old[name].shape)] = value.ravel()
            dense.append(whole)
        for k in (1, 2):
            for name in (f"conv{k}.bias", *(f"bn{k}.{p}" for p in ("weight", "bias", "running_mean", "running_var"))):
                for c in range(len(old[name])):
                    mine = [d[name][c] for d, a in zip(dense, alive, strict=True) if a[k][c]]
                    assert new[name][c] == (
                        pytest.approx(np.mean(mine, dtype=float), rel=1e-5) if mine else old[name][c]
                    )
        for o in range(16):
            for i in range(6):
                mine = [d["conv2.weight"][o, i] for d, a in zip(dense, alive, strict=True) if a[2][o] and a[1][i]]
                expected = np.mean(mine, axis=0, dtype=float) if mine else old["conv2.weight"][o, i]
                np.testing.assert_allclose(new["conv2.weight"][o, i], expected, rtol=1e-4, atol=1e-7)
        for name in ("fc1.bias", "fc2.bias", "fc3.bias"):
            np.testing.assert_allclose(new[name], np.mean([d[name] for d in dense], axis=0), rtol=1e-4, atol=1e-7)
        assert new["bn1.num_batches_tracked"] == max(a.params["bn1.num_batches_tracked"] for a in answers)


@pytest.mark.integration
def test_dead_channels_say_nothing(hybrid: Run) -> None:
    """Everything of them is 0 in the client's own model, through training with BatchNorm; the floors hold."""
    _, run, store, _, _ = hybrid
    removed = 0
    for client in run.fed.clients:
        state = store.load(client, before=99)
        model, mask = state["model"], state["mask"]
        for k, floor in ((1, 3), (2, 8)):
            dead = ~mask[f"bn{k}.weight"]
            removed += dead.sum()
            assert floor <= (~dead).sum()
            for name in (f"conv{k}.weight", f"conv{k}.bias", f"bn{k}.weight", f"bn{k}.bias", f"bn{k}.running_mean"):
                assert not model[name][dead].any()
            assert (model[f"bn{k}.running_var"][dead] == 1).all()
        assert not model["conv2.weight"][:, ~mask["bn1.weight"]].any()
        h_w = model["fc1.weight"].shape[1] // 16
        assert not model["fc1.weight"][:, np.repeat(~mask["bn2.weight"], h_w)].any()
    assert removed > 0


@pytest.mark.integration
def test_multiply_adds_are_reported(hybrid: Run) -> None:
    method, run, store, _, _ = hybrid
    details = method.details()
    counts = []
    for client in run.fed.clients:
        mask = store.load(client, before=99)["mask"]
        a, b = int(mask["bn1.weight"].sum()), int(mask["bn2.weight"].sum())
        counts.append(25 * (a * 12**2 + a * b * 2**2))  # one channel of 16×16 pixels
    whole = 25 * (6 * 12**2 + 96 * 2**2)
    assert details["multiply_adds"] == {
        "whole": whole,
        "left": np.mean(counts),
        "reduction": pytest.approx(whole / np.mean(counts)),
    }
    assert details["multiply_adds"]["reduction"] > 1.5
    assert sum(n for name, n in details["verdicts"].items() if name.startswith("channels")) == 16
    json.dumps(details)


@pytest.mark.integration
def test_statistics_may_stay_with_clients() -> None:
    local = {
        **HY,
        "algorithm_options": {**HY["algorithm_options"], "statistics": "local"},
        "rounds": 3,
        "fraction": 1.0,
    }
    with federation({**local, "clients": 3}) as (method, run, store, heard):
        play(run, every=1)
        statistics = {f"bn{k}.{p}" for k in (1, 2) for p in ("running_mean", "running_var", "num_batches_tracked")}
        assert set(run.fed.initial()) - set(method.model) == statistics
        for key, request in heard.asked_to_train.items():
            assert request.verbs[0].start == ("own", "model")  # type: ignore[union-attr]
            assert not statistics & (set(request.models["model"]) | set(heard.pruned[key].params))
        assert isinstance(method.model_for(0), SharedLayers)
        own = [store.load(client, before=99)["model"]["bn1.running_mean"] for client in range(3)]
        assert not np.allclose(own[0], own[1])
        for client in range(3):  # counted through all rounds
            steps = sum(r.answer(TrainReply).steps for r in heard.trained if r.client == client)
            assert store.load(client, before=99)["model"]["bn1.num_batches_tracked"] == steps > 0
        assert run.evaluator.received  # C is measured with one's own statistics
        assert run.fed.events.save() == []


@pytest.mark.integration
@pytest.mark.parametrize(("name", "options"), [("sub-fedavg-hy", {"target": 0.0}), ("sub-fedavg-st", {})])
def test_channels_are_gated_on_samples_that_were_not_trained_on(name: str, options: dict[str, Any]) -> None:
    """Also where no weight of a linear layer goes by its size: those of channels that stay are all there."""
    chosen = {**HY["algorithm_options"], **options}
    settings = {**HY, "algorithm": name, "clients": 3, "fraction": 1.0, "rounds": 2, "algorithm_options": chosen}
    hybrid = name == "sub-fedavg-hy"
    with federation(settings) as (method, run, _, heard):
        play(run)
        parts = load_data(run.config).train_parts
        for request in heard.asked_to_train.values():
            train, prune = request.verbs
            assert isinstance(train, Train)
            assert isinstance(prune, Prune)
            assert (prune.on, train.plan.holdout) == ("holdout", prune.share)
            assert prune.weights == (("fc1.weight", "fc2.weight", "fc3.weight") if hybrid else ())
        for reply in heard.trained:
            n = len(parts[reply.client])
            assert reply.answer(TrainReply).samples == n - n // 10 < n
        assert any(answer.channels == "pruned" for answer in heard.pruned.values())
        for answer in heard.pruned.values():
            alive = answer.mask("bn2.weight", (16,))
            columns = np.repeat(alive, method.model["fc1.weight"].shape[1] // 16)
            np.testing.assert_array_equal(
                answer.mask("fc1.weight", method.model["fc1.weight"].shape),
                np.broadcast_to(columns, (120, len(columns))),
            )
            assert not {"fc2.weight", "fc3.weight"} & set(answer.bitmaps)
        assert any("weights" in verdict for verdict in method.verdicts) == hybrid
        assert method.details()["multiply_adds"]["reduction"] > 1.2


@pytest.mark.integration
def test_an_l1_penalty_draws_scales_to_zero() -> None:
    few = {**HY, "clients": 2, "fraction": 1.0, "rounds": 1, "algorithm_options": {"accuracy": 1.0}}

    def scales(strength: float) -> list[float]:
        options = {**few["algorithm_options"], "l1": strength}
        with federation({**few, "algorithm_options": options}) as (method, run, _, heard):
            play(run)
            train = heard.asked_to_train[1, 0].verbs[0]
            assert isinstance(train, Train)
            expected = L1Penalty(strength, ("bn1.weight", "bn2.weight")) if strength else None
            assert train.plan.l1 == expected
            return [float(np.abs(method.model[f"bn{k}.weight"]).mean()) for k in (1, 2)]

    plain, weak, strong = scales(0.0), scales(0.02), scales(0.05)
    assert plain[0] > weak[0] > strong[0]
    assert plain[1] > weak[1] > strong[1]

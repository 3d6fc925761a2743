"""Batch normalisation in the compiled trainer against PyTorch: networks of many shapes, each field of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from random_networks import NAME, Forbidden, again, build, lanes_here, make_job
from torch import nn

from coterie.errors import CoterieError
from coterie.messages import (
    Anchor,
    L1Penalty,
    MetaStep,
    ModelSpec,
    Optimiser,
    Params,
    Plan,
    PrivateSteps,
    Schedule,
)
from coterie.models import MODELS, model
from coterie.native import CompiledPrivacy, Network, Stage, available
from coterie.training import Job
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

pytestmark = pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")
LANES = lanes_here()
PLAIN = Plan(Schedule(0.1), epochs=2, batch_size=6, momentum=0.5)

NETWORKS: dict[str, tuple[tuple[int, ...], list[list[Any]]]] = {
    "as LeNet-5": (
        (3, 16, 16),
        [["conv", 6, 5, 0], ["norm"], ["relu"], ["pool", 2], ["conv", 16, 5, 0], ["norm"], ["relu"], ["pool", 2]],
    ),
    "wide": ((1, 8, 26), [["conv", 5, 3, 0], ["norm"], ["relu"], ["pool", 2]]),
    "not pooled": ((2, 5, 7), [["conv", 9, 3, 1], ["norm"], ["relu"], ["conv", 3, 2, 0], ["norm"]]),
    "places in no window": ((2, 8, 10), [["conv", 17, 1, 0], ["norm"], ["pool", 3], ["relu"], ["conv", 4, 2, 1]]),
    "other constants": ((1, 6, 6), [["conv", 4, 3, 0], ["norm", 0.1, 0.7], ["relu"], ["linear", 8]]),
    "linear": ((11,), [["linear", 13], ["norm"], ["relu"], ["linear", 8], ["norm"]]),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def random_network() -> Iterator[None]:
    model(NAME)(build)
    yield
    del MODELS._items[NAME]


@pytest.fixture(autouse=True)
def plain_kernels() -> Iterator[None]:
    """PyTorch without oneDNN, whose rounding depends on the processor: on some a sample tips over a ReLU."""
    before = torch.backends.mkldnn.set_flags(_enabled=False)
    yield
    torch.backends.mkldnn.set_flags(_enabled=before[0])


def spec_of(name: str) -> ModelSpec:
    shape, layers = NETWORKS[name]
    return ModelSpec(NAME, shape, 5, {"layers": layers})


def assert_same_models(ours: Params, theirs: Params, tolerance: float = 3e-5) -> None:
    assert {name: (type(value), value.dtype, value.shape) for name, value in ours.items()} == {
        name: (np.ndarray, value.dtype, value.shape) for name, value in theirs.items()
    }
    for name, value in theirs.items():
        assert np.linalg.norm(ours[name] - value) <= tolerance * (np.linalg.norm(value) + 1e-3), name


def assert_same_training(job: Job, lanes: int) -> None:
    theirs, ours = TorchTrainer().train(again(job)), NativeTrainer(Forbidden(), lanes).train(again(job))
    assert ours.steps == theirs.steps
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    assert_same_models(ours.params, theirs.params)
    for mine, other in zip(ours.snapshots, theirs.snapshots, strict=True):
        assert_same_models(mine, other)


@pytest.mark.integration
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", NETWORKS)
def test_many_steps_and_what_is_counted_are_those_of_pytorch(name: str, lanes: int) -> None:
    assert_same_training(make_job(spec_of(name), PLAIN, 1, samples=21), lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("batch", [2, 5, 9])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_the_gradient_through_the_statistics(name: str, batch: int, lanes: int) -> None:
    """Against autograd in double precision, at rate 1."""
    job = make_job(spec_of(name), Plan(Schedule(1.0), steps=1, batch_size=batch), batch, samples=batch)
    after = NativeTrainer(Forbidden(), lanes).train(job).params
    module = build(job.spec.shape, job.spec.classes, **job.spec.options).double().train()
    module.load_state_dict({name: torch.tensor(np.array(value)) for name, value in job.start.items()})
    named = dict(module.named_parameters())
    loss = nn.functional.cross_entropy(module(torch.from_numpy(job.x.astype(np.float64))), torch.from_numpy(job.y))
    for (name, _), gradient in zip(named.items(), torch.autograd.grad(loss, list(named.values())), strict=True):
        ours, wanted = job.start[name].astype(np.float64) - after[name], gradient.numpy()
        rounding = 1e-6 * (1 + np.linalg.norm(job.start[name]))
        assert np.linalg.norm(ours - wanted) <= 1e-4 * np.linalg.norm(wanted) + rounding, name
    for name, value in module.named_buffers():
        np.testing.assert_allclose(after[name], value.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_go_by_what_was_counted(name: str, lanes: int) -> None:
    """Also between trainings, and whatever the company."""
    job = make_job(spec_of(name), PLAIN, 2, samples=21)
    trainer = NativeTrainer(Forbidden(), lanes)
    trainer.train(again(job))
    outputs = trainer.logits(job.spec, job.start, job.x)
    np.testing.assert_allclose(outputs, TorchTrainer().logits(job.spec, job.start, job.x), rtol=1e-4, atol=1e-5)
    assert np.array_equal(trainer.logits(job.spec, job.start, job.x[7:8]), outputs[7:8])


FIELDS: dict[str, dict[str, Any]] = {
    "weight decay": {"weight_decay": 0.1},
    "anchors": {"anchors": (Anchor("a", 0.3), Anchor("b", 0.1))},
    "correction": {"correction": "c"},
    "mask": {"mask": "m"},
    "Adam": {"momentum": 0.0, "optimiser": Optimiser("adam", eps=0.01)},
    "AdamW": {"momentum": 0.0, "optimiser": Optimiser("adamw", eps=0.01), "weight_decay": 0.1},
    "clip": {"clip": 0.3},
    "clip, masked": {"clip": 0.3, "mask": "m"},
    "smoothing": {"smoothing": 0.2},
    "label offset": {"label_offset": "prior"},
    "snapshots": {"snapshots": (1, 2)},
    "meta-step": {"meta_step": MetaStep(0.05), "snapshots": (1,)},
    "meta-step, shared": {"meta_step": MetaStep(0.05, shared_momentum=True)},
    "L1": {"l1": L1Penalty(0.05, ("1.weight", "4.weight"))},
    "L1, Adam": {"l1": L1Penalty(0.05, ("1.weight",)), "momentum": 0.0, "optimiser": Optimiser("adam", eps=0.01)},
    "L1, AdamW": {"l1": L1Penalty(0.05, ("1.weight",)), "momentum": 0.0, "optimiser": Optimiser("adamw", eps=0.01)},
    "a norm that stands still": {"train": ("0.", "3.", "4.")},
    "its scales learn, it counts nothing": {"train": ("1.weight", "4.", "7.")},
    "it counts, but nothing else of it learns": {"train": ("1.running", "1.num", "7.")},
    "some of what it counts may change: it stands still": {"train": ("1.running", "7.")},
    "the lowest that learns": {"train": ("4.", "7.")},
    "L1 of what is frozen": {"l1": L1Penalty(0.05, ("1.weight", "4.weight")), "train": ("4.", "7.")},
}


@pytest.mark.integration
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_plan(field: str, lanes: int) -> None:
    """Masks, anchors and corrections also name scales and what is counted, which none of them touches."""
    layers = [["conv", 5, 3, 0], ["norm"], ["relu"], ["conv", 9, 2, 0], ["norm"], ["pool", 2]]
    job = make_job(ModelSpec(NAME, (2, 7, 7), 4, {"layers": layers}), replace(PLAIN, **FIELDS[field]), 3)
    if job.plan.mask:
        ones = np.float32(np.random.default_rng(0).random(5) < 0.5)
        job = replace(job, mask={**(job.mask or {}), "1.weight": ones, "1.running_mean": ones, "0.bias": ones})
    assert_same_training(job, lanes)


@pytest.mark.parametrize("lanes", LANES)
def test_a_channel_that_is_removed_stays_so(lanes: int) -> None:
    """Everything of it is masked, as by Sub-FedAvg: scale 0, through which nothing goes forward or back."""
    job = make_job(spec_of("not pooled"), replace(PLAIN, mask="m", weight_decay=0.1), 4)
    mask = {name: np.ones_like(job.start[name]) for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    for value in mask.values():
        value[3] = 0
    job = replace(job, mask=mask)
    assert_same_training(job, lanes)
    after = NativeTrainer(Forbidden(), lanes).train(again(job)).params
    assert not any(after[name][3].any() for name in mask)
    assert after["1.running_var"][3] == pytest.approx(job.start["1.running_var"][3] * 0.9**8, rel=1e-5)


@pytest.mark.parametrize("lanes", LANES)
def test_a_batch_of_one_value_per_channel_is_refused_as_by_pytorch(lanes: int) -> None:
    job = make_job(spec_of("linear"), PLAIN, 0, samples=7)  # batches of 6 and 1
    for trainer in (TorchTrainer(), NativeTrainer(Forbidden(), lanes)):
        with pytest.raises(ValueError, match="more than 1 value per channel when training"):
            trainer.train(again(job))
    assert_same_training(replace(job, plan=replace(PLAIN, train=("5.", "3."))), lanes)  # norms that stand still
    assert_same_training(make_job(spec_of("wide"), PLAIN, 0, samples=7), lanes)  # which has many places


def test_private_steps_are_refused_as_by_pytorch() -> None:
    plan = Plan(Schedule(0.1), steps=2, private=PrivateSteps(1.0, 1.0, 0.5))
    job = make_job(spec_of("wide"), plan, 0)
    with pytest.raises(CoterieError, match="layer '1' normalises a sample by the others"):
        NativeTrainer(TorchTrainer()).train(job)
    network = Network([Stage(False, 3, 1, 1, 4, norm=True), Stage(False, 4, 1, 1, 2)])
    privacy = CompiledPrivacy(1.0, 1.0, 4.0, lambda: np.zeros(42, np.float32))
    with pytest.raises(ValueError, match="nor a norm"):
        network.train(
            np.zeros((4, 3), np.float32), np.zeros(4, np.int64), np.zeros(42, np.float32), batches=[np.arange(4)],
            rates=np.ones(1), momentum=0.0, weight_decay=0.0, meta_step=None, anchors=[], correction=None, mask=None,
            snapshot_steps=[], privacy=privacy,
        )  # fmt: skip

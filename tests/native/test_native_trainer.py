"""The compiled trainer against PyTorch and autograd, on random networks, shapes and plans."""

from __future__ import annotations

from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from random_networks import (
    NAME,
    Forbidden,
    again,
    build,
    drowned,
    lanes_here,
    make_job,
    plans,
    some_names,
    specs,
    with_statistics,
)
from torch import nn

from coterie.errors import CoterieError
from coterie.messages import ModelSpec, Params, Plan, Schedule
from coterie.models import MODELS, initial, model
from coterie.native import Network, Stage, available, stages
from coterie.run.building import make_trainer
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import small_run
from coterie.training import Diverged, Job
from coterie.training.native_trainer import NativeTrainer, runs_natively
from coterie.training.torch_trainer import TorchTrainer

pytestmark = pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")


LANES = lanes_here()
ONE_VALUE = "more than 1 value per channel when training"


@pytest.fixture(autouse=True, scope="module")
def random_network() -> Iterator[None]:
    model(NAME)(build)
    yield
    del MODELS._items[NAME]


def assert_close(ours: Params, theirs: Params, tolerance: float, ignored: Set[str] = frozenset()) -> None:
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert ours[name].shape == value.shape
        if name in ignored:
            continue
        scale = np.linalg.norm(value) + 1e-3
        assert np.linalg.norm(ours[name] - value) <= tolerance * scale, name


def assert_gradient(job: Job, lanes: int) -> Params:
    """Check one step at rate 1 against autograd in double precision; return what it led to."""
    after = NativeTrainer(Forbidden(), lanes).train(job).params
    module = build(job.spec.shape, job.spec.classes, **job.spec.options).double()
    module.load_state_dict({k: torch.tensor(v.astype(np.float64)) for k, v in job.start.items()})
    outputs = module(torch.from_numpy(job.x.astype(np.float64)))
    if job.label_offset is not None:
        outputs = outputs + torch.from_numpy(job.label_offset.astype(np.float64))
    loss = nn.functional.cross_entropy(outputs, torch.from_numpy(job.y))
    named = dict(module.named_parameters())
    wanted = dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
    for name, gradient in wanted.items():
        ours = job.start[name].astype(np.float64) - after[name]
        rounding = 1e-6 * np.linalg.norm(job.start[name])  # of the subtraction, not of the gradient
        if name in drowned(job.spec):
            rounding += 1e-4 * wanted[name.replace("bias", "weight")].norm().item()
        assert np.linalg.norm(ours - gradient.numpy()) <= 1e-4 * np.linalg.norm(gradient.numpy()) + rounding, name
    return after


@pytest.mark.integration
@given(specs(), plans(), st.integers(0, 10**6), st.sampled_from(LANES))
def test_training_equals_pytorch(spec: ModelSpec, plan: Plan, seed: int, lanes: int) -> None:
    job = make_job(spec, replace(plan, train=some_names(spec, seed)), seed)
    try:
        ours = NativeTrainer(Forbidden(), lanes).train(again(job))
    except ValueError:  # a norm behind a linear layer, and a batch of one sample
        with pytest.raises(ValueError, match=ONE_VALUE):
            TorchTrainer().train(job)
        return
    theirs = TorchTrainer().train(job)
    assert ours.steps == theirs.steps
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-4, abs=1e-5)
    ignored = drowned(spec) if plan.optimiser else set[str]()  # Adam makes steps of rounding
    assert_close(ours.params, theirs.params, 1e-4, ignored)
    assert len(ours.snapshots) == len(theirs.snapshots)
    for mine, other in zip(ours.snapshots, theirs.snapshots, strict=True):
        assert_close(mine, other, 1e-4, ignored)
    for name, value in job.start.items():
        if job.plan.train is not None and not name.startswith(job.plan.train):
            assert all(model[name].tobytes() == value.tobytes() for model in (ours.params, *ours.snapshots))
        elif job.mask and name in job.mask:
            assert (ours.params[name][job.mask[name] == 0] == 0).all()


@pytest.mark.integration
@given(specs(), st.integers(0, 10**6), st.integers(1, 25), st.sampled_from(LANES), st.sampled_from([None, "prior"]))
def test_gradients_equal_autograd_in_double_precision(
    spec: ModelSpec, seed: int, batch: int, lanes: int, label_offset: Literal["prior"] | None
) -> None:
    plan = Plan(Schedule(1.0), steps=1, batch_size=batch, label_offset=label_offset)
    assume(batch > 1 or ("norm",) not in spec.options["layers"])
    assert_gradient(make_job(spec, plan, seed, samples=batch), lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", [(2, 6, 6), (2, 6, 30)])
def test_infinite_inputs_that_nothing_passes_on_spoil_the_gradient_all_the_same(
    shape: tuple[int, ...], lanes: int
) -> None:
    spec = ModelSpec(NAME, shape, 3, {"layers": [["conv", 2, 3, 0], ["relu"], ["pool", 2]]})
    job = make_job(spec, Plan(Schedule(0.1), steps=1, batch_size=4), 0, samples=4)
    job.x[1, 0, 2, 2] = np.inf
    start = {name: -np.abs(value) if value.ndim == 4 else value for name, value in job.start.items()}
    job = replace(job, start=start)
    for trainer in (TorchTrainer(), NativeTrainer(Forbidden(), lanes)):
        with pytest.raises(Diverged) as error:
            trainer.train(again(job))
        assert error.value.step == 1


WIDE = [
    ((1, 9, 20), [["conv", 6, 5, 0], ["relu"], ["pool", 2]]),
    ((3, 8, 37), [["conv", 7, 3, 1], ["pool", 3], ["relu"]]),
    ((2, 7, 70), [["conv", 1, 1, 0], ["relu"], ["pool", 2], ["conv", 5, 3, 2], ["pool", 2]]),
    ((3, 18, 18), [["conv", 2, 7, 0], ["relu"], ["pool", 6]]),
    ((3, 32, 32), [["conv", 6, 5, 0], ["relu"], ["pool", 2], ["conv", 16, 5, 0], ["relu"], ["pool", 2]]),
]
"""Wide images and few outputs, for which vectors lie along the rows."""


@pytest.mark.integration
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("shape", "layers"), WIDE)
def test_wide_images_and_few_outputs(shape: tuple[int, ...], layers: list[list[object]], lanes: int) -> None:
    spec = ModelSpec(NAME, shape, 5, {"layers": layers})
    job = make_job(spec, Plan(Schedule(1.0), steps=1, batch_size=6), 3, samples=6)
    after = assert_gradient(again(job), lanes)
    outputs = TorchTrainer().logits(spec, job.start, job.x)
    last = replace(job, x=np.ascontiguousarray(job.x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2))
    trainer = NativeTrainer(Forbidden(), lanes)
    assert all(np.array_equal(value, after[name]) for name, value in trainer.train(last).params.items())
    assert np.allclose(trainer.logits(spec, job.start, job.x), outputs, rtol=1e-3, atol=1e-4)
    assert np.allclose(trainer.logits(spec, job.start, last.x), outputs, rtol=1e-3, atol=1e-4)


@pytest.mark.integration
@given(specs(), st.integers(0, 10**6), st.sampled_from(LANES))
def test_outputs_equal_pytorch_and_do_not_depend_on_company(spec: ModelSpec, seed: int, lanes: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((70, *spec.shape)).astype(np.float32)
    params, trainer = with_statistics(initial(spec, seed), rng), NativeTrainer(Forbidden(), lanes)
    outputs = trainer.logits(spec, params, x)
    assert np.allclose(outputs, TorchTrainer().logits(spec, params, x), rtol=1e-3, atol=1e-4)
    chosen = rng.permutation(70)[:9]
    assert np.array_equal(trainer.logits(spec, params, x[chosen]), outputs[chosen])


@pytest.mark.parametrize(
    ("name", "shape", "known"),
    [
        ("lenet5", (3, 32, 32), True),
        ("lenet5", (1, 28, 28), True),
        ("cnn", (1, 28, 28), True),
        ("mclr", (60,), True),
        ("mlp", (1, 8, 8), True),
        ("lenet5", (1, 8, 8), False),  # enlarges
        ("lenet5-bn", (3, 32, 32), True),
        ("cnn-bn", (1, 28, 28), True),
        ("resnet9", (3, 32, 32), False),
        ("lstm", (5, 4), False),
    ],
)
def test_which_networks_are_known(name: str, shape: tuple[int, ...], known: bool) -> None:
    assert runs_natively(ModelSpec(name, shape, 10)) == known


def test_layers_that_are_not_known_are_left_to_pytorch() -> None:
    shape = (2, 8, 8)
    for layer in (
        nn.Conv2d(2, 3, 3, stride=2),
        nn.Conv2d(2, 3, 3, dilation=2),
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(2, 3, 3, bias=False),
        nn.Conv2d(2, 3, (3, 5)),
        nn.Conv2d(2, 3, 8),
        nn.Conv2d(2, 3, 3, padding_mode="circular", padding=1),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, stride=1)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh()),
        nn.Dropout(),
        nn.BatchNorm2d(2),  # of the inputs
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.BatchNorm2d(3)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.BatchNorm2d(3)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.BatchNorm2d(3)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.BatchNorm1d(108)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, affine=False)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=None)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.GroupNorm(3, 3)),
    ):
        layers = [*layer] if isinstance(layer, nn.Sequential) else [layer]
        probe = nn.Sequential(*layers, nn.Flatten())
        features = probe(torch.zeros(2, *shape)).shape[1]
        assert stages(nn.Sequential(*probe, nn.Linear(features, 4)), shape) is None
    twice = nn.Linear(4, 4)
    assert stages(nn.Sequential(twice, nn.ReLU(), twice, nn.Linear(4, 2)), (4,)) is None
    for last in (nn.ReLU(), nn.BatchNorm1d(4)):
        assert stages(nn.Sequential(nn.Flatten(), nn.Linear(128, 4), last), shape) is None


def test_layers_that_share_parameters_are_left_to_pytorch() -> None:
    layer, alike, relu = nn.Linear(6, 6), nn.Linear(6, 6), nn.ReLU()
    assert stages(nn.Sequential(layer, relu, nn.Linear(6, 6), relu, nn.Linear(6, 3)), (6,)) is not None
    assert stages(nn.Sequential(layer, relu, layer, relu, nn.Linear(6, 3)), (6,)) is None
    alike.weight = layer.weight
    assert stages(nn.Sequential(layer, relu, alike, relu, nn.Linear(6, 3)), (6,)) is None


def test_what_is_not_a_number_stops_at_its_step() -> None:
    spec = ModelSpec("mlp", (6,), 3, {"hidden": 4})
    job = make_job(spec, Plan(Schedule(1e30), epochs=3, batch_size=5, momentum=0.9), 0)
    with pytest.raises(Diverged) as native:
        NativeTrainer(Forbidden()).train(again(job))
    with pytest.raises(Diverged) as pytorch:
        TorchTrainer().train(again(job))
    assert native.value.step == pytorch.value.step
    broken = replace(job, plan=Plan(Schedule(0.1), epochs=1, batch_size=23), x=np.full_like(job.x, np.nan))
    with pytest.raises(Diverged, match="step 0"):
        NativeTrainer(Forbidden()).train(broken)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("place", [(0, 0), (1, 1), (3, 2)])
def test_pooling_does_not_hide_what_is_not_a_number(place: tuple[int, int], lanes: int) -> None:
    spec = ModelSpec(NAME, (1, 4, 4), 3, {"layers": [["conv", 2, 1, 0], ["pool", 2], ["relu"]]})
    job = make_job(spec, Plan(Schedule(0.1), epochs=1, batch_size=23), 0)
    job.x[5, 0, *place] = np.nan
    assert np.isnan(NativeTrainer(Forbidden(), lanes).logits(spec, job.start, job.x)[5]).all()
    for trainer in (NativeTrainer(Forbidden(), lanes), TorchTrainer()):
        with pytest.raises(Diverged, match="step 0"):
            trainer.train(again(job))


@pytest.mark.parametrize("lanes", LANES)
def test_small_losses_of_large_outputs_keep_their_digits(lanes: int) -> None:
    spec = ModelSpec(NAME, (1,), 2, {"layers": []})
    start = {"0.weight": np.zeros((2, 1), np.float32), "0.bias": np.array([1000, 990], np.float32)}
    job = replace(make_job(spec, Plan(Schedule(0.1), steps=1, batch_size=23), 0), start=start, y=np.zeros(23, np.int64))
    wanted = np.log1p(np.exp(-10.0))
    assert TorchTrainer().train(again(job)).loss == pytest.approx(wanted, rel=2e-3)
    assert NativeTrainer(Forbidden(), lanes).train(again(job)).loss == pytest.approx(wanted, rel=2e-3)


def test_threads_change_nothing() -> None:
    spec = ModelSpec("lenet5", (1, 28, 28), 10)
    trainer = NativeTrainer(Forbidden())
    jobs = [make_job(spec, Plan(Schedule(0.05), epochs=1, batch_size=7, momentum=0.5), seed, 40) for seed in range(6)]
    alone = [trainer.train(again(job)).params for job in jobs]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda job: trainer.train(again(job)).params, jobs * 2))
    for seed, params in enumerate(together):
        assert all(np.array_equal(params[name], alone[seed % 6][name]) for name in params)


def test_wrong_batches_and_labels_are_refused() -> None:
    found = stages(nn.Sequential(nn.Linear(4, 3)), (4,))
    assert found is not None
    network = Network(found)
    settings = dict(  # noqa: C408
        rates=np.ones(1), momentum=0.0, weight_decay=0.0, meta_step=None, anchors=[], correction=None, mask=None,
        snapshot_steps=[],
    )  # fmt: skip
    x, start = np.zeros((2, 4), np.float32), np.zeros(15, np.float32)
    with pytest.raises(ValueError, match="not there"):
        network.train(x, np.array([0, 1]), start, batches=[np.array([2])], **settings)
    with pytest.raises(ValueError, match="2 inputs of 4 numbers each"):
        network.train(x[:, :3], np.array([0, 1]), start, batches=[np.array([0])], **settings)
    with pytest.raises(ValueError, match="1 inputs of 4 numbers each"):
        network.logits(x[:1, :3], start)
    with pytest.raises(ValueError, match="a vector of 15 numbers"):
        network.logits(x, start[:14])
    with pytest.raises(ValueError, match="between 0 and 2"):
        network.train(x, np.array([0, 3]), start, batches=[np.array([0])], **settings)
    for offset, why in (([0.0, 0.0], "a label offset is a vector of 3 numbers"), ([0.0, np.nan, 0.0], "holds a NaN")):
        with pytest.raises(ValueError, match=why):
            network.train(
                x, np.array([0, 1]), start, batches=[np.array([0])], label_offset=np.float32(offset), **settings
            )


@pytest.mark.integration
def test_the_trainer_of_a_run_is_chosen_and_named() -> None:
    assert small_run("fedavg").trainer == "native"
    assert small_run("fedavg", trainer="torch").trainer == "torch"
    assert small_run("fedavg", model="lenet5", model_options={}, rounds=1).trainer == "torch"
    with pytest.raises(CoterieError, match="does not know the network 'lenet5'"):
        small_run("fedavg", model="lenet5", model_options={}, trainer="native")


@pytest.mark.integration
def test_both_trainers_learn_the_same() -> None:
    native, pytorch = (small_run("fedavg", trainer=t, rounds=8, epochs=3, fraction=1.0) for t in ("native", "torch"))
    assert native.history[-1]["loss"] == pytest.approx(pytorch.history[-1]["loss"], rel=1e-3)
    assert native.accuracy["C"] == pytest.approx(pytorch.accuracy["C"], abs=0.02)


def test_without_the_library_a_run_uses_pytorch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import coterie.native

    monkeypatch.setattr(coterie.native, "available", lambda: False)
    told: list[str] = []

    class Listens(Progress):
        def phase(self, text: str) -> None:
            told.append(text)

    assert small_run("fedavg", progress=Listens()).trainer == "torch"
    assert sum("without a C++ compiler" in text for text in told) == 1
    spec = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 4})
    with pytest.raises(CoterieError, match="install a C\\+\\+ compiler"):
        make_trainer(settings_to_config(None, {"trainer": "native"}), spec, Progress())


def test_a_linear_layer_along_the_last_of_several_dimensions_is_not_known() -> None:
    assert stages(nn.Sequential(nn.Linear(4, 3)), (5, 4)) is None
    assert stages(nn.Sequential(nn.Flatten(), nn.Linear(20, 3)), (5, 4)) is not None


def test_a_model_that_lacks_a_tensor_is_refused() -> None:
    spec = ModelSpec("mlp", (6,), 3, {"hidden": 4})
    start = initial(spec, 0)
    del start[next(iter(start))]
    x, y = np.zeros((4, 6), np.float32), np.zeros(4, np.int64)
    trainer = NativeTrainer(Forbidden())
    with pytest.raises(KeyError):
        trainer.train(Job(spec, Plan(lr=Schedule(0.1)), start, x, y, np.random.default_rng(0)))
    with pytest.raises(KeyError):
        trainer.logits(spec, start, x)


def test_an_epoch_named_twice_gives_one_snapshot() -> None:
    spec = ModelSpec("mlp", (6,), 3, {"hidden": 4})
    x, y = np.ones((4, 6), np.float32), np.zeros(4, np.int64)
    job = Job(
        spec, Plan(lr=Schedule(0.1), epochs=2, snapshots=(1, 1)), initial(spec, 0), x, y, np.random.default_rng(0)
    )
    assert len(NativeTrainer(Forbidden()).train(job).snapshots) == 1


def test_batches_and_rates_go_together() -> None:
    network = Network([Stage(False, 6, 1, 1, 3)])
    with pytest.raises(ValueError, match="learning rates"):
        network.train(
            np.zeros((4, 6), np.float32), np.zeros(4, np.int64), np.zeros(21, np.float32), batches=[np.arange(4)],
            rates=np.zeros(3, np.float32), momentum=0.0, weight_decay=0.0, meta_step=None, anchors=[], correction=None,
            mask=None, snapshot_steps=[],
        )  # fmt: skip

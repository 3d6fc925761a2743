"""What does not learn stays as it is, to the last bit: by the plan's prefixes, and by what a network freezes itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from coterie.errors import CoterieError
from coterie.messages import Anchor, L1Penalty, MetaStep, ModelSpec, Params, Plan, Schedule
from coterie.models import MODELS, build, initial, model
from coterie.models.learning import learning
from coterie.native import available
from coterie.training import Job, Trainer, steps
from coterie.training.native_trainer import NativeTrainer, runs_natively
from coterie.training.rehearsal import RehearsalTrainer
from coterie.training.torch_trainer import TorchTrainer

Register = Callable[..., ModelSpec]
SAMPLES, FEATURES, CLASSES = 26, 16, 3
PLAN = Plan(Schedule(0.1), epochs=2, batch_size=6, momentum=0.5, weight_decay=0.1)


def images(features: int, classes: int) -> nn.Module:
    """For one channel of 4×4 places."""
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(20, 7), nn.ReLU(), nn.Linear(7, classes),
    )  # fmt: skip


def layers(features: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, classes)
    )


def with_frozen_layer(features: int, classes: int) -> nn.Module:
    module = layers(features, classes)
    module[1].requires_grad_(False)
    return module


def with_frozen_norm(features: int, classes: int) -> nn.Module:
    """The first normalisation is frozen, the second is not."""
    module = nn.Sequential(
        nn.Linear(features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, classes)
    )
    module[1].requires_grad_(False)
    return module


def job_of(spec: ModelSpec, plan: Plan = PLAN, **arrays: Any) -> Job:
    rng = np.random.default_rng(50)
    x = rng.normal(size=(SAMPLES, *spec.shape)).astype(np.float32)
    return Job(spec, plan, initial(spec, 0), x, rng.integers(CLASSES, size=SAMPLES), np.random.default_rng(3), **arrays)


def noise(spec: ModelSpec, seed: int, scale: float) -> Params:
    rng = np.random.default_rng(seed)
    return {name: (scale * rng.normal(size=value.shape)).astype(np.float32) for name, value in initial(spec, 0).items()}


def unchanged(job: Job, params: Params) -> set[str]:
    return {name for name, value in job.start.items() if params[name].tobytes() == value.tobytes()}


def by_optimiser(job: Job, learns: set[str], still: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Train with PyTorch's optimiser, in double precision; the layers that are named stand still."""
    module = build(job.spec)
    module.load_state_dict({name: torch.tensor(value) for name, value in job.start.items()})
    module = module.double().train()
    for layer in still:
        module.get_submodule(layer).eval()
    named = dict(module.named_parameters())
    rate, plan = job.plan.lr.rate, job.plan
    optimiser = torch.optim.SGD(
        [named[name] for name in sorted(learns & named.keys())], rate, plan.momentum, weight_decay=plan.weight_decay
    )
    for (batch,) in steps(SAMPLES, plan, np.random.default_rng(3)):
        optimiser.zero_grad()
        cross_entropy(module(torch.tensor(job.x[batch], dtype=torch.float64)), torch.tensor(job.y[batch])).backward()
        optimiser.step()
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def assert_like(params: Params, expected: Params) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


PREFIXES = [("1.",), ("3.",), ("5.",), ("3.", "5."), ("1.weight",), ("1.bias", "5."), ("3.weight", "5.bias"), ("",)]


@pytest.mark.parametrize("train", PREFIXES, ids=str)
def test_only_what_the_plan_names_learns_and_as_pytorch_s_optimiser_has_it(
    network: Register, executing: Trainer, train: tuple[str, ...]
) -> None:
    spec = network(layers, FEATURES)
    assert runs_natively(spec)
    job = job_of(spec, replace(PLAN, train=train, snapshots=(1,)))
    outcome = executing.train(job)
    learns = {name for name in job.start if name.startswith(train)}
    assert unchanged(job, outcome.params) == unchanged(job, outcome.snapshots[0]) == job.start.keys() - learns
    assert_like(outcome.params, by_optimiser(job, learns))


@pytest.mark.parametrize("meta_step", [None, MetaStep(0.05), MetaStep(0.05, shared_momentum=True)], ids=str)
@pytest.mark.parametrize("train", [("0.",), ("4.", "6.bias"), ("6.",), ("0.bias", "6.weight")], ids=str)
def test_nothing_moves_what_is_frozen_and_both_trainers_agree(
    network: Register, train: tuple[str, ...], meta_step: MetaStep | None
) -> None:
    """Anchors, correction, mask, label offset, momentum and decay all pull at every tensor."""
    if not available():
        pytest.skip("Coterie was installed without a C++ compiler")
    spec = replace(network(images), shape=(1, 4, 4))
    plan = replace(
        PLAN, train=train, meta_step=meta_step, anchors=(Anchor("a", 0.5),), correction="c", mask="m", snapshots=(1,),
        label_offset="prior",
    )  # fmt: skip
    rng = np.random.default_rng(8)
    mask = {name: (rng.random(value.shape) < 0.6).astype(np.float32) for name, value in initial(spec, 0).items()}
    arrays = {
        "anchors": ((noise(spec, 1, 0.5), 0.5),),
        "correction": noise(spec, 2, 0.2),
        "mask": mask,
        "label_offset": np.float32([0.5, -1, 0]),
    }
    frozen = {name for name in mask if not name.startswith(train)}
    theirs = TorchTrainer().train(job_of(spec, plan, **arrays))
    ours = NativeTrainer(TorchTrainer()).train(job_of(spec, plan, **arrays))
    for outcome in (ours, theirs):
        assert unchanged(job_of(spec, plan), outcome.params) == frozen
        assert unchanged(job_of(spec, plan), outcome.snapshots[0]) == frozen
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    assert_like(ours.params, theirs.params)
    assert_like(ours.snapshots[0], theirs.snapshots[0])


def test_what_a_network_freezes_stays_on_both_trainers(network: Register, executing: Trainer) -> None:
    job = job_of(network(with_frozen_layer, FEATURES))
    outcome = executing.train(job)
    assert unchanged(job, outcome.params) == {"1.weight", "1.bias"}
    assert_like(outcome.params, by_optimiser(job, job.start.keys() - {"1.weight", "1.bias"}))


def test_a_plan_narrows_what_a_network_leaves_free(network: Register, executing: Trainer) -> None:
    job = job_of(network(with_frozen_layer, FEATURES), replace(PLAN, train=("5.",)))
    assert job.start.keys() - unchanged(job, executing.train(job).params) == {"5.weight", "5.bias"}


def test_a_frozen_batchnorm_counts_nothing_and_uses_what_it_has(network: Register, executing: Trainer) -> None:
    """Its statistics neither move nor are those of the batch taken in their place; the other one's move as ever."""
    spec = network(with_frozen_norm, FEATURES)
    start = initial(spec, 0) | {
        "1.running_mean": np.linspace(-1, 1, 8, dtype=np.float32),
        "1.running_var": np.linspace(0.5, 2, 8, dtype=np.float32),
        "1.num_batches_tracked": np.array(40),
    }
    assert runs_natively(spec)
    job = replace(job_of(spec), start=start)
    outcome = executing.train(job)
    frozen = {name for name in start if name.startswith("1.")}
    assert len(frozen) == 5
    assert unchanged(job, outcome.params) == frozen
    assert outcome.params["4.num_batches_tracked"] == outcome.steps
    assert_like(outcome.params, by_optimiser(job, start.keys() - frozen, still=("1",)))


def test_a_batchnorm_that_the_plan_does_not_name_counts_nothing_either(network: Register, executing: Trainer) -> None:
    spec = network(with_frozen_norm, FEATURES)
    job = job_of(spec, replace(PLAN, train=("3.", "5.")))
    outcome = executing.train(job)
    assert job.start.keys() - unchanged(job, outcome.params) == {"3.weight", "3.bias", "5.weight", "5.bias"}
    assert_like(outcome.params, by_optimiser(job, {"3.weight", "3.bias", "5.weight", "5.bias"}, still=("1", "4")))


def test_another_plan_for_the_same_network_is_not_held_to_the_first(network: Register, executing: Trainer) -> None:
    spec = network(layers, FEATURES)
    before = executing.train(job_of(spec)).params
    executing.train(job_of(spec, replace(PLAN, train=("1.",))))
    after = executing.train(job_of(spec)).params
    assert all(np.array_equal(after[name], value) for name, value in before.items())


class Tied(nn.Module):
    """Two layers of one matrix, and a head."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, features), nn.Linear(features, features)
        self.second.weight = self.first.weight
        self.head = nn.Linear(features, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.second(torch.relu(self.first(x.flatten(1))))))


@pytest.mark.parametrize("train", ["first", "second"])
def test_a_shared_matrix_learns_under_either_name(network: Register, train: str) -> None:
    job = job_of(network(Tied, FEATURES), replace(PLAN, train=(train,)))
    params = TorchTrainer().train(job).params
    assert job.start.keys() - unchanged(job, params) == {"first.weight", "second.weight", f"{train}.bias"}
    np.testing.assert_array_equal(params["first.weight"], params["second.weight"])


def test_an_unknown_prefix_is_refused_with_the_names(network: Register, executing: Trainer) -> None:
    spec = network(with_frozen_layer, FEATURES)
    for prefix in ("fc", "1.weight"):  # which it does not have; which it freezes itself
        with pytest.raises(CoterieError) as refusal:
            executing.train(job_of(spec, replace(PLAN, train=("3.", prefix))))
        text = str(refusal.value)
        assert f"begins with '{prefix}': there are 3.weight, 3.bias, 5.weight, 5.bias" in text
        assert text.endswith("freezes 1.weight, 1.bias")


@pytest.mark.parametrize("train", [None, ()])
def test_where_nothing_learns_that_is_said(network: Register, executing: Trainer, train: tuple[()] | None) -> None:
    def still(features: int, classes: int) -> nn.Module:
        return layers(features, classes).requires_grad_(train is not None)

    with pytest.raises(CoterieError, match=r"nothing of the network 'test-only-[0-9]+' learns"):
        executing.train(job_of(network(still, FEATURES), replace(PLAN, train=train)))


class Nested(nn.Module):
    """A frozen part with a normalisation that has no parameters, and one outside of it."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 8), nn.BatchNorm1d(8, affine=False)).requires_grad_(False)
        self.norm = nn.BatchNorm1d(8, affine=False)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.body(x)))


def test_statistics_without_parameters_belong_to_the_module_around_them(network: Register) -> None:
    spec = network(Nested, FEATURES)
    counted = {f"norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert learning(spec) == counted | {"head.weight", "head.bias"}
    job = job_of(spec)
    assert job.start.keys() - unchanged(job, TorchTrainer().train(job).params) == learning(spec)


def test_l1_leaves_frozen_scales_alone(network: Register, executing: Trainer) -> None:
    spec = network(with_frozen_norm, FEATURES)
    job = job_of(spec, replace(PLAN, l1=L1Penalty(0.1, ("1.weight", "4.weight"))))
    assert unchanged(job, executing.train(job).params) == {n for n in job.start if n.startswith("1.")}


def test_a_rehearsal_changes_only_what_learns(network: Register) -> None:
    job = job_of(network(with_frozen_layer, FEATURES))
    assert job.start.keys() - unchanged(job, RehearsalTrainer().train(job).params) == {"5.bias"}


def test_another_network_by_the_same_name_is_asked_anew(registries_put_back: None) -> None:
    """As in a notebook, where a cell is changed and run again."""
    frozen = [False]

    def made(shape: tuple[int, ...], classes: int) -> nn.Module:
        network = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 4), nn.Linear(4, classes))
        network[1].requires_grad_(not frozen[0])
        return network

    spec = ModelSpec("changing", (FEATURES,), CLASSES)
    for frozen[0] in (False, True):
        MODELS._items.pop("changing", None)
        model("changing")(lambda shape, classes: made(shape, classes))
        assert ("1.weight" in learning(spec)) != frozen[0]

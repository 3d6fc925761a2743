"""Networks that draw random numbers (Dropout) or keep statistics (BatchNorm)."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from coterie.messages import ModelSpec, Plan, Schedule, weighted_mean
from coterie.models import build, initial
from coterie.training import Diverged, Job, Outcome, Trainer, steps
from coterie.training.native_trainer import runs_natively
from coterie.training.torch_trainer import TorchTrainer

Register = Callable[..., ModelSpec]
PLAN = Plan(Schedule(0.1), epochs=4, batch_size=6, momentum=0.5)


def with_dropout(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))


def with_batchnorm(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


class Recurrent(nn.Module):
    """Dropout between the layers of an LSTM, which is no module of its own."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x.flatten(1)[:, None, :])[0][:, -1])


def job(spec: ModelSpec, seed: int, plan: Plan = PLAN) -> Job:
    rng = np.random.default_rng(50)
    x = rng.normal(size=(24, *spec.shape)).astype(np.float32)
    y = rng.integers(spec.classes, size=24)
    return Job(spec, plan, initial(spec, 0), x, y, np.random.default_rng(seed))


def identical(a: Outcome, b: Outcome) -> bool:
    return a.loss == b.loss and all(np.array_equal(a.params[name], b.params[name]) for name in a.params)


@pytest.mark.parametrize("make", [with_dropout, Recurrent])
def test_dropout_follows_the_seed_of_the_job_alone(network: Register, make: Callable[..., nn.Module]) -> None:
    spec = network(make)
    trainer = TorchTrainer()
    torch.manual_seed(1)
    first = trainer.train(job(spec, 0))
    torch.manual_seed(2)
    torch.rand(17)
    assert identical(trainer.train(job(spec, 0)), first)
    assert identical(TorchTrainer().train(job(spec, 0)), first)


def test_dropout_drops(network: Register) -> None:
    """Without it the same job would end elsewhere; with another seed it does even for the same batches."""
    whole = Plan(Schedule(0.1), epochs=4, batch_size=24)
    spec = network(with_dropout)
    trainer = TorchTrainer()
    ends = [trainer.train(job(spec, seed, whole)).params["4.weight"] for seed in (0, 1)]
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


def test_dropout_leaves_the_global_generator_as_it_was(network: Register) -> None:
    spec = network(with_dropout)
    trainer = TorchTrainer()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trainer.train(job(spec, 0))
    assert torch.equal(torch.rand(3), expected)


def test_evaluation_does_not_drop(network: Register) -> None:
    spec = network(with_dropout)
    trainer = TorchTrainer()
    x = job(spec, 0).x
    params = trainer.train(job(spec, 0)).params  # leaves the network in training mode
    module = build(spec).eval()
    module.load_state_dict({name: torch.tensor(value) for name, value in params.items()})
    with torch.no_grad():
        expected = module(torch.tensor(x)).numpy()
    np.testing.assert_allclose(trainer.logits(spec, params, x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [with_dropout, with_batchnorm])
def test_training_after_an_evaluation_is_training_again(network: Register, make: Callable[..., nn.Module]) -> None:
    spec = network(make)
    trainer = TorchTrainer()
    first = trainer.train(job(spec, 0))
    trainer.logits(spec, first.params, job(spec, 0).x)  # leaves the network in evaluation mode
    assert identical(trainer.train(job(spec, 0)), first)


def test_dropout_from_two_threads_gives_the_numbers_of_one(network: Register) -> None:
    spec = network(with_dropout)
    alone = TorchTrainer()
    expected = [alone.train(job(spec, seed)) for seed in range(8)]
    together = TorchTrainer()
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(lambda seed: together.train(job(spec, seed)), range(8)))
    assert all(identical(a, b) for a, b in zip(outcomes, expected, strict=True))


@pytest.mark.integration
def test_dropout_is_not_disturbed_by_networks_being_built_nor_they_by_it(network: Register) -> None:
    """A second worker builds its network while the first one trains already."""
    spec, other = network(with_dropout), ModelSpec("mlp", (6,), 3)
    long = Plan(Schedule(0.1), epochs=100, batch_size=6)
    trainer = TorchTrainer()
    expected = trainer.train(job(spec, 0, long))
    weights = {name: tensor.clone() for name, tensor in build(other, 7).state_dict().items()}
    done, wrong = threading.Event(), []

    def keep_building() -> None:
        while not done.is_set():
            built = build(other, 7).state_dict()
            if not all(torch.equal(built[name], value) for name, value in weights.items()):
                wrong.append(built)

    builder = threading.Thread(target=keep_building)
    builder.start()
    try:
        outcome = trainer.train(job(spec, 0, long))
    finally:
        done.set()
        builder.join()
    assert identical(outcome, expected)
    assert not wrong


def test_threads_give_the_numbers_of_one_for_ordinary_networks(trainer: Trainer) -> None:
    spec = ModelSpec("mlp", (5,), 3, {"hidden": 16})
    expected = [TorchTrainer().train(job(spec, seed)) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda seed: trainer.train(job(spec, seed)), range(8)))
    assert all(identical(a, b) for a, b in zip(outcomes, expected, strict=True))


@pytest.mark.integration
def test_batchnorm_statistics_are_carried_in_the_parameters_and_updated(network: Register, executing: Trainer) -> None:
    """Against the same network in float64, trained by PyTorch's optimiser."""
    spec = network(with_batchnorm)
    start = initial(spec, 0) | {
        "2.running_mean": np.linspace(-1, 1, 8, dtype=np.float32),
        "2.running_var": np.linspace(0.5, 2, 8, dtype=np.float32),
        "2.num_batches_tracked": np.array(40),
    }
    task = job(spec, 3)
    assert runs_natively(spec)
    outcome = executing.train(Job(spec, PLAN, start, task.x, task.y, np.random.default_rng(3)))

    module = build(spec)
    module.load_state_dict({name: torch.tensor(value) for name, value in start.items()})
    module = module.double().train()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)
    count = 0
    for (batch,) in steps(24, PLAN, np.random.default_rng(3)):
        optimiser.zero_grad()
        cross_entropy(module(torch.tensor(task.x[batch], dtype=torch.float64)), torch.tensor(task.y[batch])).backward()
        optimiser.step()
        count += 1

    assert set(outcome.params) == set(start)
    assert outcome.params["2.num_batches_tracked"] == 40 + count
    for name, tensor in module.state_dict().items():
        assert outcome.params[name].shape == tuple(tensor.shape), name
        assert outcome.params[name].dtype == start[name].dtype, name
        np.testing.assert_allclose(outcome.params[name], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)

    module.eval()
    with torch.no_grad():
        expected = module(torch.tensor(task.x, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(executing.logits(spec, outcome.params, task.x), expected, rtol=1e-3, atol=1e-4)


def test_batchnorm_evaluation_changes_no_statistics(network: Register, executing: Trainer) -> None:
    spec = network(with_batchnorm)
    params = executing.train(job(spec, 3)).params
    kept = {name: value.copy() for name, value in params.items()}
    first = executing.logits(spec, params, job(spec, 0).x)
    np.testing.assert_array_equal(executing.logits(spec, params, job(spec, 0).x), first)
    assert all(np.array_equal(params[name], value) for name, value in kept.items())


def test_batchnorm_of_one_client_does_not_reach_the_next(network: Register, executing: Trainer) -> None:
    spec = network(with_batchnorm)
    first = executing.train(job(spec, 3))
    executing.train(job(spec, 4))
    assert identical(executing.train(job(spec, 3)), first)


def test_models_with_batchnorm_can_be_averaged_and_trained_again(network: Register, executing: Trainer) -> None:
    spec = network(with_batchnorm)
    ends = [executing.train(job(spec, seed)).params for seed in (1, 2)]
    mean = weighted_mean(ends, [1, 3])
    again = executing.train(Job(spec, PLAN, mean, job(spec, 0).x, job(spec, 0).y, np.random.default_rng(0)))
    assert {k: (v.shape, v.dtype) for k, v in again.params.items()} == {
        k: (v.shape, v.dtype) for k, v in ends[0].items()
    }
    assert again.params["2.num_batches_tracked"] == ends[0]["2.num_batches_tracked"] + again.steps
    np.testing.assert_allclose(
        mean["2.running_mean"], (ends[0]["2.running_mean"] + 3 * ends[1]["2.running_mean"]) / 4, rtol=1e-5, atol=1e-6
    )


def test_statistics_that_overflow_are_divergence(network: Register, executing: Trainer) -> None:
    """Normalised outputs stay finite, and so does the loss; but the model is of no use, and no server would take it."""
    task = job(network(with_batchnorm), 3)
    with pytest.raises(Diverged):
        executing.train(replace(task, x=task.x * np.float32(1e25)))


def with_frozen_layer(features: int, classes: int) -> nn.Module:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, classes))
    layers[1].requires_grad_(False)
    return layers


def test_frozen_layers_stay_as_they_are(network: Register) -> None:
    """As the word vectors of the LSTM do, under momentum and weight decay alike; the others are trained."""
    spec = network(with_frozen_layer)
    plan = Plan(Schedule(0.1), epochs=2, batch_size=6, momentum=0.5, weight_decay=0.1)
    task = job(spec, 3, plan)
    outcome = TorchTrainer().train(task)
    module = build(spec)
    module.load_state_dict({name: torch.tensor(value) for name, value in task.start.items()})
    trained = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=0.1, momentum=0.5, weight_decay=0.1)
    for (batch,) in steps(24, plan, np.random.default_rng(3)):
        optimiser.zero_grad()
        cross_entropy(module(torch.tensor(task.x[batch])), torch.tensor(task.y[batch])).backward()
        optimiser.step()
    for name, tensor in module.state_dict().items():
        np.testing.assert_allclose(outcome.params[name], tensor.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
    assert np.array_equal(outcome.params["1.weight"], task.start["1.weight"])

"""Steps of real networks against autograd in float64 and PyTorch's own optimiser."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from coterie.messages import MetaStep, ModelSpec, Plan, Schedule
from coterie.models import build, initial
from coterie.training import Job, Trainer, steps

SPECS = {
    "mclr": ModelSpec("mclr", (3, 4), 5),
    "mlp": ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 32}),
    "lenet5": ModelSpec("lenet5", (3, 32, 32), 10),
    "lenet5 on small images": ModelSpec("lenet5", (1, 8, 8), 4),
}
SAMPLES = 7


def samples(spec: ModelSpec) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(SAMPLES, *spec.shape)).astype(np.float32), rng.integers(spec.classes, size=SAMPLES)


def in_float64(spec: ModelSpec, params: dict[str, np.ndarray]) -> torch.nn.Module:
    module = build(spec)
    module.load_state_dict({name: torch.tensor(value) for name, value in params.items()})
    return module.double()


def gradient(module: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    module.zero_grad()
    cross_entropy(module(torch.tensor(x, dtype=torch.float64)), torch.tensor(y)).backward()
    return {name: parameter.grad.numpy().copy() for name, parameter in module.named_parameters()}


def moved(start: dict[str, np.ndarray], end: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: start[name].astype(np.float64) - end[name] for name in start}


@pytest.mark.parametrize("name", SPECS)
def test_one_step_goes_along_the_gradient(trainer: Trainer, name: str) -> None:
    spec = SPECS[name]
    x, y = samples(spec)
    start = initial(spec, 3)
    plan = Plan(Schedule(1.0), batch_size=SAMPLES)
    outcome = trainer.train(Job(spec, plan, start, x, y, np.random.default_rng(0)))
    expected = gradient(in_float64(spec, start), x, y)
    for layer, step in moved(start, outcome.params).items():
        scale = np.abs(expected[layer]).max()
        assert scale > 1e-4
        np.testing.assert_allclose(step, expected[layer], rtol=1e-4, atol=1e-5 * scale + 1e-7, err_msg=layer)


@pytest.mark.parametrize("name", SPECS)
def test_one_meta_step_takes_the_gradient_where_the_first_half_led(trainer: Trainer, name: str) -> None:
    spec = SPECS[name]
    x, y = samples(spec)
    start, alpha = initial(spec, 3), 0.5
    plan = Plan(Schedule(1.0), batch_size=4, meta_step=MetaStep(alpha))
    ((first, second),) = list(steps(SAMPLES, plan, np.random.default_rng(2)))
    outcome = trainer.train(Job(spec, plan, start, x, y, np.random.default_rng(2)))
    module = in_float64(spec, start)
    inner = gradient(module, x[first], y[first])
    with torch.no_grad():
        for layer, parameter in module.named_parameters():
            parameter -= alpha * torch.tensor(inner[layer])
    expected = gradient(module, x[second], y[second])
    for layer, step in moved(start, outcome.params).items():
        scale = np.abs(expected[layer]).max()
        np.testing.assert_allclose(step, expected[layer], rtol=1e-4, atol=1e-5 * scale + 1e-7, err_msg=layer)


@pytest.mark.integration
@pytest.mark.parametrize("name", SPECS)
def test_epochs_are_those_of_the_optimiser_of_pytorch(trainer: Trainer, name: str) -> None:
    spec = SPECS[name]
    x, y = samples(spec)
    start = initial(spec, 3)
    plan = Plan(Schedule(0.05), epochs=3, batch_size=3, momentum=0.9, weight_decay=0.05)
    outcome = trainer.train(Job(spec, plan, start, x, y, np.random.default_rng(1)))
    module = in_float64(spec, start)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.05)
    losses = []
    for (batch,) in steps(SAMPLES, plan, np.random.default_rng(1)):
        optimiser.zero_grad()
        loss = cross_entropy(module(torch.tensor(x[batch], dtype=torch.float64)), torch.tensor(y[batch]))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert outcome.steps == len(losses) == 9
    assert outcome.loss == pytest.approx(np.mean(losses), rel=1e-5)
    for layer, tensor in module.state_dict().items():
        np.testing.assert_allclose(outcome.params[layer], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=layer)


@pytest.mark.parametrize("name", SPECS)
def test_outputs_are_those_of_the_network(trainer: Trainer, name: str) -> None:
    spec = SPECS[name]
    rng = np.random.default_rng(5)
    x = rng.normal(size=(263, *spec.shape)).astype(np.float32)
    params = initial(spec, 4)
    outputs = trainer.logits(spec, params, x)
    assert outputs.shape == (263, spec.classes)
    assert outputs.dtype == np.float32
    with torch.no_grad():
        expected = in_float64(spec, params)(torch.tensor(x, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_trainings_of_several_networks_do_not_meet(trainer: Trainer) -> None:
    """Networks are kept by specification: options and shapes make them different ones."""
    specs = [SPECS["mlp"], ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 16}), ModelSpec("mlp", (1, 8, 8), 4)]
    for _ in range(2):
        for spec in specs:
            x, y = samples(spec)
            start = initial(spec, 1)
            outcome = trainer.train(Job(spec, Plan(Schedule(0.1)), start, x, y, np.random.default_rng(0)))
            assert {k: v.shape for k, v in outcome.params.items()} == {k: v.shape for k, v in start.items()}
            assert trainer.logits(spec, outcome.params, x).shape == (SAMPLES, spec.classes)

"""Losses against PyTorch's, in training, in scoring, and where clients choose among models."""

import numpy as np
import pytest
import torch
from torch import nn

from coterie.errors import CoterieError
from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import build, initial
from coterie.training import Job, choose_trainer, guessing, losses, score, steps
from coterie.training.native_trainer import NativeTrainer, runs_natively
from coterie.training.objectives import LOSSES, loss
from coterie.training.torch_trainer import TorchTrainer

SHAPE, CLASSES = (6,), 3
BY_TORCH = {"cross-entropy": nn.CrossEntropyLoss(), "binary": nn.BCEWithLogitsLoss(), "mse": nn.MSELoss()}


def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.normal(size=(20, *SHAPE)).astype(np.float32), rng.integers(CLASSES, size=20)


def wanted(name: str, y: np.ndarray) -> torch.Tensor:
    labels = torch.tensor(y)
    return labels if name == "cross-entropy" else nn.functional.one_hot(labels, CLASSES).double()


@pytest.mark.parametrize("name", BY_TORCH)
def test_training_makes_the_loss_smaller_as_pytorch_does(name: str) -> None:
    spec = ModelSpec("mlp", SHAPE, CLASSES, {"hidden": 7}, loss=None if name == "cross-entropy" else name)
    (x, y), start = samples(), initial(spec, 3)
    plan = Plan(Schedule(0.2), epochs=3, batch_size=6, momentum=0.5)
    outcome = TorchTrainer().train(Job(spec, plan, start, x, y, np.random.default_rng(1)))
    module = build(spec).double()
    module.load_state_dict({key: torch.tensor(value, dtype=torch.float64) for key, value in start.items()})
    optimiser, seen = torch.optim.SGD(module.parameters(), 0.2, 0.5), []
    for (batch,) in steps(len(y), plan, np.random.default_rng(1)):
        optimiser.zero_grad()
        value = BY_TORCH[name](module(torch.tensor(x[batch], dtype=torch.float64)), wanted(name, y[batch]))
        value.backward()
        optimiser.step()
        seen.append(value.item())
    assert outcome.loss == pytest.approx(np.mean(seen), rel=1e-5)
    for layer, tensor in module.state_dict().items():
        np.testing.assert_allclose(outcome.params[layer], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=layer)


@pytest.mark.parametrize("name", BY_TORCH)
def test_scores_have_the_same_loss(name: str) -> None:
    (x, y), other = samples(), None if name == "cross-entropy" else name
    spec = ModelSpec("mclr", SHAPE, CLASSES, loss=other)
    params, trainer = initial(spec, 0), TorchTrainer()
    outputs = trainer.logits(spec, params, x)
    expected = float(BY_TORCH[name](torch.tensor(outputs, dtype=torch.float64), wanted(name, y)))
    assert score(trainer, spec, params, x, y).summary().loss == pytest.approx(expected, rel=1e-6)
    assert losses(outputs, y, name).mean() == pytest.approx(expected, rel=1e-6)
    zeros = torch.zeros(1, CLASSES, dtype=torch.float64)
    assert guessing(spec) == pytest.approx(float(BY_TORCH[name](zeros, wanted(name, np.zeros(1, np.int64)))))


def test_a_loss_that_is_no_number_is_hopeless_not_nan() -> None:
    assert losses(np.float32([[np.nan, 0, 1]]), np.array([1]), "mse").tolist() == [1e30]


def test_a_start_does_not_depend_on_the_loss() -> None:
    plain, other = (initial(ModelSpec("mlp", SHAPE, CLASSES, loss=loss), 5) for loss in (None, "mse"))
    assert all(plain[name].tobytes() == value.tobytes() for name, value in other.items())


def test_the_compiled_trainer_hands_other_losses_over() -> None:
    spec = ModelSpec("mlp", SHAPE, CLASSES, loss="binary")
    assert not runs_natively(spec)
    assert isinstance(choose_trainer("auto", spec), TorchTrainer)
    with pytest.raises(CoterieError, match="does not know the loss 'binary': use --trainer torch"):
        choose_trainer("native", spec)
    (x, y), plan = samples(), Plan(Schedule(0.1), batch_size=6)
    job = [Job(spec, plan, initial(spec, 0), x, y, np.random.default_rng(1)) for _ in range(2)]
    ours, theirs = NativeTrainer(TorchTrainer()).train(job[0]), TorchTrainer().train(job[1])
    assert all(ours.params[name].tobytes() == value.tobytes() for name, value in theirs.params.items())


def test_a_loss_of_ones_own_is_one_number_per_sample() -> None:
    loss("test-only-mean")(lambda outputs, y: outputs.square().mean())
    try:
        with pytest.raises(CoterieError, match=r"'test-only-mean' returned a tensor of shape .* one number for each"):
            losses(np.zeros((3, 2), np.float32), np.zeros(3, np.int64), "test-only-mean")
    finally:
        del LOSSES._items["test-only-mean"]

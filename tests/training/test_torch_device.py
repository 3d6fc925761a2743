"""The device is a value: what happens to tensors there, when they are read, and what is refused."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from coterie.errors import CoterieError
from coterie.messages import MetaStep, ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.training import Diverged, Job, Trainer, choose_trainer
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_device import BLOCK, StepLosses, choose_device
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mlp", (6,), 3)
PLAN = Plan(Schedule(0.1), epochs=2, batch_size=4, momentum=0.5, weight_decay=0.01)
READS = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.masked_select.default"}
"""What makes a processor wait for a number of the device."""


def job_of(plan: Plan = PLAN, samples: int = 26, **arrays: Any) -> Job:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(samples, *SPEC.shape)).astype(np.float32)
    return Job(SPEC, plan, initial(SPEC, 0), x, rng.integers(3, size=samples), np.random.default_rng(3), **arrays)


class Watch(TorchDispatchMode):
    """Counts the gradients that are made, and notes after how many of them a number is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.gradients, self.reads = 0, []  # type: int, list[int]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.gradients += str(func) == "aten._log_softmax_backward_data.default"
        if str(func) in READS:
            self.reads.append(self.gradients)
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, meta_step=MetaStep(0.1)), replace(PLAN, snapshots=(1,))])
def test_nothing_is_read_from_the_device_before_the_last_step(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    trainer, fetch = TorchTrainer(), torch.Tensor.cpu
    trainer.train(job_of(plan))  # by now the network is there
    with Watch() as watch:

        def noted(tensor: torch.Tensor) -> torch.Tensor:
            watch.reads.append(watch.gradients)
            return fetch(tensor)

        monkeypatch.setattr(torch.Tensor, "cpu", noted)
        outcome = trainer.train(job_of(plan))
    assert watch.gradients == outcome.steps * (1 if plan.meta_step is None else 2)
    assert outcome.steps > 5
    assert set(watch.reads) == {watch.gradients}


def test_samples_that_do_not_fit_are_sent_batch_by_batch_to_the_same_end() -> None:
    kept, sent = TorchTrainer().train(job_of()), TorchTrainer(largest=0).train(job_of())
    assert kept.loss == sent.loss
    assert all(np.array_equal(kept.params[name], value) for name, value in sent.params.items())


@pytest.mark.integration
def test_a_training_that_has_diverged_ends_after_a_block_of_steps() -> None:
    began = time.process_time()
    with pytest.raises(Diverged, match=r"at step 1$"):
        TorchTrainer().train(job_of(Plan(Schedule(1e38), steps=10**7, batch_size=4)))
    assert time.process_time() - began < 60


def test_losses_are_numbered_through_blocks() -> None:
    losses = StepLosses()
    for step in range(BLOCK + 3):
        losses.add(torch.tensor(float("nan") if step == BLOCK + 1 else 1.0))
    with pytest.raises(Diverged) as raised:
        losses.read()
    assert raised.value.step == BLOCK + 1


@pytest.fixture(scope="module")
def lazy() -> torch.device:
    """A device of its own that every PyTorch has: it refuses tensors of the CPU, as a GPU does."""
    backend = pytest.importorskip("torch._lazy.ts_backend")
    backend.init()
    return torch.device("lazy")


@pytest.mark.integration
@pytest.mark.parametrize("largest", [0, 2**30])
def test_another_device_leads_to_the_same_numbers(lazy: torch.device, largest: int) -> None:
    offset, ones = np.float32([0.1, 0, -0.2]), {n: np.ones_like(a) for n, a in initial(SPEC, 0).items()}
    job = job_of(replace(PLAN, epochs=1, snapshots=(1,)), label_offset=offset, mask=ones, correction=ones)
    job = replace(job, anchors=((initial(SPEC, 1), 0.1),))
    here = TorchTrainer().train(job)
    there = TorchTrainer(lazy, largest).train(replace(job, rng=np.random.default_rng(3)))
    assert there.loss == pytest.approx(here.loss, rel=1e-5)
    for name, value in here.params.items():
        np.testing.assert_allclose(there.params[name], value, atol=1e-5)
        np.testing.assert_array_equal(there.snapshots[0][name], there.params[name])


def on_a_gpu(trainer: Trainer) -> bool:
    return isinstance(trainer, TorchTrainer) and trainer.device.type != "cpu"


def test_auto_takes_a_gpu_if_there_is_one_and_compiled_code_where_it_can() -> None:
    there_is_one = torch.cuda.is_available() or torch.backends.mps.is_available()
    assert (choose_device("auto").type != "cpu") == there_is_one
    assert isinstance(choose_trainer("auto", SPEC, "auto"), NativeTrainer | TorchTrainer)
    assert on_a_gpu(choose_trainer("torch", SPEC, "auto")) == there_is_one


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_by_what_to_write_instead() -> None:
    with pytest.raises(CoterieError, match=r"device 'cuda:1' can't be used here \(.*\): write --device cpu, or auto"):
        choose_trainer("torch", SPEC, "cuda:1")


def test_the_compiled_trainer_computes_on_the_cpu_only() -> None:
    with pytest.raises(CoterieError, match="computes on the CPU, not on the device 'cuda': use --trainer torch"):
        choose_trainer("native", SPEC, "cuda")

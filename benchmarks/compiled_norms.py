"""Would normalisation and residual sums pay in the compiled trainer? What it makes of the rest of such networks.

    python benchmarks/compiled_norms.py [REPEATS]

A network with BatchNorm, GroupNorm or residual sums can't be faster, compiled, than the same one without them. So the
bound is measured: LeNet-5 with BatchNorm by PyTorch against LeNet-5 without it, compiled; and ResNet-9 by PyTorch
against its convolutions, one after the other, compiled. Steps of 10 images of 3×32×32; milliseconds of the
processor, one core, the least of some repeats, in which all alternate.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from torch import nn

from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import initial, model
from coterie.training import Job, Trainer, one_thread
from coterie.training.native_trainer import NativeTrainer, runs_natively
from coterie.training.torch_trainer import TorchTrainer

BATCH, SHAPE = 10, (3, 32, 32)


@model("resnet9-plain")
def resnet9_plain(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The convolutions of ResNet-9, without normalisation and sums."""
    layers: list[Any] = []
    for inputs, outputs, pool in (
        (shape[0], 64, 0), (64, 128, 2), (128, 128, 0), (128, 128, 0), (128, 256, 2), (256, 512, 2), (512, 512, 0),
        (512, 512, 4),
    ):  # fmt: skip
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), *([nn.MaxPool2d(pool)] if pool else [])]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))


CASES: list[tuple[str, str, int]] = [
    ("lenet5-bn", "torch", 20), ("lenet5", "torch", 20), ("lenet5", "native", 20),
    ("resnet9", "torch", 2), ("resnet9-plain", "torch", 2), ("resnet9-plain", "native", 2),
]  # fmt: skip


def milliseconds(trainer: Trainer, name: str, steps: int) -> float:
    """Return the time of a step."""
    spec, rng = ModelSpec(name, SHAPE, 10), np.random.default_rng(0)
    x = rng.normal(size=(steps * BATCH, *SHAPE)).astype(np.float32)
    job = Job(spec, Plan(Schedule(0.01), momentum=0.5), initial(spec, 0), x, rng.integers(10, size=len(x)), rng)
    began = time.process_time()
    trainer.train(job)
    return 1000 * (time.process_time() - began) / steps


def main(repeats: int) -> None:
    """Print a line for each."""
    trainers: dict[str, Trainer] = {"torch": TorchTrainer(), "native": NativeTrainer(TorchTrainer())}
    with one_thread():
        times = [[milliseconds(trainers[by], name, n) for name, by, n in CASES] for _ in range(repeats + 1)][1:]
    for (name, by, _), best in zip(CASES, np.min(times, axis=0), strict=True):
        compiled = runs_natively(ModelSpec(name, SHAPE, 10))
        print(f"{name:14} by {by:7} {best:8.2f} ms a step" + ("" if by == "torch" or compiled else " (not compiled)"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

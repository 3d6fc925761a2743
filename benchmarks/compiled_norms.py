"""What does normalisation cost in the compiled trainer, and would residual sums and GroupNorm pay there?

    python benchmarks/compiled_norms.py [REPEATS]

LeNet-5 and Sub-FedAvg's network with and without BatchNorm, by both trainers. A network with GroupNorm or residual sums
can't be faster, compiled, than the same one without them. So that bound is measured: ResNet-9 by PyTorch against its
convolutions, one after the other, compiled. Steps of 10 images; milliseconds of the processor, one core, the least of
some repeats, in which all alternate.
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

BATCH = 10
GREY, COLOUR = (1, 28, 28), (3, 32, 32)


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


BOTH = ("torch", "native")
CASES: list[tuple[str, tuple[int, ...], str, int]] = [
    *((name, shape, by, 20) for shape in (GREY, COLOUR) for name in ("lenet5", "lenet5-bn") for by in BOTH),
    *((name, GREY, by, 20) for name in ("cnn", "cnn-bn") for by in BOTH),
    ("resnet9", COLOUR, "torch", 2), *(("resnet9-plain", COLOUR, by, 2) for by in BOTH),
]  # fmt: skip


def milliseconds(trainer: Trainer, name: str, shape: tuple[int, ...], steps: int) -> float:
    """Return the time of a step."""
    spec, rng = ModelSpec(name, shape, 10), np.random.default_rng(0)
    x = rng.normal(size=(steps * BATCH, *shape)).astype(np.float32)
    job = Job(spec, Plan(Schedule(0.01), momentum=0.5), initial(spec, 0), x, rng.integers(10, size=len(x)), rng)
    began = time.process_time()
    trainer.train(job)
    return 1000 * (time.process_time() - began) / steps


def main(repeats: int) -> None:
    """Print a line for each."""
    trainers: dict[str, Trainer] = {"torch": TorchTrainer(), "native": NativeTrainer(TorchTrainer())}
    with one_thread():
        once = lambda: [milliseconds(trainers[by], name, shape, n) for name, shape, by, n in CASES]  # noqa: E731
        times = [once() for _ in range(repeats + 1)][1:]
    for (name, shape, by, _), best in zip(CASES, np.min(times, axis=0), strict=True):
        compiled = by == "torch" or runs_natively(ModelSpec(name, shape, 10))
        size = "×".join(map(str, shape))
        print(f"{name:14} {size} by {by:7} {best:8.2f} ms a step" + ("" if compiled else " (not compiled)"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

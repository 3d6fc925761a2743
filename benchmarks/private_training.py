"""DP-SGD: the compiled trainer beside PyTorch's gradients of single samples (torch.func), and beside plain training.

    python benchmarks/private_training.py [--models lenet5,mlp] [--batch 64] [--steps 20] [--json]

Each trains the same network on the same samples with the same plan: batches by coins, of this expected size, gradients
of single samples clipped, noise on their sum. Seconds are CPU time of one thread, the best of three.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace

import numpy as np

from coterie.messages import ModelSpec, Plan, PrivateSteps, Schedule
from coterie.models import initial
from coterie.privacy import SecretRandomness
from coterie.training import Job, Trainer, one_thread
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

SPECS = {
    "lenet5": ModelSpec("lenet5", (1, 28, 28), 10),
    "lenet5-colour": ModelSpec("lenet5", (3, 32, 32), 10),
    "mlp": ModelSpec("mlp", (1, 28, 28), 10),
}
SAMPLES = 600


def seconds(trainer: Trainer, job: Job, times: int = 3) -> float:
    """Return the CPU time of a step, the best of some trainings after one that warms up."""
    trainer.train(replace(job, plan=replace(job.plan, steps=1)))
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        steps = trainer.train(job).steps
        best = min(best, (time.process_time() - start) / steps)
    return best


def measure(name: str, batch: int, steps: int) -> dict[str, float | str]:
    """Return milliseconds of a step by each way."""
    spec, rng = SPECS[name], np.random.default_rng(0)
    x, y = rng.standard_normal((SAMPLES, *spec.shape), np.float32), rng.integers(spec.classes, size=SAMPLES)
    private = PrivateSteps(clip=1.0, noise=1.0, rate=batch / SAMPLES)
    plain = Plan(Schedule(0.05), steps=steps, batch_size=batch)
    hidden = Job(spec, replace(plain, private=private), initial(spec, 0), x, y, np.random.default_rng(1))
    torch, native = TorchTrainer(), NativeTrainer(TorchTrainer())
    row = {
        "compiled, plain": seconds(native, replace(hidden, plan=plain)),
        "compiled, private": seconds(native, hidden),
        "compiled, private, secret noise": seconds(native, replace(hidden, secret=SecretRandomness(bytes(16)))),
        "torch.func, private": seconds(torch, hidden),
    }
    ratio = row["torch.func, private"] / row["compiled, private"]
    return {"network": name, **{key: 1000 * value for key, value in row.items()}, "times faster": ratio}


def main() -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SPECS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with one_thread():
        rows = [measure(name, wanted.batch, wanted.steps) for name in wanted.models.split(",")]
    if wanted.json:
        print(json.dumps(rows, indent=2))
        return 0
    print("milliseconds of CPU time per step")
    for row in rows:
        print(", ".join(f"{key} {value:.2f}" if isinstance(value, float) else str(value) for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

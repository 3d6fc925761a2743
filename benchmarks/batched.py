"""Clients trained one by one against all at once (`--batch-clients`), by PyTorch on one core of this machine.

    python benchmarks/batched.py [REPEATS]

LeNet-5 and ResNet-9 on generated images of 3×32×32, an MLP on 64 numbers, and the transformer for letters of
examples/lora_shakespeare.py, whole and with adapters only; 2, 5 and 10 clients (ResNet-9: 2 and 4), a few steps each,
of 10 samples. Times are seconds of the processor, the least of some repeats, in which both ways alternate, since other
programs may run; `apart` is how far the models of the two ways are apart at most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.report.text_table import TextTable
from coterie.run.plugins import import_plugins
from coterie.training import Job, Outcome, one_thread
from coterie.training.job import one_by_one
from coterie.training.torch_trainer import TorchTrainer

STEPS, BATCH = 6, 10
CASES = {
    "mlp": (ModelSpec("mlp", (64,), 10), STEPS, (2, 5, 10)),
    "lenet5": (ModelSpec("lenet5", (3, 32, 32), 10), STEPS, (2, 5, 10)),
    "resnet9": (ModelSpec("resnet9", (3, 32, 32), 10), 2, (2, 4)),
    "letters": (ModelSpec("letters", (80, 80), 80), STEPS, (2, 5, 10)),
    "letters, adapters": (ModelSpec("letters", (80, 80), 80, {"learns": "adapters"}), STEPS, (2, 5, 10)),
}


def jobs_of(spec: ModelSpec, steps: int, clients: int) -> list[Job]:
    """Jobs of clients with samples of their own, all from one start."""
    plan, start, made = Plan(Schedule(0.01), batch_size=BATCH, momentum=0.5), initial(spec, 0), []
    for client in range(clients):
        rng = np.random.default_rng(client)
        x = rng.normal(size=(steps * BATCH, *spec.shape)).astype(np.float32)
        made.append(Job(spec, plan, start, x, rng.integers(spec.classes, size=len(x)), rng))
    return made


def measure(spec: ModelSpec, steps: int, clients: int, repeats: int) -> tuple[float, float, float]:
    """Return milliseconds per client's step one by one, and at once, and how far the models are apart."""
    trainer, seconds, apart = TorchTrainer(), ([], []), 0.0  # type: TorchTrainer, tuple[list[float], list[float]], float
    for _ in range(repeats + 1):
        outcomes = []
        for way, run in enumerate((lambda jobs: one_by_one(trainer, jobs), trainer.train_together)):
            jobs = jobs_of(spec, steps, clients)
            began = time.process_time()
            outcomes.append(run(jobs))
            seconds[way].append(time.process_time() - began)
        apart = max(apart, _apart(*outcomes))
    one, at_once = (1000 * min(times[1:]) / (steps * clients) for times in seconds)  # the first is to warm up
    return one, at_once, apart


def _apart(one: Sequence[object], other: Sequence[object]) -> float:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, Outcome) and isinstance(b, Outcome)]
    assert len(pairs) == len(one)
    return max(float(np.abs(a.params[name] - b.params[name]).max()) for a, b in pairs for name in a.params)


def main(repeats: int) -> None:
    """Print the table."""
    import_plugins([str(Path(__file__).parents[1] / "examples" / "lora_shakespeare.py")])
    rows = []
    with one_thread():
        for name, (spec, steps, counts) in CASES.items():
            for clients in counts:
                one, at_once, apart = measure(spec, steps, clients, repeats)
                rows.append(
                    [name, str(clients), f"{one:.2f}", f"{at_once:.2f}", f"{one / at_once:.2f}", f"{apart:.0e}"]
                )
                print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(
        TextTable(
            ["network", "clients", "one by one, ms", "at once, ms", "gain", "apart"], rows, left=["network"]
        ).text()
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

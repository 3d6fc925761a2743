"""What a run would cost, before it is run.

The whole run is rehearsed with a trainer that does no work. Method, messages and cohorts are the real ones, so steps
and bytes are counted, not guessed (they are estimates where a method's course depends on what is learnt). A few real
steps on real samples show how long a step takes here.
"""

import time
from dataclasses import dataclass, replace

from coterie.client import MemoryStore
from coterie.federation.loop import afterwards, rounds
from coterie.messages import Array, ModelSpec, Plan, Schedule
from coterie.models import initial, parameters
from coterie.results.formats import counted
from coterie.run.building import completed, load_data, make_plan, make_trainer, model_bytes, session
from coterie.run.config import Config
from coterie.run.engines import workers
from coterie.run.progress import Progress
from coterie.streams import stream
from coterie.training import Job, Trainer, one_thread
from coterie.training.rehearsal import RehearsalTrainer

PROCESS_BYTES = 350e6
"""Python with PyTorch, before any data."""
EFFICIENCY = 0.8
"""Of each worker beyond the first, as measured by benchmarks/overhead.py."""


@dataclass(frozen=True)
class Estimate:
    """Of a whole run."""

    title: str
    steps: int
    evaluated: int
    seconds: float
    memory: float
    disk: float
    up_bytes: int
    down_bytes: int

    def text(self) -> str:
        """Return the estimate in a few lines."""
        minutes, seconds = divmod(round(self.seconds), 60)
        return (
            f"Would run {self.title}\n"
            f"  work    {self.steps:,} local steps, {self.evaluated:,} samples evaluated\n"
            f"  time    about {minutes} min {seconds} s\n"
            f"  memory  about {self.memory / 1e6:,.0f} MB\n"
            f"  disk    up to {self.disk / 1e6:,.0f} MB in the run folder\n"
            f"  traffic {self.down_bytes / 1e6:,.2f} MB down, {self.up_bytes / 1e6:,.2f} MB up, without evaluation"
        )


def estimate(config: Config) -> Estimate:
    """Rehearse a run."""
    data = load_data(config)
    config = completed(config, data)
    counter = RehearsalTrainer()
    with one_thread(), session(config, data, MemoryStore(), counter) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, config.evaluation.every):
            pass
        run.evaluator.fine_tune()
        for t in range(config.training.rounds + 1, config.training.rounds + 2 + len(data.later)):
            afterwards(run.fed, run.algorithm, run.evaluator, t)
        ledger, spec = run.fed.ledger, run.fed.spec

    few = data.train[data.train_parts[0][:200]]
    with one_thread():
        trainer = make_trainer(config, spec, Progress())
        per_step, per_sample = measure_speed(trainer, spec, make_plan(config), data.normalise(few.x), few.y)
    at_once, size = workers(config), model_bytes(config, data)
    states = 2 * data.all_clients * size
    later = f" and {data.all_clients - data.clients} admitted later" if data.later else ""
    return Estimate(
        title=f"{config.algorithm.name} on {config.data.title}: {counted(data.clients, 'client')}{later}, "
        f"{counted(config.training.rounds, 'round')}, {config.model.name} with {parameters(spec):,} parameters, "
        f"{counted(at_once, 'worker')}",
        steps=counter.steps,
        evaluated=counter.evaluated,
        seconds=(counter.steps * per_step + counter.evaluated * per_sample) / (1 + EFFICIENCY * (at_once - 1)),
        memory=PROCESS_BYTES + data.nbytes + (states if config.engine.state != "disk" else 0) + 20 * size,
        disk=states + 2 * size,
        up_bytes=ledger.total("up"),
        down_bytes=ledger.total("down"),
    )


def measure_speed(
    trainer: Trainer, spec: ModelSpec, plan: Plan, x: Array, y: Array, count: int = 40
) -> tuple[float, float]:
    """Return seconds per training step, of `count` steps, and per evaluated sample, on one worker."""
    start = initial(spec, 0)

    def steps(count: int) -> float:
        few = replace(plan, lr=Schedule(1e-6), steps=count, curriculum=None)
        began = time.thread_time()
        trainer.train(Job(spec, few, start, x, y, stream(0, "estimate")))
        return time.thread_time() - began

    steps(min(count, 5))
    per_step = steps(count) / count
    trainer.logits(spec, start, x)
    began = time.thread_time()
    trainer.logits(spec, start, x)
    return per_step, (time.thread_time() - began) / max(len(x), 1)

"""What a run would cost, before it is run.

The whole run is rehearsed with a trainer that does no work. Method, messages and cohorts are the real ones, so steps
and bytes are counted, not guessed (they are estimates where a method's course depends on what is learnt). The rehearsal
takes the time and the memory of all that is not training, or writing; a few real steps on real samples show how long a
step takes here, in trainings as long as the run's, and a few states that are written how long that takes.
"""

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.client import DiskStore, MemoryStore
from coterie.client.store import GENERATIONS, State
from coterie.errors import counted
from coterie.federation.loop import afterwards, rounds
from coterie.messages import Array, ClientId, ModelSpec, Params, Plan, Schedule
from coterie.models import initial, parameters
from coterie.run.building import completed, load_data, make_plan, make_trainer, model_bytes, session
from coterie.run.config import Config
from coterie.run.engines import workers
from coterie.run.progress import Progress
from coterie.run.runner import MEMORY_FOR_STATES
from coterie.streams import stream
from coterie.training import Job, Trainer, one_thread
from coterie.training.rehearsal import RehearsalTrainer

PROCESS_BYTES = 350e6
"""Python with PyTorch, before any data, where the rehearsal's own memory can't be told."""
MODELS_AT_ONCE = 20
"""In messages, sums and networks, beside what the rehearsal holds."""
EFFICIENCY = 0.8
"""Of each worker beyond the first, as measured by benchmarks/overhead.py."""


@dataclass(frozen=True)
class Estimate:
    """Of a whole run."""

    title: str
    steps: int
    evaluated: int
    seconds: float
    cpu: float
    """Seconds of all processors together."""
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


class CountingStore(MemoryStore):
    """Knows how many bytes the clients' states will take; those of a rehearsal share most of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes: dict[ClientId, list[int]] = {}
        self._saves, self._last = 0, dict[str, Params]()

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state, and count it."""
        super().save(client, round, state)
        self._saves, self._last = self._saves + 1, dict(state)
        size = sum(array.nbytes for params in state.values() for array in params.values())
        self._bytes[client] = [*self._bytes.get(client, []), size][-GENERATIONS:]

    @property
    def nbytes(self) -> int:
        """Of the states of all clients."""
        return sum(map(sum, self._bytes.values()))

    def seconds_to_write(self, few: int = 8) -> float:
        """Return what it would take to write all states that were saved, by writing a few."""
        few = min(few, self._saves)
        with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
            store, began = DiskStore(Path(folder)), time.thread_time()
            for k in range(few):
                store.save(k, k, self._last)
            return (time.thread_time() - began) * self._saves / max(few, 1)


def estimate(config: Config) -> Estimate:
    """Rehearse a run."""
    peak_before, began = peak_memory(), time.process_time()
    data = load_data(config)
    config = completed(config, data)
    counter, store = RehearsalTrainer(), CountingStore()
    with one_thread(), session(config, data, store, counter) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, config.evaluation.every):
            pass
        run.evaluator.fine_tune()
        for t in range(config.training.rounds + 1, config.training.rounds + 2 + len(data.later)):
            afterwards(run.fed, run.algorithm, run.evaluator, t)
        ledger, spec = run.fed.ledger, run.fed.spec
    beside = time.process_time() - began

    few = data.train[data.train_parts[0][:200]]
    with one_thread():
        trainer = make_trainer(config, spec, Progress())
        per_step, per_sample = measure_speed(
            trainer, spec, make_plan(config), data.normalise(few.x), few.y,
            per_training=_mean(counter.steps, counter.trainings),
            per_evaluation=_mean(counter.evaluated, counter.evaluations),
        )  # fmt: skip
    at_once, size = workers(config), model_bytes(config, data)
    work = counter.steps * per_step + counter.evaluated * per_sample + store.seconds_to_write()
    peak = peak_memory()
    held = peak if peak > peak_before else PROCESS_BYTES + data.nbytes
    state, needed = config.engine.state, 2 * data.clients * size
    on_disk = state == "disk" or (state == "auto" and needed > MEMORY_FOR_STATES)
    later = f" and {data.all_clients - data.clients} admitted later" if data.later else ""
    return Estimate(
        title=f"{config.algorithm.name} on {config.data.title}: {counted(data.clients, 'client')}{later}, "
        f"{counted(config.training.rounds, 'round')}, {config.model.name} with {parameters(spec):,} parameters, "
        f"{counted(at_once, 'worker')}",
        steps=counter.steps,
        evaluated=counter.evaluated,
        seconds=beside + work / (1 + EFFICIENCY * (at_once - 1)),
        cpu=beside + work,
        memory=held + (0 if on_disk else store.nbytes) + MODELS_AT_ONCE * size,
        disk=store.nbytes + 2 * size,
        up_bytes=ledger.total("up"),
        down_bytes=ledger.total("down"),
    )


def peak_memory() -> float:
    """Return the most bytes that this process has had in memory; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def _mean(total: int, number: int) -> int:
    return max(1, round(total / max(number, 1)))


def measure_speed(
    trainer: Trainer,
    spec: ModelSpec,
    plan: Plan,
    x: Array,
    y: Array,
    count: int = 40,
    *,
    per_training: int | None = None,
    per_evaluation: int | None = None,
) -> tuple[float, float]:
    """Return seconds per training step, of `count` steps, and per evaluated sample, on one worker.

    What a training or an evaluation costs before its first step is shared by those that a run has in one of them: where
    clients are small, it is most of it.
    """
    start = initial(spec, 0)
    each = min(per_training or count, count)
    rows = x[: per_evaluation or len(x)]

    def steps(count: int) -> float:
        few = replace(plan, lr=Schedule(1e-6), steps=each, curriculum=None)
        began = time.thread_time()
        for _ in range(-(-count // each)):
            trainer.train(Job(spec, few, start, x, y, stream(0, "estimate")))
        return (time.thread_time() - began) / (each * -(-count // each))

    steps(min(count, 5))
    per_step = steps(count)
    trainer.logits(spec, start, rows)
    began, evaluations = time.thread_time(), max(1, min(20, len(x) // max(len(rows), 1)))
    for _ in range(evaluations):
        trainer.logits(spec, start, rows)
    return per_step, (time.thread_time() - began) / max(evaluations * len(rows), 1)

"""``coterie bench train``: local training by PyTorch, by ``torch.compile`` and by the compiled trainer, side by side.

All contestants train the same network on the same samples, one client per thread, in turns of about a second
within one run, since machines are noisy; a rate is the median over the turns. The plain loop and ``torch.compile``
get a process per thread, as other frameworks run them; our own trainers get threads, as a run gives them.
"""

import itertools
import json
import multiprocessing
import signal
import statistics
import threading
import time
import timeit
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.pool import Pool, ThreadPool
from typing import Annotated

import numpy as np
import typer

from coterie.cli.options import command_group
from coterie.errors import CoterieError, suggestion
from coterie.messages import ModelSpec
from coterie.registry import same_name
from coterie.report.text_table import TextTable
from coterie.run.values import split_names
from coterie.training import one_thread

bench = command_group("Measure speed on this machine.")

SHAPES = {
    "lenet5-3x32x32": (3, 32, 32),
    "lenet5-1x28x28": (1, 28, 28),
    "mclr": (1, 28, 28),
    "mlp": (1, 28, 28),
}
TRAINERS = {
    "loop": "a plain PyTorch loop",
    "torch": "our PyTorch trainer",
    "compile": "torch.compile",
    "native": "our compiled trainer",
}
CONTESTANTS = f"All, or some of {', '.join(f'{name} ({text})' for name, text in TRAINERS.items())}."
SAMPLES, CLASSES = 640, 10  # whole batches of 10 and of 64
RATE, MOMENTUM, EPOCHS = 0.01, 0.5, 2
TURNS, SECONDS = 3, 0.8
PATIENCE = 180.0
"""Seconds for a process to get ready, compiling included."""


@dataclass(frozen=True)
class Workload:
    """A network, and the size of the batches in which it trains."""

    model: str
    batch: int

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(self.model.partition("-")[0], SHAPES[self.model], CLASSES)

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        return rng.standard_normal((SAMPLES, *SHAPES[self.model]), np.float32), np.arange(SAMPLES) % CLASSES

    def flops(self) -> float:
        """Return the multiplications and additions of one training step, those of convolutions and linear layers.

        Backwards a layer needs as many for its weights as forwards, and, unless it is the first, again for its inputs.
        """
        from coterie.models import build
        from coterie.native import stages

        layers = stages(build(self.spec), self.spec.shape) or []
        forward = [2 * s.positions * s.channels * s.kernel**2 * s.outputs for s in layers]
        return float(self.batch * (3 * sum(forward) - forward[0]))


@dataclass(frozen=True)
class Measurement:
    """A measurement; rates and flops are of all threads together."""

    model: str
    batch: int
    threads: int
    trainer: str
    steps_per_second: float
    ratio_to_loop: float | None
    gflops: float


Client = Callable[[], int]
"""Trains one client; returns the steps."""


@bench.callback()
def keep_subcommand() -> None:
    """Make ``train`` a command of its own, although it is the only one."""


@bench.command(short_help="Measure steps per second of each trainer.")
def train(
    models: Annotated[
        str, typer.Option(help=f"Networks, with commas between them [{','.join(SHAPES)}].", show_default=False)
    ] = ",".join(SHAPES),
    trainers: Annotated[str | None, typer.Option(help=CONTESTANTS)] = None,
    batches: Annotated[str, typer.Option(help="Batch sizes [10,64].", show_default=False)] = "10,64",
    threads: Annotated[
        str, typer.Option(help="Numbers of clients training at once [1,2].", show_default=False)
    ] = "1,2",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure client-steps per second of a plain PyTorch loop, of torch.compile and of our two trainers."""
    names = _choices("model", models, SHAPES)
    cases = [Workload(model, batch) for model in names for batch in _numbers("batches", batches, SAMPLES)]
    thread_counts = _numbers("threads", threads, 64)
    chosen = _contestants(trainers)
    sgemm = sgemm_gflops()
    typer.echo(
        f"A core multiplies matrices (SGEMM) at {sgemm:.1f} GFLOP/s; 'of SGEMM' is the share of that.", err=as_json
    )
    rows = []
    for row in measure(cases, chosen, thread_counts):
        rows.append(row)
        where = f"{row.model}, batches of {row.batch}, threads: {row.threads}"
        typer.echo(f"{where}, {row.trainer}: {row.steps_per_second:.0f} steps/s", err=True)
    if as_json:
        typer.echo(json.dumps({"sgemm_gflops": sgemm, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        head = ["model", "batch", "threads", "trainer", "steps/s", "to loop", "of SGEMM"]
        cells = [
            [
                *(row.model, str(row.batch), str(row.threads), row.trainer, f"{row.steps_per_second:.0f}"),
                "–" if row.ratio_to_loop is None else f"{row.ratio_to_loop:.2f}×",
                f"{100 * row.gflops / row.threads / sgemm:.0f} %",
            ]
            for row in rows
        ]
        typer.echo(TextTable(head, cells, left=["trainer"]).text())


def measure(cases: Sequence[Workload], trainers: Sequence[str], threads: Sequence[int]) -> Iterator[Measurement]:
    """Measure all combinations; those of one network, batch and number of threads in alternation."""
    with ExitStack() as stack:
        pools = {name: [stack.enter_context(_worker(name)) for _ in range(max(threads))] for name in trainers}
        for case, count in itertools.product(cases, threads):
            teams = {name: pools[name][:count] for name in trainers}
            for name, team in teams.items():
                for number, worker in enumerate(team):  # one after the other: the second finds what the first compiled
                    _together(name, [worker], get_ready, name, case, number)
            rates: dict[str, list[float]] = {name: [] for name in trainers}
            for _ in range(TURNS):
                for name, team in teams.items():
                    rates[name].append(sum(_together(name, team, work, SECONDS)))
            medians = {name: statistics.median(values) for name, values in rates.items()}
            for name, rate in medians.items():
                ratio = rate / medians["loop"] if "loop" in medians else None
                yield Measurement(case.model, case.batch, count, name, rate, ratio, rate * case.flops() / 1e9)


def sgemm_gflops(size: int = 768) -> float:
    """Return how fast one core multiplies matrices of floats, in 10⁹ operations per second: the best of many."""
    import torch

    a, b = torch.randn(size, size), torch.randn(size, size)
    with one_thread():
        best = min(timeit.repeat(lambda: a @ b, number=1, repeat=40))
    return 2 * size**3 / best / 1e9


def _worker(trainer: str) -> Pool:
    """Return a thread for one of our trainers, or a process for what others do."""
    if trainer in OURS:
        return ThreadPool(1)
    context = multiprocessing.get_context("spawn")  # a fork of a process with PyTorch's threads may hang
    return context.Pool(1, signal.signal, (signal.SIGINT, signal.SIG_IGN))  # Ctrl-C is for this process


def _together(trainer: str, workers: Sequence[Pool], task: Callable[..., float], *arguments: object) -> list[float]:
    """Have workers do the same at the same time, and return their answers."""
    answers = [worker.apply_async(task, arguments) for worker in workers]
    try:
        return [answer.get(PATIENCE) for answer in answers]
    except multiprocessing.TimeoutError:
        late = f"'{trainer}' did not answer within {PATIENCE:.0f} seconds: leave it out with --trainers"
        raise CoterieError(late) from None


# ---- in a worker

_THREAD = threading.local()


def get_ready(trainer: str, case: Workload, worker: int) -> float:
    """Make this worker's client, and let it train once."""
    import torch

    torch.set_num_threads(1)
    try:
        _THREAD.client = CLIENTS[trainer](case, worker)
        return float(_THREAD.client())
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CoterieError(f"'{trainer}' fails here ({why}): leave it out with --trainers") from None


def work(seconds: float) -> float:
    """Let this worker's client train for some seconds; return steps per second."""
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        steps += _THREAD.client()
    return steps / (time.perf_counter() - began)


def our_trainer(case: Workload, worker: int, native: bool = False) -> Client:
    """Return local training as a run does it."""
    from coterie.messages import Plan, Schedule
    from coterie.models import initial
    from coterie.training import Job
    from coterie.training.native_trainer import NativeTrainer
    from coterie.training.torch_trainer import TorchTrainer

    trainer = NativeTrainer(TorchTrainer()) if native else TorchTrainer()
    x, y = case.samples()
    start = initial(case.spec, 0)
    plan = Plan(lr=Schedule(RATE), momentum=MOMENTUM, epochs=EPOCHS, batch_size=case.batch)
    rng = np.random.default_rng(worker)
    return lambda: trainer.train(Job(case.spec, plan, start, x, y, rng)).steps


def plain_loop(case: Workload, worker: int = 0) -> Client:
    """Return local training as other frameworks' examples write it: a DataLoader, an optimiser, the loss read off."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    from coterie.models import build

    module = build(case.spec)
    samples = TensorDataset(*(torch.from_numpy(part) for part in case.samples()))
    loader = DataLoader(samples, batch_size=case.batch, shuffle=True)

    def client() -> int:
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
        total = 0.0
        for _ in range(EPOCHS):
            for x, y in loader:
                optimizer.zero_grad()
                loss = cross_entropy(module(x), y)
                torch.autograd.backward(loss)
                optimizer.step()
                total += loss.item()
        return EPOCHS * len(loader)

    return client


def compiled_loop(case: Workload, worker: int = 0) -> Client:
    """Return local training whose whole step, the update included, is one function for ``torch.compile``.

    Compiling the network alone is slower than the plain loop: around so little arithmetic the hand-over costs more.
    """
    import torch
    from torch.func import functional_call, grad
    from torch.nn.functional import cross_entropy

    from coterie.models import build

    Tensors = dict[str, torch.Tensor]
    module = build(case.spec)
    x, y = (torch.from_numpy(part) for part in case.samples())

    def step(w: Tensors, velocity: Tensors, inputs: torch.Tensor, labels: torch.Tensor) -> tuple[Tensors, Tensors]:
        gradient = grad(lambda params: cross_entropy(functional_call(module, params, (inputs,)), labels))(w)
        velocity = {name: MOMENTUM * velocity[name] + gradient[name] for name in w}
        return {name: w[name] - RATE * velocity[name] for name in w}, velocity

    compiled = torch.compile(step, dynamic=False)

    @torch.no_grad()
    def client() -> int:
        w = {name: parameter.detach() for name, parameter in module.named_parameters()}
        velocity = {name: torch.zeros_like(parameter) for name, parameter in w.items()}
        for _ in range(EPOCHS):
            batches = torch.split(torch.randperm(SAMPLES), case.batch)
            for batch in batches:
                w, velocity = compiled(w, velocity, x[batch], y[batch])
        return EPOCHS * len(batches)

    return client


CLIENTS: dict[str, Callable[[Workload, int], Client]] = {
    "loop": plain_loop,
    "torch": our_trainer,
    "compile": compiled_loop,
    "native": partial(our_trainer, native=True),
}
OURS = ("torch", "native")


# ---- what is asked for


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(split_names(text)))


def _choices(kind: str, text: str, offered: Collection[str]) -> list[str]:
    names = [same_name(name, offered) for name in _split(text)]
    for name in names:
        if name not in offered:
            raise CoterieError(f"unknown {kind} '{name}': {suggestion(name, offered)}")
    if not names:
        raise CoterieError(f"no {kind} is chosen: use some of {', '.join(offered)}")
    return names


def _numbers(flag: str, text: str, most: int) -> list[int]:
    numbers = _split(text)
    if not numbers or not all(n.isdecimal() and 1 <= int(n) <= most for n in numbers):
        raise CoterieError(
            f"--{flag} takes whole numbers from 1 to {most} with commas or spaces between them, got '{text}'"
        )
    return list(dict.fromkeys(map(int, numbers)))


def _contestants(names: str | None) -> list[str]:
    from coterie.native import available

    chosen = _choices("trainer", names or ",".join(TRAINERS), TRAINERS)
    if "native" not in chosen or available():
        return chosen
    missing = "the compiled trainer is not here: install Coterie again where there is a C++ compiler"
    if names:
        raise CoterieError(missing)
    typer.echo(f"coterie: {missing}; it is left out", err=True)
    return [name for name in chosen if name != "native"]

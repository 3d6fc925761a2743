"""``coterie bench train``: local training by PyTorch, by ``torch.compile`` and by the compiled trainer, side by side.

All contestants train the same network on the same samples, one client per thread, in turns of about a second
within one run, since machines are noisy; a rate is the median over the turns. The plain loop and ``torch.compile``
get a process per thread, as other frameworks run them; our own trainers get threads, as a run gives them.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.errors import CoterieError, suggestion
from coterie.training import one_thread

if TYPE_CHECKING:
    import numpy as np

    from coterie.messages import ModelSpec
    from coterie.training import Trainer

bench = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Measure speed on this machine."
)

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
CONTESTANTS = f"All, or some of {', '.join(f'{name} ({what})' for name, what in TRAINERS.items())}."
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
        from coterie.messages import ModelSpec

        return ModelSpec(self.model.partition("-")[0], SHAPES[self.model], CLASSES)

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

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


@bench.command()
def train(
    models: Annotated[
        str, typer.Option(help=f"Networks, with commas between [{','.join(SHAPES)}].", show_default=False)
    ] = ",".join(SHAPES),
    trainers: Annotated[str | None, typer.Option(help=CONTESTANTS)] = None,
    batches: Annotated[str, typer.Option(help="Batch sizes [10,64].", show_default=False)] = "10,64",
    threads: Annotated[
        str, typer.Option(help="Numbers of clients training at once [1,2].", show_default=False)
    ] = "1,2",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure client-steps per second of a plain PyTorch loop, of torch.compile and of our two trainers."""
    cases = [
        Workload(model, b) for model in _choice("model", models, SHAPES) for b in _numbers("batches", batches, SAMPLES)
    ]
    widths = _numbers("threads", threads, 64)
    chosen = _contestants(trainers)
    sgemm = sgemm_gflops()
    _say(f"A core multiplies matrices (SGEMM) at {sgemm:.1f} GFLOP/s; 'of SGEMM' is the share of that.", as_json)
    _say(
        f"{'model':<15} {'batch':>5} {'threads':>7}  {'trainer':<8} {'steps/s':>9} {'to loop':>8} {'of SGEMM':>8}",
        as_json,
    )
    rows = []
    for row in measure(cases, chosen, widths):
        rows.append(row)
        ratio = "" if row.ratio_to_loop is None else f"{row.ratio_to_loop:.2f}×"
        _say(
            f"{row.model:<15} {row.batch:>5} {row.threads:>7}  {row.trainer:<8} {row.steps_per_second:>9.0f} "
            f"{ratio:>8} {100 * row.gflops / row.threads / sgemm:>6.0f} %",
            as_json,
        )
    if as_json:
        typer.echo(json.dumps({"sgemm_gflops": sgemm, "rows": [asdict(row) for row in rows]}, indent=2))


def measure(cases: Sequence[Workload], trainers: Sequence[str], threads: Sequence[int]) -> Iterator[Measurement]:
    """Measure all combinations; those of one network, batch and number of threads in alternation."""
    with ExitStack() as stack:
        ours = {name: stack.enter_context(_threads(name, max(threads))) for name in trainers if name in OURS}
        others = {name: stack.enter_context(_processes(name, max(threads))) for name in trainers if name not in OURS}
        for case in cases:
            for count in threads:
                teams = {name: (ours | others)[name](case, count) for name in trainers}
                rates: dict[str, list[float]] = {name: [] for name in trainers}
                for _ in range(TURNS):
                    for name, team in teams.items():
                        rates[name].append(team(SECONDS))
                medians = {name: statistics.median(values) for name, values in rates.items()}
                for name, rate in medians.items():
                    ratio = rate / medians["loop"] if "loop" in medians else None
                    yield Measurement(case.model, case.batch, count, name, rate, ratio, rate * case.flops() / 1e9)


def sgemm_gflops(size: int = 768) -> float:
    """Return how fast one core multiplies matrices of floats, in 10⁹ operations per second: the best of many."""
    import torch

    a, b = torch.randn(size, size), torch.randn(size, size)
    with one_thread():
        best = min(_seconds(lambda: a @ b) for _ in range(40))
    return 2 * size**3 / best / 1e9


# ---- our trainers, in threads

OURS = {"torch", "native"}
Turn = Callable[[float], float]
"""Works for some seconds; returns steps per second."""
Team = Callable[[Workload, int], Turn]
"""Gets a number of workers ready for a case."""


@contextmanager
def _threads(name: str, most: int) -> Iterator[Team]:
    from coterie.training.torch_trainer import TorchTrainer

    trainer: Trainer = TorchTrainer()
    if name == "native":
        from coterie.training.native_trainer import NativeTrainer

        trainer = NativeTrainer(trainer)
    pools = [ThreadPoolExecutor(1) for _ in range(most)]

    def team(case: Workload, count: int) -> Turn:
        clients = [_job(trainer, case, worker) for worker in range(count)]
        for pool, client in zip(pools, clients, strict=False):
            pool.submit(client).result()

        def turn(seconds: float) -> float:
            return sum(f.result() for f in [p.submit(_rate, c, seconds) for p, c in zip(pools, clients, strict=False)])

        return turn

    try:
        yield team
    finally:
        for pool in pools:
            pool.shutdown()


def _job(trainer: Trainer, case: Workload, worker: int) -> Client:
    import numpy as np

    from coterie.messages import Plan, Schedule
    from coterie.models import initial
    from coterie.training import Job

    x, y = case.samples()
    start = initial(case.spec, 0)
    plan = Plan(lr=Schedule(RATE), momentum=MOMENTUM, epochs=EPOCHS, batch_size=case.batch)
    rng = np.random.default_rng(worker)
    return lambda: trainer.train(Job(case.spec, plan, start, x, y, rng)).steps


# ---- what others do, in processes


@contextmanager
def _processes(name: str, most: int) -> Iterator[Team]:
    context = multiprocessing.get_context("spawn")  # a fork of a process with PyTorch's threads may hang
    workers = []
    for _ in range(most):
        here, there = context.Pipe()
        worker = context.Process(target=_serve, args=(there, name), daemon=True)
        worker.start()
        there.close()
        workers.append((here, worker))

    def ask(connection: Connection) -> float:
        if not connection.poll(PATIENCE):
            raise CoterieError(f"'{name}' did not answer within {PATIENCE:.0f} seconds: leave it out with --trainers")
        answer = connection.recv()
        if isinstance(answer, str):
            raise CoterieError(f"'{name}' fails here ({answer}): leave it out with --trainers")
        return float(answer)

    def team(case: Workload, count: int) -> Turn:
        used = [connection for connection, _ in workers[:count]]
        for connection in used:
            connection.send(case)
            ask(connection)  # one after the other: the second finds what the first compiled

        def turn(seconds: float) -> float:
            for connection in used:
                connection.send(seconds)
            return sum(ask(connection) for connection in used)

        return turn

    try:
        yield team
    finally:
        for connection, worker in workers:
            connection.close()
            worker.join(5)
            worker.terminate()


def _serve(connection: Connection, name: str) -> None:
    """Get ready for each case, and work for each number of seconds, that come through the connection."""
    import torch

    torch.set_num_threads(1)
    make = compiled_loop if name == "compile" else plain_loop
    client: Client | None = None
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            message = connection.recv()
            try:
                if isinstance(message, Workload):
                    client = make(message)
                    client()
                connection.send(_rate(client, message) if client and isinstance(message, float) else 0.0)
            except Exception as error:
                connection.send(f"{type(error).__name__}: {error}".partition("\n")[0])


def plain_loop(case: Workload) -> Client:
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


def compiled_loop(case: Workload) -> Client:
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


# ---- small things


def _rate(client: Client, seconds: float) -> float:
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        steps += client()
    return steps / (time.perf_counter() - began)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _say(text: str, aside: bool) -> None:
    typer.echo(text, err=aside)


def _choice(kind: str, text: str, offered: Iterable[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in offered:
            raise CoterieError(f"unknown {kind} '{name}': {suggestion(name, offered)}")
    if not names:
        raise CoterieError(f"no {kind} is chosen: use some of {', '.join(offered)}")
    return list(dict.fromkeys(names))


def _numbers(flag: str, text: str, most: int) -> list[int]:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    if not numbers or not all(n.isdecimal() and 1 <= int(n) <= most for n in numbers):
        raise CoterieError(f"--{flag} takes whole numbers from 1 to {most} with commas between, got '{text}'")
    return list(dict.fromkeys(map(int, numbers)))


def _contestants(asked: str | None) -> list[str]:
    from coterie.native import available

    chosen = _choice("trainer", asked or ",".join(TRAINERS), TRAINERS)
    if "native" not in chosen or available():
        return chosen
    missing = "the compiled trainer is not here: install Coterie again where there is a C++ compiler"
    if asked:
        raise CoterieError(missing)
    typer.echo(f"coterie: {missing}; it is left out", err=True)
    return [name for name in chosen if name != "native"]

"""What a round costs beside training and evaluation, what a second worker gives, and what safe files cost.

    python benchmarks/overhead.py
    python benchmarks/overhead.py files

100 clients with LeNet-5 and 475 generated images each (as CIFAR-10 gives), 10 per round, E = 2, with the compiled
trainer and with PyTorch; every part of a run is on, the run folder included.
Overhead is the share of a one-worker run that is not spent answering `train` and `evaluate`: messages, ledger,
validation, aggregation, client states, checkpoints, the hand-over between threads. Both workers' rates come from the
same process, alternating, since the machine is noisy.

With `files`, the share of a one-worker run that is spent on digests of states and checkpoints, and how much longer a
round takes with --durable, both from alternating runs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import coterie
from coterie import files
from coterie.client import RequestHandler
from coterie.client.verbs import HANDLERS, Answering, Handler
from coterie.federation import Aggregator, exchange
from coterie.messages import Answer, TrainReply, Verb
from coterie.run.progress import Progress


class Work:
    """Seconds and steps spent answering verbs: local training and evaluation, samples prepared included."""

    seconds = 0.0
    steps = 0
    digests = 0.0
    distrust = 0.0
    """Seconds spent checking replies and cutting updates."""


def time_the_verbs() -> None:
    def timed(handle: Handler) -> Handler:
        def answer(handler: RequestHandler, verb: Verb) -> Answer | Answering:
            began = time.perf_counter()
            answer = handle(handler, verb)
            if isinstance(answer, Generator):
                return training(answer)
            Work.seconds += time.perf_counter() - began
            return answer

        return answer

    def training(answering: Answering) -> Answering:
        began = time.perf_counter()
        answer = yield from answering
        Work.seconds += time.perf_counter() - began
        Work.steps += answer.steps if isinstance(answer, TrainReply) else 0
        return answer

    HANDLERS.update({kind: timed(handle) for kind, handle in HANDLERS.items()})


def time_the_digests() -> None:
    digest = files._digest

    def timed(content: bytes, start: int, end: int) -> str:
        began = time.thread_time()
        found = digest(content, start, end)
        Work.digests += time.thread_time() - began
        return found

    files._digest = timed


def time_the_distrust() -> None:
    def timed(check: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **more: Any) -> Any:
            began = time.perf_counter()
            result = check(*arguments, **more)
            Work.distrust += time.perf_counter() - began
            return result

        return checked

    exchange.error_in_reply = timed(exchange.error_in_reply)
    Aggregator.screened = timed(Aggregator.screened)  # type: ignore[method-assign]


class RoundsAreOver(Exception):
    """Nothing behind them is measured."""


class RoundClock(Progress):
    """Times the rounds alone: from the first to the last, without set-up and protocol +."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.began = time.perf_counter()
        self.cpu = time.process_time()
        Work.seconds, Work.steps, Work.digests, Work.distrust = 0.0, 0, 0.0, 0.0

    def phase(self, text: str) -> None:
        if text.startswith("fine-tuning"):
            raise RoundsAreOver

    def round(self, round: int, row: object) -> None:
        self.seconds = time.perf_counter() - self.began
        self.inside, self.steps, self.distrust = Work.seconds, Work.steps, Work.distrust
        self.digests = Work.digests / (time.process_time() - self.cpu)


def images(path: Path, shape: tuple[int, ...]) -> str:
    rng = np.random.default_rng(0)
    y = np.arange(50_000) % 10
    x = rng.integers(0, 256, (50_000, *shape), dtype=np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x[:2000], y_test=y[:2000])
    return str(path)


def measure(dataset: str, folder: Path, workers: int, trainer: str, durable: bool = False) -> RoundClock:
    clock = RoundClock()
    with suppress(RoundsAreOver):
        coterie.run(
            dataset=dataset, partition="label-skew:rho=0.2", model="lenet5", clients=100, rounds=4, epochs=2,
            eval_every=2, trainer=trainer, workers=workers, out=str(folder), overwrite=True, durable=durable,
            progress=clock, aggregation="clipped", max_weight=10.0, min_samples=10, min_label_samples=10,
        )  # fmt: skip
    return clock


def measure_files() -> None:
    time_the_digests()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = images(folder / "images.npz", (28, 28))
        for trainer in ("native", "torch"):
            pairs = [
                [
                    measure(dataset, folder / f"{trainer}-{repeat}-{durable}", 1, trainer, durable)
                    for durable in (False, True)
                ]
                for repeat in range(5)
            ]
            share = np.median([plain.digests for plain, _ in pairs])
            rounds = [np.median([pair[durable].seconds for pair in pairs]) / 4 for durable in (False, True)]
            print(
                f"LeNet-5 1x28x28, {trainer}: digests {100 * share:.2f} % of the processor's time (goal 1 %); a round "
                f"takes {1e3 * rounds[0]:.0f} ms, {1e3 * rounds[1]:.0f} ms with --durable",
                flush=True,
            )


def main() -> None:
    if sys.argv[1:] == ["files"]:
        return measure_files()
    time_the_verbs()
    time_the_distrust()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, shape in (("1x28x28", (28, 28)), ("3x32x32", (32, 32, 3))):
            dataset = images(folder / f"images-{label}.npz", shape)
            for trainer in ("native", "torch"):
                one, two = [], []
                for repeat in range(3):
                    one.append(measure(dataset, folder / f"{label}-{trainer}-1-{repeat}", 1, trainer))
                    two.append(measure(dataset, folder / f"{label}-{trainer}-2-{repeat}", 2, trainer))
                overhead = np.median([1 - clock.inside / clock.seconds for clock in one])
                rates = [np.median([clock.steps / clock.seconds for clock in clocks]) for clocks in (one, two)]
                distrust = np.median([clock.distrust / clock.seconds for clock in one])
                print(
                    f"LeNet-5 {label}, {trainer}: overhead {100 * overhead:.1f} % of a round (goal 5 %), of which "
                    f"checks of replies and cutting of updates {100 * distrust:.2f} %; steps/s "
                    f"{rates[0]:.0f} with 1 worker, {rates[1]:.0f} with 2: {rates[1] / rates[0]:.2f} times (goal 1.5)",
                    flush=True,
                )


if __name__ == "__main__":
    main()

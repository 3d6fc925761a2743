"""Seconds per round of the two engines at the same work, and how they grow with the number of clients.

    unshare -rn sh -c 'ip link set lo up; python benchmarks/engines.py'

LeNet-5 on generated images of 28 x 28, 100 per client, 10 clients per round, E = 2, two workers, compiled training; the
engines take turns in one process. `start` is the time from the call to the first round: reading, dividing and sharing
the data, and for Flower starting Ray. Ray listens on all interfaces, hence the
network namespace. --rounds and --clients change what is measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

import coterie
from coterie.data import Dataset, Samples
from coterie.run.progress import Progress

IN_ROUND = 10
PER_CLIENT = 100


@coterie.dataset("generated-images")
def generated_images(*, samples: int = 1000) -> Dataset:
    """Noise in ten classes."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (samples, 1, 28, 28), np.uint8)
    return Dataset("generated-images", Samples(x, np.arange(samples) % 10), Samples(x[:100], np.arange(100) % 10), 10)


class RoundsAreOver(Exception):
    """Nothing behind them is measured."""


class Clock(Progress):
    """Times each round."""

    def __init__(self, rounds: int) -> None:
        self.wanted = rounds
        self.called = time.perf_counter()
        self.rounds: list[float] = []

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.began = self.last = time.perf_counter()

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        now = time.perf_counter()
        if round:
            self.rounds.append(now - self.last)
        self.last = now
        if len(self.rounds) == self.wanted:
            raise RoundsAreOver


def measure(engine: str, clients: int, rounds: int) -> Clock:
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(rounds)
        with suppress(RoundsAreOver):
            coterie.run(
                algorithm="fedavg", dataset="generated-images", clients=clients, model="lenet5", engine=engine,
                dataset_options={"samples": round(clients * PER_CLIENT / 0.95)}, fraction=IN_ROUND / clients,
                rounds=rounds + 1, epochs=2, eval_every=0, workers=2, out=f"{folder}/run", progress=clock,
            )  # fmt: skip
        return clock


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    chosen = parser.parse_args()
    print(f"{'clients':>8}  {'engine':<9}{'start':>8}{'s per round':>13}   (median of {chosen.rounds}; all)")
    for clients in chosen.clients:
        medians = {}
        for engine in ("embedded", "flower"):
            clock = measure(engine, clients, chosen.rounds)
            medians[engine] = statistics.median(clock.rounds)
            each = " ".join(f"{seconds:.2f}" for seconds in clock.rounds)
            start = clock.began - clock.called
            print(f"{clients:>8}  {engine:<9}{start:>8.1f}{medians[engine]:>13.3f}   ({each})", flush=True)
        print(f"{'':>8}  flower / embedded: {medians['flower'] / medians['embedded']:.1f}")


if __name__ == "__main__":
    main()

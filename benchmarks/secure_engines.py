"""What a round with secure sums costs on both engines: bytes of a client, and seconds with masks and without.

    unshare -rn sh -c 'ip link set lo up; python benchmarks/secure_engines.py'

Generated images of 3 x 32 x 32, 10 per client and one epoch, so that there is little else than messages and masks. All
clients are in each round, which has four exchanges at first and then two. Bytes are those in the ledger, of one client
and a round; seconds are of the wall, the median of the rounds with two exchanges. Ray listens on all interfaces, hence
the network namespace.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import coterie
from coterie.data import Dataset, Samples
from coterie.run.progress import Progress

PER_CLIENT = 10


@coterie.dataset("generated-colours")
def generated_colours(*, samples: int = 1000) -> Dataset:
    """Noise in ten classes."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (samples, 3, 32, 32), np.uint8)
    return Dataset("generated-colours", Samples(x, np.arange(samples) % 10), Samples(x[:20], np.arange(20) % 10), 10)


class Clock(Progress):
    """Times each round."""

    def __init__(self) -> None:
        self.rounds: list[float] = []

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.last = time.perf_counter()

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        now = time.perf_counter()
        if round:
            self.rounds.append(now - self.last)
        self.last = now


def measure(engine: str, model: str, clients: int, rounds: int, **settings: Any) -> tuple[float, float, float]:
    """Return bytes up and down of a client in a round, and seconds of a round with two exchanges."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        result = coterie.run(
            algorithm="fedavg", dataset="generated-colours", clients=clients, model=model, engine=engine,
            dataset_options={"samples": round(clients * PER_CLIENT / 0.95)}, fraction=1.0, rounds=rounds, epochs=1,
            eval_every=0, plus=0, out=f"{folder}/run", progress=clock, **settings,
        )  # fmt: skip
    each = clients * rounds
    later = sorted(clock.rounds[1:-1])  # the last round evaluates
    return result.traffic["up_bytes"] / each, result.traffic["down_bytes"] / each, later[len(later) // 2]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="embedded,flower")
    parser.add_argument("--models", default="lenet5,resnet9")
    parser.add_argument("--sizes", default="5,20")
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    print(
        "| engine | network | clients | up, kB: plain | masked | down, kB: plain | masked | s a round: plain | masked |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for engine in chosen.engines.split(","):
        for model in chosen.models.split(","):
            for size in map(int, chosen.sizes.split(",")):
                plain = measure(engine, model, size, chosen.rounds)
                masked = measure(engine, model, size, chosen.rounds, secure=True)
                both = [
                    f"{value / 1e3:,.1f}" if kind < 2 else f"{value:.2f}"
                    for kind in range(3)
                    for value in (plain[kind], masked[kind])
                ]
                print("|", " | ".join([engine, model, str(size), *both]), "|", flush=True)


if __name__ == "__main__":
    main()

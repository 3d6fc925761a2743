"""Killed with -9 at random moments and resumed, a run ends as one that was left in peace."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SMALL, cli, outcome
from random_kills import Coterie, kill_many

from coterie.algorithms import ALGORITHMS

SEED = 20240229
KILLS = 3


@pytest.fixture(scope="module")
def processes() -> Iterator[Coterie]:
    started = Coterie()
    yield started
    started.end()


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "solo"])
def test_kill_9(method: str, place: Path, processes: Coterie) -> None:
    flags = [
        "run", *SMALL, "--algorithm", method, "--clients", "8", "--rounds", "30", "--epochs", "2", "--eval-every", "3",
        "--straggle", "0.1", "--hostile", "0.1", "--quiet", "--out",
    ]  # fmt: skip
    assert cli(*flags, "whole").code == 0
    checkpoint, luck = place / "run" / "checkpoint.safetensors", random.Random(f"{SEED} {method}")
    endings: list[int] = []
    arguments: list[str] = [*flags, "run"]
    for _ in range(KILLS):
        stamp = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        process = processes.start(*arguments)
        began = time.monotonic()
        while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == stamp:  # this attempt has finished no round
            assert time.monotonic() - began < 60
            if (place / "run" / "result.json").exists():
                break
            time.sleep(0.001)
        time.sleep(luck.uniform(0, 0.3))
        os.kill(process, signal.SIGKILL)
        endings.append(processes.wait())
        arguments = ["resume", "run", "--quiet"]
    assert endings[0] == -signal.SIGKILL, "the run came to its end before it was killed: make it longer"
    assert set(endings) <= {-signal.SIGKILL, 0}
    processes.start(*arguments)
    assert processes.wait() == 0
    assert (place / "output").read_text() == ""
    assert outcome(place / "run") == outcome(place / "whole")


@pytest.mark.integration
def test_random_kills(place: Path) -> None:
    """A few of those of the test below."""
    tally = kill_many(6, SEED, ["scaffold", "pacfl"], ["native"], place)
    assert tally.kills == 6
    assert not tally.wrong


@pytest.mark.slow
def test_a_thousand_random_kills(place: Path) -> None:
    """Of every method, with both trainers: 0 results that differ, and 0 folders that are stuck."""
    tally = kill_many(1000, SEED, list(ALGORITHMS), ["native", "torch"], place)
    assert tally.kills == 1000
    assert not tally.wrong

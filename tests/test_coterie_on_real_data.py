"""Long runs on real data: `make slow`. The data are those of COTERIE_DATA, else of ../shared/data."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import coterie
from coterie.testing import outcome

pytestmark = pytest.mark.slow
FLAGS = [
    "--algorithm",
    "fedavg",
    "--dataset",
    "fashion_mnist",
    "--partition",
    "label-skew:rho=0.2",
    "--model",
    "lenet5",
    "--clients",
    "100",
    "--fraction",
    "0.1",
    "--rounds",
    "10",
    "--epochs",
    "2",
    "--batch-size",
    "10",
    "--lr",
    "0.01",
    "--momentum",
    "0.5",
    "--eval-every",
    "5",
    "--quiet",
]


@pytest.fixture
def environment() -> dict[str, str]:
    folder = os.environ.get("COTERIE_DATA") or str(Path(__file__).parents[2] / "shared" / "data")
    if not (Path(folder) / "fashion_mnist.npz").exists():
        pytest.skip("fashion_mnist.npz is not here: name its folder in COTERIE_DATA")
    return {**os.environ, "COTERIE_DATA": folder}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "coterie", *arguments]


def test_workers_and_ten_kills_change_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    """Issue 2: with 1 and with 2 workers, and killed -9 at ten random moments: the identical result but for times."""
    outcomes = []
    for workers in ("1", "2"):
        began = time.monotonic()
        out = tmp_path / f"workers-{workers}"
        subprocess.run(command("run", *FLAGS, "--workers", workers, "--out", str(out)), env=environment, check=True)
        seconds = time.monotonic() - began
        outcomes.append(outcome(coterie.Result.load(out)))
    assert outcomes[0] == outcomes[1]

    luck, out = random.Random(0), tmp_path / "killed"
    arguments, kills = ["run", *FLAGS, "--out", str(out)], 0
    while kills < 10:
        process = subprocess.Popen(command(*arguments), env=environment)
        moment = luck.uniform(2, 2 + seconds / 6)  # the first two seconds are imports
        try:
            assert process.wait(moment) == 0
            break  # finished before its time
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        if (out / "config.toml").exists():
            arguments = ["resume", str(out), "--quiet"]
    subprocess.run(command("resume", str(out), "--quiet"), env=environment, check=True)
    print(f"killed {kills} times")
    assert kills >= 5
    assert outcome(coterie.Result.load(out)) == outcomes[0]

"""Killed with -9 at random moments and resumed, a run ends as one that was left in peace."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SMALL, cli, outcome

SEED = 20240229
KILLS = 3


class Coterie:
    """Starts processes; see `forking_coterie.py`."""

    def __init__(self) -> None:
        script = Path(__file__).parent / "forking_coterie.py"
        self._server = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, *arguments: str) -> int:
        """Start a command, which writes to the file `output`, and return the id of its process."""
        return self._ask(json.dumps([os.getcwd(), arguments, "output"]))

    def wait(self) -> int:
        """Wait for the end of the command, and return its code, or the signal that ended it, below 0."""
        return self._ask("wait")

    def end(self) -> None:
        self._server.communicate()

    def _ask(self, line: str) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(line + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


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

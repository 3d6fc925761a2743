"""Kills runs with -9 at random moments, goes on with them, and compares what comes of them with runs left in peace.

    python tests/cli/random_kills.py [--kills 1000] [--seed 0] [--methods fedavg,solo] [--trainers native,torch]

Every method runs with every trainer, in turn: into a new folder, with --durable, and over another run (--overwrite).
A process is killed at a moment drawn from the time that the whole run takes, its set-up included; what it left is gone
on with, and killed again, once to three times. Then it runs to its end, and result.json and metrics.jsonl must be those
of the run left in peace but for times. A folder that refuses to be gone on with is stuck.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from command_line import outcome

from coterie.algorithms import ALGORITHMS
from coterie.run.config import to_toml
from coterie.run.settings import settings_to_config
from coterie.testing import small_settings

OTHER_SEED = 9
"""Of the run that others are run over."""
VARIANTS = {"new": [], "durable": ["--durable"], "over": ["--overwrite"]}


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


@dataclass
class Tally:
    """What has been seen."""

    killed: Counter[str] = field(default_factory=Counter)
    """By what was killed, and in which state the folder was left."""
    too_late: int = 0
    """Runs that came to their end before they were killed."""
    folders: int = 0
    wrong: list[str] = field(default_factory=list)
    """Results that differ, and folders that are stuck."""

    @property
    def kills(self) -> int:
        return self.killed.total()

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.killed.items()))
        return (
            f"{self.kills} kills in {self.folders} folders ({states}; {self.too_late} came too late): "
            f"{len(self.wrong)} results that differ or folders that are stuck"
        )


class CannotRun(Exception):
    """A method with a network that the trainer does not know."""


class Killer:
    """Kills the runs of one method and trainer."""

    def __init__(self, processes: Coterie, method: str, trainer: str, luck: random.Random, tally: Tally) -> None:
        self.processes, self.luck, self.tally, self.name = processes, luck, tally, f"{method}-{trainer}"
        settings = {"algorithm": method, **small_settings(method), "trainer": trainer, "workers": 2}
        Path(f"{self.name}.toml").write_text(to_toml(settings_to_config(None, settings)), encoding="utf-8")
        began = time.monotonic()
        self.processes.start("run", f"{self.name}.toml", "--out", self.name, "--quiet")
        if self.processes.wait() != 0:
            raise CannotRun(Path("output").read_text(encoding="utf-8").splitlines()[-1])
        self.seconds, self.whole = time.monotonic() - began, outcome(Path(self.name))

    def kill(self, variant: str, times: int, over: Path) -> None:
        """Kill a run so many times, and see that it ends as it should."""
        folder = Path(f"{self.name}-{self.tally.folders}")
        self.tally.folders += 1
        if variant == "over":
            shutil.copytree(over, folder)
        begin = ["run", f"{self.name}.toml", "--out", str(folder), "--quiet", *VARIANTS[variant]]
        command = begin
        for _ in range(times):
            process = self.processes.start(*command)
            time.sleep(self.luck.uniform(0, 1.05 * self.seconds))
            os.kill(process, signal.SIGKILL)
            code = self.processes.wait()
            self._note(code, folder)
            if code not in (0, -signal.SIGKILL):
                return self._stuck(folder, command)
            command = self._how_to_go_on(folder, begin, variant, code)
        self.processes.start(*command)
        if self.processes.wait() != 0:
            return self._stuck(folder, command)
        if outcome(folder) != self.whole:
            self.tally.wrong.append(f"{folder}: the result differs")
        else:
            shutil.rmtree(folder)

    def _how_to_go_on(self, folder: Path, begin: list[str], variant: str, code: int) -> list[str]:
        """Return what a user would do: resume, or give the command again where the run had not begun."""
        config = folder / "config.toml"
        if variant == "over" and code != 0 and not self._has_begun(config):
            return begin
        return ["resume", str(folder), "--quiet"] if config.exists() else begin

    def _has_begun(self, config: Path) -> bool:
        """Say whether the configuration is already the new one."""
        return f"seed = {OTHER_SEED} " not in config.read_text(encoding="utf-8")

    def _note(self, code: int, folder: Path) -> None:
        if code == 0:
            self.tally.too_late += 1
            return
        left = {"config.toml": "before", "checkpoint.safetensors": "begun", "result.json": "with a checkpoint"}
        state = next((state for name, state in left.items() if not (folder / name).exists()), "with a result")
        self.tally.killed[state] += 1

    def _stuck(self, folder: Path, command: list[str]) -> None:
        said = Path("output").read_text(encoding="utf-8")[-500:]
        self.tally.wrong.append(f"{folder}: stuck at '{' '.join(command)}': {said}")


def kill_many(kills: int, seed: int, methods: Sequence[str], trainers: Sequence[str], place: Path) -> Tally:
    """Kill runs of all methods in turn until there were so many kills; what went wrong stays in `place`."""
    tally, luck, processes = Tally(), random.Random(seed), Coterie()
    with chdir(place):
        try:
            processes.start(
                "run", "--out", "over", "--quiet", "--rounds", "1", "--clients", "3", "--seed", str(OTHER_SEED)
            )
            assert processes.wait() == 0, Path("output").read_text()
            pairs = [(method, trainer) for method in methods for trainer in trainers]
            killers: dict[tuple[str, str], Killer] = {}
            turn = 0
            while tally.kills < kills and len(tally.wrong) < 10:
                pair, variant = pairs[turn % len(pairs)], [*VARIANTS][turn // len(pairs) % len(VARIANTS)]
                try:
                    killers[pair] = killers.get(pair) or Killer(processes, *pair, luck, tally)
                except CannotRun as error:
                    print(f"{' with '.join(pair)} is left out: {error}", file=sys.stderr)
                    pairs.remove(pair)
                    continue
                killers[pair].kill(variant, min(luck.randint(1, 3), kills - tally.kills), Path("over"))
                turn += 1
                if turn % 20 == 0:
                    print(tally, file=sys.stderr, flush=True)
        finally:
            processes.end()
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill runs at random moments, and see that they end as they should.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", default=",".join(ALGORITHMS))
    parser.add_argument("--trainers", default="native,torch")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="coterie-kills-"))
    tally = kill_many(asked.kills, asked.seed, asked.methods.split(","), asked.trainers.split(","), place)
    print(tally)
    for line in tally.wrong:
        print(line)
    if tally.wrong:
        print(f"what is left is in {place}")
        return 1
    shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs of Flower's simulation, to be started in a network namespace of their own.

flower_driver.py FOLDER METHOD...            run each method into FOLDER/METHOD
flower_driver.py --killed FOLDER METHOD      run it, kill -9 the process in the middle, see that nothing is left, resume
flower_driver.py --cluster FOLDER METHOD     run it on a Ray cluster that is there already
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import coterie
from coterie.experiment.progress import Silent

SETTINGS: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 8, "rounds": 4, "fraction": 0.5, "epochs": 1, "eval_every": 2,
}  # fmt: skip


class Killed(Silent):
    """Ends this process the hard way in the middle of the third round."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        self.rounds = round

    def clients(self, done: int, total: int) -> None:
        if getattr(self, "rounds", 0) == 2 and done == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, method: str, **settings: Any) -> None:
    coterie.run(algorithm=method, **SETTINGS, engine="flower", workers=2, out=str(folder / method), **settings)


def of_ray() -> list[str]:
    """The processes of Ray that this one can see."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "raylet" in command or "gcs_server" in command or command.startswith("ray::"):
            found.append(command)
    return found


def main(mode: str, folder: Path, methods: list[str]) -> None:
    if mode == "--killed":
        again = subprocess.run([sys.executable, __file__, "--die", str(folder), *methods], check=False)
        assert again.returncode == -signal.SIGKILL, again.returncode
        end = time.monotonic() + 60
        while of_ray():
            assert time.monotonic() < end, of_ray()
            time.sleep(0.2)
        coterie.resume(folder / methods[0])
    elif mode == "--die":
        run(folder, methods[0], progress=Killed())
    elif mode == "--cluster":
        ray = [str(Path(sys.executable).parent / "ray")]
        start = ["start", "--head", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
        subprocess.run([*ray, *start, "--node-ip-address=127.0.0.1", "--port=6399"], check=True)
        run(folder, methods[0], address="127.0.0.1:6399")
        subprocess.run([*ray, "stop", "--force"], check=True)
    else:
        for method in methods:
            run(folder, method)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given.pop(0) if given[0].startswith("--") else "", Path(given[0]), given[1:])

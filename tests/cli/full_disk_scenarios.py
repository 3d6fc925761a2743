"""What happens on a disk that fills up: run as root of a mount namespace, prints what it saw as JSON.

    unshare --mount python full_disk_scenarios.py FOLDER

In FOLDER a small file system in memory is mounted; filling it is real, and harms nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from command_line import SMALL, Answer, cli, outcome, tree

# Twenty states of 16 kB each in two generations, so that disk space is mostly theirs.
RUN = ["run", *SMALL, "--clients", "20", "--fraction", "1", "--rounds", "6", "--model", "mlp:hidden=55", "--quiet"]


class Disk:
    """A file system of some kilobytes."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        self.folder, self._filling = folder, folder / "filling"
        folder.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs")

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filling.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def free(self) -> None:
        self._filling.unlink(missing_ok=True)

    def fill_when(self, path: Path) -> None:
        """Fill the disk, from another thread, as soon as a file is there."""

        def wait() -> None:
            while not path.exists():
                time.sleep(0.001)
            self.fill()

        threading.Thread(target=wait, daemon=True).start()

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.folder)], check=True, capture_output=True)


def full_in_the_middle(disk: Disk) -> dict[str, Any]:
    run = disk.folder / "run"
    disk.fill_when(run / "journal.jsonl")
    failed = cli(*RUN, "--out", run)
    left = [name for name in tree(run) if name.endswith(".part")]
    still_full = cli("resume", run, "--quiet")
    finished_too_early = (run / "result.json").exists()
    disk.free()
    resumed = cli("resume", run, "--quiet")
    return {
        "failed": failed,
        "left": left,
        "finished too early": finished_too_early,
        "still full": still_full,
        "resumed": resumed,
        "outcome": outcome(run) if resumed.code == 0 else None,
    }


def full_from_the_start(disk: Disk) -> dict[str, Any]:
    run = disk.folder / "run"
    disk.fill()
    failed = cli(*RUN, "--out", run)
    disk.free()
    # Whichever of the two fits what was left behind must work; that the folder is stuck must not be.
    mended = cli("resume", run, "--quiet") if (run / "config.toml").exists() else cli(*RUN, "--out", run)
    return {"failed": failed, "mended": mended, "outcome": outcome(run) if mended.code == 0 else None}


def resumed_beside_its_own_states(disk: Disk) -> dict[str, Any]:
    """A run that fits on the disk, and was killed at its end, still fits when it goes on."""
    run = disk.folder / "run"
    started = cli(*RUN, "--out", run)
    (run / "result.json").unlink(missing_ok=True)
    return {"started": started, "resumed": cli("resume", run, "--quiet")}


def too_small_for_the_states(disk: Disk) -> dict[str, Any]:
    return {"failed": cli(*RUN, "--out", disk.folder / "run"), "left": tree(disk.folder)}


def predictions_on_a_full_disk(disk: Disk) -> dict[str, Any]:
    run, images = disk.folder / "run", disk.folder / "images.npz"
    cli(*RUN, "--out", run)
    np.savez(images, x=np.zeros((2000, 8, 8), np.uint8))
    disk.fill()
    failed = cli("predict", run, images, "--out", disk.folder / "labels.npz")
    return {"failed": failed, "left": (disk.folder / "labels.npz").exists()}


SCENARIOS: list[tuple[Callable[[Disk], dict[str, Any]], int]] = [
    (full_in_the_middle, 4000),
    (full_from_the_start, 4000),
    (resumed_beside_its_own_states, 1400),
    (too_small_for_the_states, 300),
    (predictions_on_a_full_disk, 4000),
]


def main(folder: Path) -> None:
    whole = folder / "whole"
    assert cli(*RUN, "--out", whole).code == 0
    seen: dict[str, Any] = {"whole": outcome(whole)}
    for scenario, kilobytes in SCENARIOS:
        name = scenario.__name__
        seen[name] = scenario(Disk(folder / name, kilobytes))
    print(json.dumps(seen, default=lambda answer: vars(answer) if isinstance(answer, Answer) else str(answer)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Runs of Flower's simulation, to be started in a network namespace of their own.

flower_driver.py --killed FOLDER METHOD      run it, kill -9 the process in the middle, see that nothing is left, resume
flower_driver.py --killed-limited FOLDER METHOD  the same where clients have a privacy limit
flower_driver.py --cluster FOLDER METHOD...  start a Ray cluster and run each method on it, into FOLDER/METHOD
flower_driver.py --small FOLDER METHOD...    the same with the small federations of coterie.testing
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flower_processes import NAMESPACE, end_with_parent

import coterie
from coterie.engine.flower.simulation import OWN_RAY
from coterie.federation.checkpoint import WriteOnce
from coterie.run.progress import Progress

SETTINGS: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 8, "rounds": 4, "fraction": 0.5, "epochs": 1, "eval_every": 2,
}  # fmt: skip
DEPLOYED_METHOD = "pacfl"
KILLED_METHOD = "sub-fedavg-un"
LABELLED_METHOD = "fedavg:labels=both"
CLUSTER_METHOD = "flag"
METHODS = [DEPLOYED_METHOD, KILLED_METHOD, CLUSTER_METHOD, "scaffold", LABELLED_METHOD]
ADDRESS = "127.0.0.1:6399"
PATIENCE = 300
"""Seconds; on a machine without other work a few will do."""


def own_network(shape: tuple[int, ...], classes: int) -> Any:
    """A network that only this program knows, as a notebook's."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, classes))


GIVEN_NETWORK = SETTINGS | {"model": own_network, "rounds": 2}
PRIVATE = SETTINGS | {
    "rounds": 2, "dp_signature": "epsilon=8", "privacy_limit": "epsilon=9", "unprotected": ["train", "evaluate"],
    "algorithm_options": {"redescribe": 1},
}  # fmt: skip
"""Clients describe themselves, and refuse to do it again."""
LIMITED = SETTINGS | {
    "fraction": 1.0, "dp_sgd": "epsilon=8,delta=1e-5,shuffled=true", "privacy_limit": "epsilon=7",
    "unprotected": ["evaluate"],
}  # fmt: skip
"""Clients train privately three times, and refuse the fourth."""


def arrays(value: object, name: str = "") -> dict[str, np.ndarray]:
    """All arrays of a state, by where they are in it."""
    if isinstance(value, np.ndarray):
        return {name: value}
    if isinstance(value, WriteOnce):
        return arrays(value.value, name)
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in arrays(item, f"{name}/{key}").items()}
    if isinstance(value, tuple | list):
        return {k: v for key, item in enumerate(value) for k, v in arrays(item, f"{name}/{key}").items()}
    return {}


def simulate(*arguments: str) -> None:
    """Run this file where Ray can be reached by nobody else; its processes and its files end with it."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as own:
        done = subprocess.run(
            [*NAMESPACE, sys.executable, __file__, *arguments],
            capture_output=True, text=True, timeout=3600, check=False, env={**os.environ, "RAY_TMPDIR": own},
            preexec_fn=end_with_parent,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Killed(Progress):
    """Ends this process the hard way in the middle of the third round."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        self.rounds = round

    def clients(self, done: int, total: int) -> None:
        if getattr(self, "rounds", 0) == 2 and done == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, method: str, settings: Mapping[str, Any] = SETTINGS, workers: int = 2, **more: Any) -> None:
    began = time.monotonic()
    coterie.run(algorithm=method, **settings, engine="flower", workers=workers, out=str(folder / method), **more)
    print(f"{method}: {time.monotonic() - began:.1f} s", flush=True)


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


def killed(folder: Path, method: str, die: str = "--die") -> None:
    elsewhere = Path(os.environ["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    elsewhere.parent.mkdir()
    elsewhere.write_text(ADDRESS)  # as if 'ray start' had been called: nobody listens there, and nobody should ask
    again = subprocess.run([sys.executable, __file__, die, str(folder), method], check=False)
    assert again.returncode == -signal.SIGKILL, again.returncode
    end = time.monotonic() + PATIENCE
    while of_ray():
        assert time.monotonic() < end, of_ray()
        time.sleep(0.2)
    print(f"nothing of Ray is left after {time.monotonic() - end + PATIENCE:.1f} s", flush=True)
    coterie.resume(folder / method)


def settings_of(method: str, small: bool = False) -> dict[str, Any]:
    if method == LABELLED_METHOD:  # of clients that lack labels
        return SETTINGS | {"dataset": "digits", "partition": "label-skew:rho=0.3"}
    if not small:
        return SETTINGS
    from coterie.testing import small_settings  # which takes a while

    return small_settings(method)


def on_a_cluster(folder: Path, methods: list[str], small: bool) -> None:
    """Run methods on one Ray cluster; the processes of Ray end with the namespace, also where something fails."""
    ray = str(Path(sys.executable).parent / "ray")
    began = time.monotonic()
    options = [
        "--num-cpus=2",
        "--num-gpus=1",
        "--include-dashboard=false",
        "--disable-usage-stats",
        f"--port={ADDRESS[-4:]}",
    ]
    environment = {**os.environ, **OWN_RAY}
    for _ in range(5):  # on a busy machine it may give up: see ATTEMPTS
        started = subprocess.run(
            [ray, "start", "--head", "--node-ip-address=127.0.0.1", *options], check=False, env=environment
        )
        if started.returncode == 0:
            break
        subprocess.run([ray, "stop", "--force"], check=False)
    print(f"ray start: {time.monotonic() - began:.1f} s", flush=True)
    for method in methods:
        run(folder, method, settings_of(method, small), address=ADDRESS)
    if not small:
        run(folder / "given", "fedavg", GIVEN_NETWORK, address=ADDRESS, gpu_share=0.5)
        run(folder / "private", "pacfl", PRIVATE, address=ADDRESS)
    assert of_ray(), "the cluster is not ours to end"


def main(mode: str, folder: Path, methods: list[str]) -> None:
    if mode == "--killed":
        killed(folder, *methods)
    elif mode == "--die":
        run(folder, *methods, workers=1, progress=Killed())
    elif mode == "--killed-limited":
        killed(folder, *methods, die="--die-limited")
    elif mode == "--die-limited":
        run(folder, *methods, settings=LIMITED, workers=1, progress=Killed())
    else:
        on_a_cluster(folder, methods, small=mode == "--small")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

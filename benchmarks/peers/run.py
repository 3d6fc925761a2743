"""Coterie beside other federated-learning frameworks: the same federation, seconds per round, in the same run.

    python benchmarks/peers/run.py
    python benchmarks/peers/run.py --peers coterie fedlab --rounds 10 --json

Run it in Coterie's environment; the others get environments of their own, made the first time. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import CLASSES, SHAPE, Federation, prepare

from coterie.messages import ModelSpec
from coterie.models import initial

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
CORES = 2
TIMEOUT = 1800
ALIKE = 0.15
"""How far ‖w − w⁰‖ may be from the reference's; cohorts and batches are drawn differently, which gives some 5 %."""

LOOPBACK_ONLY = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
LOOPBACK_ONLY += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""Ray and torchrun listen on all interfaces: they get one only, and nothing that they start outlives them."""

TORCHRUN = ["-m", "torch.distributed.run", f"--nproc-per-node={CORES}", "--master-addr=127.0.0.1"]
TORCHRUN += ["--master-port=29500"]


@dataclass
class Contestant:
    """How one is installed and started, and what came of it."""

    title: str
    script: str
    extra: Sequence[str] = ()
    launcher: Sequence[str] = ()
    installs: Sequence[Sequence[str]] = ()
    """Arguments of successive `pip install`; none: runs in Coterie's environment."""
    isolated: bool = False
    runs: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None


REFERENCE = "two-processes"
CONTESTANTS = {
    REFERENCE: Contestant("PyTorch loop, two processes", "two_processes.py"),
    "coterie": Contestant("Coterie, compiled trainer", "coterie_run.py", ["native"]),
    "coterie-torch": Contestant("Coterie, --trainer torch", "coterie_run.py", ["torch"]),
    "flower": Contestant(
        "Flower simulation on Ray, two actors",
        "flower_run.py",
        installs=[[TORCH, "flwr[simulation]==1.41.0", "ray==2.55.1"]],
        isolated=True,
    ),
    "pfl": Contestant(
        "pfl, two processes",
        "pfl_run.py",
        launcher=TORCHRUN,
        installs=[[TORCH, "pfl[pytorch]==0.6.0"]],
        isolated=True,
    ),
    "fedlab": Contestant(
        "FedLab standalone, one process",
        "fedlab_run.py",
        # all that it requires but torchvision, of which it uses nothing here
        installs=[
            [TORCH, "numpy", "pandas", "scikit-learn", "pynvml", "tqdm", "munch", "pillow"],
            ["--no-deps", "fedlab==1.3.0"],
        ],
    ),
}


class Failed(Exception):
    """A contestant did not come to its end; says why in a line, and keeps what it printed."""

    def __init__(self, why: str, output: str = "") -> None:
        super().__init__(why)
        self.output = output


def coteries_start(seed: int) -> np.ndarray:
    """Return the parameters from which Coterie starts, one after the other."""
    first = initial(ModelSpec("lenet5", SHAPE, CLASSES), seed)
    return np.concatenate([array.ravel() for array in first.values()])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def execute(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; return what it printed."""
    with subprocess.Popen(
        command, env=environment, cwd=HERE, text=True, errors="replace", start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {TIMEOUT} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        lines = [line.strip() for line in output.splitlines() if re.search(r"\w", line)]
        lines = lines or [f"it ended with {process.returncode}"]
        errors = [line for line in lines if re.search(r"error: \S", line, re.IGNORECASE)]
        raise Failed((errors or lines)[-1], output)
    return output


def python_of(name: str, environments: Path) -> Path:
    """Return the interpreter of a contestant; make its environment if it is not there as wanted."""
    installs = CONTESTANTS[name].installs
    if not installs:
        return Path(sys.executable)
    folder, wanted = environments / name, json.dumps(installs)
    done = folder / "installed.json"
    if not done.exists() or done.read_text() != wanted:
        say(f"{name}: making its environment, which takes minutes")
        shutil.rmtree(folder, ignore_errors=True)
        execute([sys.executable, "-m", "venv", str(folder)])
        for arguments in installs:
            execute([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments])
        done.write_text(wanted)
    return folder / "bin" / "python"


def measure(name: str, python: Path, folder: Path, federation: Federation) -> dict[str, Any]:
    """Run a contestant once, and check that it did the work."""
    contestant = CONTESTANTS[name]
    quiet = {
        "OMP_NUM_THREADS": "1",
        "FLWR_HOME": str(folder / "flower"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder), "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    command = [str(python), *contestant.launcher, str(HERE / contestant.script), str(folder), *contestant.extra]
    output = execute([*LOOPBACK_ONLY, *command] if contestant.isolated else command, os.environ | quiet)
    lines = [line for line in output.splitlines() if line.startswith('{"seconds"')]
    if not lines:
        raise Failed("it printed no result", output)
    result: dict[str, Any] = json.loads(lines[-1])
    if len(result["seconds"]) != federation.rounds or result["steps"] != federation.steps:
        raise Failed(
            f"{result['steps']} steps in {len(result['seconds'])} rounds instead of "
            f"{federation.steps} in {federation.rounds}",
            output,
        )
    reference = CONTESTANTS[REFERENCE].runs
    expected = reference[-1]["moved"] if reference else result["moved"]
    if not expected > 0 or not abs(result["moved"] / expected - 1) <= ALIKE:  # "not", since it may be no number
        raise Failed(f"the model moved by {result['moved']:.3f}, the reference's by {expected:.3f}", output)
    result["seconds"] = result["seconds"][1:]
    return result


def summary(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per contestant; its ratio is taken within each repeat, since the machine is noisy."""
    rows = []
    reference = CONTESTANTS[REFERENCE].runs
    for name in names:
        contestant = CONTESTANTS[name]
        row: dict[str, Any] = {"name": name, "title": contestant.title, "error": contestant.error}
        if contestant.runs:
            row["seconds_per_round"] = median(second for run in contestant.runs for second in run["seconds"])
            pairs = zip(reference, contestant.runs, strict=False)
            ratios = [median(theirs["seconds"]) / median(own["seconds"]) for theirs, own in pairs]
            row["times_faster"] = median(ratios) if ratios else None
            row["moved"] = contestant.runs[-1]["moved"]
            row["versions"] = contestant.runs[-1]["versions"]
        rows.append(row)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| | seconds per round | speed | ‖w − w⁰‖ | versions |", "|---|---:|---:|---:|---|"]
    for row in rows:
        if row["error"] is not None:
            lines.append(f"| {row['title']} | failed | – | – | {row['error']} |")
            continue
        versions = ", ".join(f"{package} {version}" for package, version in row["versions"].items())
        speed = "–" if row["times_faster"] is None else f"{row['times_faster']:.2f}"
        lines.append(f"| {row['title']} | {row['seconds_per_round']:.3f} | {speed} | {row['moved']:.3f} | {versions} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time Coterie beside other frameworks.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to time, after one to warm up (5)")
    parser.add_argument("--repeats", type=int, default=3, help="times that each contestant takes its turn (3)")
    parser.add_argument(
        "--peers", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS), metavar="NAME",
        help=f"who takes part besides {REFERENCE}: {', '.join(CONTESTANTS)} (all)",
    )  # fmt: skip
    parser.add_argument(
        "--environments", type=Path, default=HERE / ".venv-peers", help="where the environments are (.venv-peers here)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the seconds of each round")
    options = parser.parse_args()
    if options.rounds < 1 or options.repeats < 1:
        parser.error("there must be at least one round and one repeat")

    names = [name for name in CONTESTANTS if name == REFERENCE or name in options.peers]
    federation = Federation(rounds=options.rounds + 1)
    pythons = {}
    for name in names:
        try:
            pythons[name] = python_of(name, options.environments.absolute())
        except Failed as failure:
            CONTESTANTS[name].error = f"not installed: {failure}"
            say(f"{name}: {CONTESTANTS[name].error}")

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # the contestants inherit it
    say(f"load before: {os.getloadavg()[0]:.2f}; it should be near 0")
    with tempfile.TemporaryDirectory(prefix="peers-") as temporary:
        folder = Path(temporary)
        prepare(folder, federation, coteries_start(federation.seed))
        for repeat in range(options.repeats):
            for name in names:
                contestant = CONTESTANTS[name]
                if contestant.error is not None:
                    continue
                try:
                    contestant.runs.append(measure(name, pythons[name], folder, federation))
                    seconds = median(contestant.runs[-1]["seconds"])
                    say(f"repeat {repeat + 1}/{options.repeats}: {name}, {seconds:.3f} s a round")
                except Failed as failure:
                    contestant.error = str(failure)
                    log = options.environments / f"{name}.log"
                    log.parent.mkdir(parents=True, exist_ok=True)
                    log.write_text(failure.output)
                    say(f"repeat {repeat + 1}/{options.repeats}: {name} failed: {failure}; see {log}")

    rows = summary(names)
    if options.json:
        runs = {name: [run["seconds"] for run in CONTESTANTS[name].runs] for name in names}
        print(json.dumps({"federation": vars(federation), "contestants": rows, "seconds": runs}, indent=1))
    else:
        print(table(rows))
    if any(row["error"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What a federation costs as it grows to 100,000 clients: start, a round, memory, disk, and how well it was foretold.

    python benchmarks/scale.py                             # FedAvg and PACFL, 100 to 100,000 clients
    python benchmarks/scale.py --clients 100,1000 --rounds 5
    python benchmarks/scale.py --kill                      # also kill each largest run, resume it, and compare
    python benchmarks/scale.py --docs docs                 # also write tables and picture into docs/scale.md
    python benchmarks/scale.py --clients 1000000 --methods fedavg --rounds 3 --eval-every 0

Every client has 20 images of 1×8×8: scikit-learn's digits, drawn with replacement, in four groups that see them turned.
A round asks 100 clients. Each run is a process of its own, so that its memory is its own. CPU is what all threads took
together, which on a busy machine says more than seconds. Prints a table, and writes
scale.json and scale.png into the folder that --out names.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import coterie
from coterie.run.dry_run import estimate
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config

COHORT, SAMPLES, EVERY = 100, 20, 10
GOALS = {"start": "< 60 s", "round": "≤ 1.5 × that of 1,000", "memory": "< 3 GB", "whole": "< 300 s"}


class RoundClock(Progress):
    """When rounds ended, and which were evaluated."""

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}
        self.cpu: dict[int, float] = {}
        self.evaluated: set[int] = set()
        self.began, self.cpu_began = time.perf_counter(), time.process_time()

    def round(self, round: int, row: object) -> None:
        self.ends[round] = time.perf_counter() - self.began
        self.cpu[round] = time.process_time() - self.cpu_began
        if row is not None:
            self.evaluated.add(round)

    def typical(self, ends: dict[int, float]) -> float:
        """Return the median of the rounds that were not evaluated; of all, if all were."""
        took = {t: ends[t] - ends[t - 1] for t in ends if t - 1 in ends}
        return float(np.median([took[t] for t in took if t not in self.evaluated] or [*took.values()]))


def written(path: Path, clients: int) -> str:
    """Write the images of so many clients; the server's set comes on top."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    count = clients * SAMPLES + min(2500, -(-clients * SAMPLES // 19))
    drawn = np.random.default_rng(0).integers(0, len(digits.target), count)
    np.savez(path, x_train=(15 * digits.images).astype(np.uint8)[drawn], y_train=digits.target[drawn])
    return str(path)


def settings(method: str, data: str, clients: int, asked: argparse.Namespace) -> dict[str, Any]:
    return {
        "dataset": data, "partition": "rotated", "clients": clients, "fraction": min(1.0, COHORT / clients),
        "algorithm": method, "model": "mlp:hidden=64", "rounds": asked.rounds, "epochs": 2,
        "eval_every": asked.eval_every, "seed": 0,
    }  # fmt: skip


def run_here(given: dict[str, Any], out: str) -> dict[str, Any]:
    """Run in this process, which does nothing else; return what it took."""
    clock = RoundClock()
    result = coterie.run(**given, out=out, progress=clock)
    whole = time.perf_counter() - clock.began
    folder = sum(path.stat().st_size for path in Path(out).rglob("*") if path.is_file())
    return {
        "start": clock.ends[0],
        "start cpu": clock.cpu[0],
        "round": clock.typical(clock.ends),
        "round cpu": clock.typical(clock.cpu),
        "whole": whole,
        "cpu": time.process_time() - clock.cpu_began,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "disk": folder,
        "traffic": (result.traffic["down_bytes"] + result.traffic["up_bytes"]) / given["rounds"],
        "accuracy": result.accuracy["L"],
    }


def forecast_here(given: dict[str, Any]) -> dict[str, Any]:
    """Return what `coterie run --dry-run` says of it."""
    said = estimate(settings_to_config(None, given))
    return {"whole": said.seconds, "cpu": said.cpu, "memory": said.memory, "disk": said.disk}


def in_child(task: str, given: dict[str, Any], out: str = "") -> dict[str, Any]:
    """Do a task in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--task", task, json.dumps(given), out],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": f"ended with code {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def killed_and_resumed(given: dict[str, Any], out: str, after: int) -> None:
    """Start a run, kill it when its checkpoint is past a round, and resume it to the end."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--task", "run", json.dumps(given), out], stdout=subprocess.DEVNULL
    )
    journal = Path(out) / "journal.jsonl"
    while child.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") <= after):
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    in_child("resume", given, out)


def same_numbers(one: str, other: str) -> bool:
    """Whether two runs measured the same, round by round, but for times."""

    def rows(folder: str) -> list[dict[str, Any]]:
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]

    ends = [coterie.Result.load(Path(folder)).accuracy for folder in (one, other)]
    return ends[0] == ends[1] and rows(one) == rows(other)


def child(task: str, given: dict[str, Any], out: str) -> None:
    if task == "run":
        print(json.dumps(run_here(given, out)))
    elif task == "forecast":
        print(json.dumps(forecast_here(given)))
    else:
        coterie.resume(out)
        print("{}")


def row(name: str, clients: int, took: dict[str, Any], said: dict[str, Any]) -> str:
    if "failed" in took:
        return f"| {name} | {clients:,} | {took['failed']}" + " |" * 11
    factors = (
        "– | –" if "failed" in said else f"{said['cpu'] / took['cpu']:.2f} | {said['memory'] / took['memory']:.2f}"
    )
    return (
        f"| {name} | {clients:,} | {took['start']:.1f} | {took['round']:.3f} | {took['whole']:.0f} "
        f"| {took['start cpu']:.1f} | {took['round cpu']:.3f} | {took['cpu']:.0f} "
        f"| {took['memory'] / 1e6:,.0f} | {took['disk'] / 1e6:,.1f} | {took['traffic'] / 1e6:.1f} | {factors} |"
    )


HEADER = (
    "| method | clients | start, s | a round, s | whole run, s | CPU: start, s | a round, s | whole, s | memory, MB "
    "| disk, MB | traffic a round, MB | forecast of CPU time ÷ it | forecast of memory ÷ it |\n|" + "---|" * 13
)


def on_paper(found: list[dict[str, Any]]) -> str:
    """Return what more clients would need, by the slope between the two largest federations of each method."""
    lines = ["| method | clients | start, s | memory, GB | disk, GB |", "|---|---|---|---|---|"]
    for method in dict.fromkeys(one["method"] for one in found):
        sound = sorted(
            (one for one in found if one["method"] == method and "start" in one), key=lambda one: one["clients"]
        )
        for clients in (10**6, 10**7) if len(sound) > 1 else ():
            fewer, more = sound[-2:]
            far = (clients - more["clients"]) / (more["clients"] - fewer["clients"])
            start, memory, disk = (more[key] + far * (more[key] - fewer[key]) for key in ("start", "memory", "disk"))
            lines.append(f"| {method} | {clients:,} | {start:,.0f} | {memory / 1e9:,.1f} | {disk / 1e9:,.1f} |")
    return "\n".join(lines)


def fill(page: Path, sections: dict[str, str]) -> None:
    """Put texts between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    for name, content in sections.items():
        before, mark, rest = text.partition(f"<!-- scale.py: {name} -->\n")
        after = rest.partition("<!-- scale.py: end -->")[2]
        text = f"{before}{mark}\n{content}\n\n<!-- scale.py: end -->{after}"
    page.write_text(text, encoding="utf-8")


def plot(found: list[dict[str, Any]], path: Path) -> None:
    """Draw each cost over the number of clients, both on logarithmic scales of whole decades."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = (
        ("start", "start, s", 1),
        ("round", "a round, s", 1),
        ("memory", "memory, GB", 1e9),
        ("disk", "disk, MB", 1e6),
    )
    figure, axes = plt.subplots(1, len(shown), figsize=(13, 3.2), constrained_layout=True)
    for axis, (key, label, unit) in zip(axes, shown, strict=True):
        for method in dict.fromkeys(one["method"] for one in found):
            of_method = [one for one in found if one["method"] == method and key in one]
            axis.plot([one["clients"] for one in of_method], [one[key] / unit for one in of_method], "o-", label=method)
        axis.set(xscale="log", yscale="log", xlabel="clients", title=label)
        lowest, highest = (math.log10(limit) for limit in axis.get_ylim())
        axis.set_ylim(10.0 ** math.floor(lowest), 10.0 ** math.ceil(highest))  # whole decades: noise is no growth
        axis.grid(True, which="major", alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        return child(sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="100,1000,10000,100000")
    parser.add_argument("--methods", default="fedavg,pacfl")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--eval-every", type=int, default=EVERY)
    parser.add_argument("--kill", action="store_true", help="kill and resume the largest run of each method")
    parser.add_argument("--no-forecast", action="store_true")
    parser.add_argument("--docs", type=Path, help="the folder of scale.md, to be filled in")
    parser.add_argument("--out", type=Path, default=Path("scale"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    sizes, found = [int(size) for size in asked.clients.split(",")], []
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as name:
        for clients in sizes:
            data = written(Path(name) / f"{clients}.npz", clients)
            for method in asked.methods.split(","):
                given, out = settings(method, data, clients, asked), f"{name}/{method}-{clients}"
                said = {"failed": "not asked"} if asked.no_forecast else in_child("forecast", given)
                took = in_child("run", given, out)
                found.append({"method": method, "clients": clients, **took, "forecast": said})
                print(row(method, clients, took, said), flush=True)
                if asked.kill and clients == max(sizes) and "failed" not in took:
                    killed_and_resumed(given, f"{out}-killed", asked.rounds // 2)
                    same = same_numbers(out, f"{out}-killed")
                    print(
                        f"{method}, killed after round {asked.rounds // 2}: {'the same' if same else 'OTHER'} numbers"
                    )
    (asked.out / "scale.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    plot(found, asked.out / "scale.png")
    if asked.docs is not None:
        plot(found, asked.docs / "assets" / "scale.png")
        rows = [row(one["method"], one["clients"], one, one["forecast"]) for one in found]
        picture = "![Start, a round, memory and disk over the number of clients](assets/scale.png)"
        fill(asked.docs / "scale.md", {"growth": "\n".join([HEADER, *rows, "", picture]), "paper": on_paper(found)})
    print("goals at 100,000 clients: " + ", ".join(f"{what} {goal}" for what, goal in GOALS.items()))


if __name__ == "__main__":
    main()

"""Memory of a round with 500 replies of ResNet-9 against one with 2: a method that averages needs a few models.

python benchmarks/reply_memory.py
python benchmarks/reply_memory.py --methods fedavg --replies 50 --rule clipped

What is measured is the server. Its clients are played by an engine that answers with the model that it was sent, moved
a little; they come in an order of their own, and each has two samples. Methods that group have four groups. Each round
is one process, of which the largest resident memory counts, and of that what the round adds to a process that is ready
to begin it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from coterie.client import MemoryStore
from coterie.federation import EngineWrapper
from coterie.messages import Answer, ClientId, Failure, Losses, LossesReply, Params, Reply, Request, Train, TrainReply
from coterie.messages.params import STATISTICS
from coterie.messages.plan import total_steps
from coterie.run.building import completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.training import one_thread

METHODS = ("fedavg", "pacfl", "ifca", "scaffold")
GROUPING = ("pacfl", "ifca")
CLIENTS, SAMPLES = 500, 2
GOAL = 2**30


class Played(EngineWrapper):
    """Answers in the clients' place: each sends what it received, moved a little; neighbours change places."""

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Answer one client after the other."""
        clients, present = [*requests], self.present(1)
        for first in range(0, len(clients), 4):
            for client in reversed(clients[first : first + 4]):
                request = requests[client]
                answers = tuple(answer(client, present[client], request, verb) for verb in request.verbs)
                yield Reply(client, request.round, answers)


def answer(client: ClientId, samples: int, request: Request, verb: object) -> Answer:
    """Return what a client says."""
    if isinstance(verb, Losses):
        best = client % len(verb.models)
        losses = tuple(1.0 if k == best else 2.0 for k in range(len(verb.models)))
        wins = tuple(samples if k == best else 0 for k in range(len(verb.models)))
        return LossesReply(samples, losses, wins, wins)
    assert isinstance(verb, Train)
    start = request.models.get("model") or [*request.models.values()][client % len(request.models)]
    steps = total_steps(samples, verb.plan)
    params = {name: moved(value, client, name) for name, value in start.items()}
    control: dict[str, np.ndarray] = {}
    if verb.plan.correction is not None:
        path, server = np.float32(verb.plan.lr.path(steps)), request.models[verb.plan.correction]
        control = {name: (start[name] - params[name]) / path - c for name, c in server.items()}
    return TrainReply(samples, steps, 1.0, params, control)


def moved(value: np.ndarray, client: ClientId, name: str) -> np.ndarray:
    """Return a tensor moved a little; what is counted stays."""
    if value.dtype.kind != "f" or name.endswith(STATISTICS):
        return value.copy()
    return value + np.float32(1e-4 * (client % 7 - 3))


def resident() -> int:
    """Return the largest memory that this process has taken so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def round_of(method: str, replies: int, rule: str, data: Path) -> None:
    """Make one round, and print what it took."""
    settings = {"dataset": str(data), "model": "resnet9", "clients": CLIENTS, "fraction": replies / CLIENTS}
    groups = {"groups": 4} if method in GROUPING else {}  # of random samples each client would be one
    config = settings_to_config(None, {"algorithm": method, "epochs": 1, "aggregation": rule, **settings, **groups})
    divided = load_data(config)
    with one_thread(), session(completed(config, divided), divided, MemoryStore(), folder=data.parent) as run:
        run.algorithm.begin(run.fed)
        run.fed.wrap_engine(Played)
        run.fed.start_round(1)
        before, began = resident(), time.perf_counter()
        run.algorithm.round(run.fed, run.fed.cohort(1))
        assert run.fed.training.replies == replies, run.fed.events
        size: Params = run.fed.initial()
        model = sum(value.nbytes for value in size.values())
        print(resident() - before, resident(), model, time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--replies", type=int, default=500)
    parser.add_argument("--rule", default="mean", help="of [aggregation]")
    parser.add_argument("--round", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.round:
        return round_of(given.round[0], int(given.round[1]), given.rule, Path(given.round[2]))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        data, rng = Path(folder).resolve() / "generated.npz", np.random.default_rng(0)
        count = CLIENTS * SAMPLES * 20 // 19 + 100  # the server's set is taken first
        np.savez(data, x_train=rng.integers(0, 256, (count, 32, 32), np.uint8), y_train=rng.permutation(count) % 10)
        for method in given.methods:
            took = {}
            for replies in (2, given.replies):
                command = [sys.executable, __file__, "--rule", given.rule, "--round", method, str(replies), str(data)]
                took[replies] = [*map(float, subprocess.check_output(command, text=True).split())]
            (less, few, model, _), (more, many, _, seconds) = took.values()
            met = "met" if many - few < GOAL else "MISSED"
            print(
                f"{method:9} {given.rule}: {given.replies} replies of {model / 2**20:.1f} MiB add "
                f"{more / 2**20:.0f} MiB in {seconds:.0f} s, 2 add {less / 2**20:.0f} MiB; peak "
                f"{many / 2**30:.2f} GiB against {few / 2**30:.2f} GiB, {(many - few) / 2**30:+.2f} GiB "
                f"(goal: below +1 GiB, {met})",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()

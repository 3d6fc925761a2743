"""What lying clients can do to the models of honest ones, with each way of putting models together.

    python benchmarks/attacks.py [--methods fedavg,flag] [--rounds 20] [--seeds 0] [--lies flip,huge]

20 clients, all in every round, of whom 0, 1, 2 or 4 lie in every round, always the same ones (`--liars`): fedavg and
scaffold on the digits, ifca, pacfl and flag on the rotated digits, where a group has 5 clients. `clipped` is as
`coterie deploy init` writes it, with max_weight = 10 and max_samples = 1,000,000. Numbers are the mean accuracy C of
the honest clients, in per cent. Prints a table per method in Markdown, and where both median and trimmed are more than
2 points below the same rule unattacked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

import coterie
from coterie.engine import SimulatedFaults
from coterie.engine.faults import Lie
from coterie.federation.aggregation import AggregationRule
from coterie.run.result import Result

CLIENTS, MOST = 20, 4
COUNTS = (1, 2, 4)
RULES = get_args(AggregationRule)
LIES = [lie for lie in get_args(Lie) if lie != "nonsense"]
POINTS = 2.0
"""So much worse than without an attack is allowed."""
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"dataset": "digits"},
    "scaffold": {"dataset": "digits"},
    "ifca": {"dataset": "digits-rotated", "groups": 4, "algorithm_options": {"init_retry": 20}},
    "pacfl": {"dataset": "digits-rotated"},
    "flag": {"dataset": "digits-rotated"},
}


def played(method: str, rule: str, lie: str, liars: int, rounds: int, seed: int) -> Result:
    attack: dict[str, Any] = {"hostile_kind": lie, "liars": liars} if liars else {}
    attack |= {"max_weight": 10.0, "max_samples": 1_000_000} if rule == "clipped" else {}
    return coterie.run(
        algorithm=method, aggregation=rule, clients=CLIENTS, fraction=1.0, rounds=rounds, epochs=3, lr=0.05,
        eval_every=0, workers=1, seed=seed, **METHODS[method], **attack,
    )  # fmt: skip


def liars_of(count: int, seed: int) -> frozenset[int]:
    return SimulatedFaults(liars=count, clients=CLIENTS, seed=seed).always


def honest_accuracy(result: Result, liars: frozenset[int]) -> float:
    scores = [score for client, score in enumerate(result.per_client["C"]) if client not in liars and score is not None]
    return 100 * float(np.mean(scores))


def outnumbered(result: Result, liars: frozenset[int]) -> bool:
    """Say whether in a group that has honest clients at least half lie."""
    groups = result.groups or [0] * CLIENTS
    for group in {*groups}:
        members = [client for client, own in enumerate(groups) if own == group]
        lying = len([client for client in members if client in liars])
        if lying < len(members) <= 2 * lying:
            return True
    return False


def table(method: str, lies: Sequence[str], rounds: int, seeds: Sequence[int]) -> tuple[list[str], list[str]]:
    """Return the lines of a method's table, and what fails."""
    lines = [f"| {method} | liars | {' | '.join(RULES)} |", "|---|---|" + "---|" * len(RULES)]
    failed: list[str] = []
    quiet = {(rule, seed): played(method, rule, "flip", 0, rounds, seed) for rule in RULES for seed in seeds}
    alone = {rule: np.mean([honest_accuracy(quiet[rule, seed], frozenset()) for seed in seeds]) for rule in RULES}
    lines.append("| no attack | 0 | " + " | ".join(f"{alone[rule]:.1f}" for rule in RULES) + " |")
    for lie in lies:
        for count in COUNTS:
            cells, worst = [], {}
            for rule in RULES:
                found, gaps, lost = [], [], False
                for seed in seeds:
                    liars = liars_of(count, seed)
                    result = played(method, rule, lie, count, rounds, seed)
                    found.append(honest_accuracy(result, liars))
                    gaps.append(found[-1] - honest_accuracy(quiet[rule, seed], liars))
                    lost |= outnumbered(result, liars)
                gap = float(np.mean(gaps))
                cells.append(f"{np.mean(found):.1f} ({gap:+.1f}){'*' * lost}")
                worst[rule] = gap
            if max(worst["median"], worst["trimmed"]) < -POINTS:
                failed.append(f"{method}, {lie}, {count} liars{' *' * lost}")
            lines.append(f"| {lie} | {count} | {' | '.join(cells)} |")
    return lines, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--lies", default=",".join(LIES))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", default="0")
    asked = parser.parse_args()
    seeds, began, failed = [int(seed) for seed in asked.seeds.split(",")], time.monotonic(), []
    for method in asked.methods.split(","):
        lines, worse = table(method, asked.lies.split(","), asked.rounds, seeds)
        print("\n".join(lines), end="\n\n", flush=True)
        failed += worse
    print("In brackets: against the same rule and clients without an attack. *: in some group half or more lie.")
    print(f"More than {POINTS:g} points are lost by median and by trimmed: {'; '.join(failed) or 'nowhere'}.")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
